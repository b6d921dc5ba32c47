"""Command lines that are wrong: what was given, what is wanted, which help has more."""

import harness
import pytest


@pytest.mark.parametrize(("arguments", "said", "help_of"), [
    (["read", "x", "--shuffle", "y"],
     "read: --shuffle 'y': expected a whole number from 0 on, as in --shuffle 7; if 'y' is no value of it, name it "
     "before --shuffle", "read"),
    (["read", "x", "--epochs"], "read: --epochs: expected a whole number", "read"),
    (["read", "x", "--foo"], "read: there is no --foo", "read"),
    (["read"], "read: DATASET is required", "read"),
    (["verify", "x", "-j", "0"], "verify: --jobs: '0' is not a whole number from 1 on", "verify"),
    (["verify", "x", "--level", "foo"], "verify: --level: foo not in {headers,", "verify"),
    (["foo"], "there is no 'foo'; there are: convert, verify,", ""),
    ([], "which one? There are: convert, verify,", ""),
    (["convert", "foo"], "convert: there is no 'foo'; there are: imagefolder,", "convert"),
    (["convert", "text", "a", "b@1", "--level"], "text: --level: expected a whole number, as in --level 7",
     "convert text"),
])
def test_wrong_use_is_explained(arguments, said, help_of):
    result = harness.run(*arguments)
    assert result.status == harness.USAGE
    first, second = result.err.splitlines()
    assert first.startswith(f"shardfeed: {said}"), first
    assert second == f"Run '{f'shardfeed {help_of}'.strip()} --help' for what there is."

"""sf.index(lengths=): lengths of records in the index, of features and of what functions return."""

import sys

import numpy as np
import pytest
from harness import REPOSITORY, flip, succeed, tree, verify

sys.path.insert(0, str(REPOSITORY / "python"))
sf = pytest.importorskip("shardfeed", reason="the package is not built: python/build_package.py")

HERE_AND_IN_STORE = True


@pytest.fixture
def spec(tmp_path):
    with sf.write(tmp_path / "d@3") as writer:
        for i in range(2000):
            writer.write({"tokens": np.arange(i % 300), "text": "x" * (i % 11)})
    return tmp_path / "d@3"


def inspected(spec):
    return sf.inspect(spec, records=0).data.get("lengths", {})


def words(row):
    return len(row["text"]) * 1000


def test_lengths_of_features(spec):
    done = sf.index(spec, lengths=["tokens", "text"])
    assert done["lengths"] == inspected(spec)
    assert "  lengths of text: 9991 in all, mean 5.0, largest 10" in repr(sf.inspect(spec)).splitlines()
    total = sum(i % 300 for i in range(2000))
    assert done["lengths"]["tokens"] == {"total": total, "mean": total / 2000, "max": 299, "shards": 3}
    assert done["shards_measured"] == 3 and sf.index(spec, lengths=("text",))["shards_measured"] == 0
    assert list(sf.index(spec)["lengths"]) == ["text", "tokens"]


@pytest.mark.parametrize("threads", [None, 1, 3])
def test_lengths_by_functions(spec, threads):
    sf.index(spec, lengths=["tokens"])
    done = sf.index(spec, lengths={"words": words, "ones": lambda row: np.int8(1)}, threads=threads)
    assert done["lengths"] == inspected(spec) and list(done["lengths"]) == ["ones", "tokens", "words"]
    total = sum(i % 11 for i in range(2000)) * 1000
    assert done["lengths"]["words"] == {"total": total, "mean": total / 2000, "max": 10_000, "shards": 3}
    assert verify(spec)["num_defects"] == 0  # indexes and their pack
    # A function is called again, and replaces the lengths.
    assert sf.index(spec, lengths={"words": lambda row: 2})["lengths"]["words"]["total"] == 4000
    assert inspected(spec)["words"]["max"] == 2


def test_lengths_by_functions_are_those_of_features(spec, tmp_path):
    """Record by record: the files are the same."""
    sf.index(spec, lengths=["tokens"])
    by_feature = tree(tmp_path)
    sf.index(spec, lengths={"tokens": lambda row: 0})
    assert tree(tmp_path) != by_feature
    sf.index(spec, lengths={"tokens": lambda row: len(row["tokens"])})
    assert tree(tmp_path) == by_feature


def test_other_commands_keep_lengths_of_functions(spec):
    sf.index(spec, lengths={"words": words})
    before = inspected(spec)
    succeed("index", spec, "--length", "words")  # there is no such feature, but there are these lengths
    sf.index(spec)
    for path in sorted(spec.parent.glob("d-*")):
        sf.index_shard(path)
    assert inspected(spec) == before


@pytest.mark.parametrize("fn, error, message", [
    (lambda row: 1.5, TypeError, "index: <lambda> must return a length, an integer, not 1.5"),
    (lambda row: -1, ValueError, "index: <lambda> returned a length of -1"),
    (lambda row: 1 << 63, ValueError, "index: <lambda> returned a length of 9223372036854775808"),
    (lambda row: row["none"], KeyError, "none"),
])
def test_wrong_functions(spec, tmp_path, fn, error, message):
    before = tree(tmp_path)
    with pytest.raises(error) as raised:
        sf.index(spec, lengths={"words": fn})
    assert message in str(raised.value)
    assert tree(tmp_path) == before


def test_wrong_arguments(spec):
    with pytest.raises(TypeError, match="index: lengths must be a list, each a str or a dict .*, not 'tokens'"):
        sf.index(spec, lengths="tokens")
    with pytest.raises(TypeError, match="index: lengths must be "):
        sf.index(spec, lengths={"tokens": 3})
    with pytest.raises(ValueError, match="no record has a feature named 'tokns'; did you mean 'tokens'?"):
        sf.index(spec, lengths=["tokns"])
    with pytest.raises(ValueError, match="index: lengths has a column without a name"):
        sf.index(spec, lengths={"": words})


def test_sums_beyond_64_bits(spec):
    with pytest.raises(ValueError, match="length column 'huge': the sum of the lengths exceeds 64 bits"):
        sf.index(spec, lengths={"huge": lambda row: (1 << 63) - 1})


def test_damage_is_an_error(spec, tmp_path):
    flip(tmp_path / "d-00001-of-00003", 5000)
    with pytest.raises(sf.DataLossError, match="d-00001-of-00003"):
        sf.index(spec, lengths={"words": words})


def test_no_records(tmp_path):
    with sf.write(tmp_path / "d@2", features={"tokens": sf.var(sf.int64)}):
        pass
    done = sf.index(tmp_path / "d@2", lengths={"words": words})
    assert done["lengths"]["words"] == {"total": 0, "mean": 0, "max": 0, "shards": 2}

"""Some of the cases of worlds.py; scripts/worlds tries ten thousand."""

import sys

import mixed_worlds
import pytest
import worlds
from harness import REPOSITORY

sys.path.insert(0, str(REPOSITORY / "python"))
sf = pytest.importorskip("shardfeed", reason="the package is not built: python/build_package.py")


def test_other_worlds_share_out_what_is_left(tmp_path):
    runs, wrong = worlds.run_all(sf, tmp_path, range(150))
    assert wrong == []
    assert runs > 200


def test_mixtures_are_shared_out_packed_and_edited_as_the_model_says(tmp_path):
    assert sum(mixed_worlds.run(sf, tmp_path, seed) for seed in range(120)) > 200

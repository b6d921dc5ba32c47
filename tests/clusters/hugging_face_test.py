"""Datasets read by Hugging Face's library."""

import pytest
from cluster_data import SHARDS, dataset, example, in_order, sf


class TestHuggingFace:
    def test_loading_and_resuming(self, dataset):
        pytest.importorskip("datasets")
        import shardfeed.hf
        ds = shardfeed.hf.load(dataset, ["n", "text"])
        order = in_order(dataset)
        assert [r["n"] for r in ds] == order
        assert ds.num_shards == SHARDS
        it = iter(ds)
        first = [next(it)["n"] for _ in range(300)]
        state = ds.state_dict()
        again = shardfeed.hf.load(dataset, ["n", "text"])
        again.load_state_dict(state)
        assert first + [r["n"] for r in again] == order
        assert [r["record"] for r in shardfeed.hf.load(dataset, record=True)] == list(sf.read(dataset))

    def test_example(self):
        pytest.importorskip("datasets")
        said = example("hugging_face_text.py")
        assert "2200 words, 350 records of them after resuming\n" in said and "has 8 rows" in said

"""The same input and options give the same bytes, whatever the number of threads."""

import json
import random

import harness
import pytest
from harness import TESTDATA, convert

COMPRESSIONS = ["none", "gzip", "zlib"]


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """Enough lines for several batches in each shard."""
    rng = random.Random(1)
    path = tmp_path_factory.mktemp("source") / "lines.jsonl"
    with open(path, "w") as file:
        for i in range(20_000):
            text = rng.choice("abcdef") * rng.randrange(300)
            file.write(json.dumps({"i": i, "text": text, "x": [rng.random()] * (i % 3)}) + "\n")
    return path


@pytest.mark.parametrize("order", [["--no-shuffle"], ["--shuffle", "3"]], ids=["order", "shuffled"])
@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_number_of_threads_does_not_show(source, tmp_path, compression, order):
    trees = []
    for jobs in (1, 2, 5):
        folder = tmp_path / str(jobs)
        convert("jsonl", source, folder / "train@3", "--compression", compression, "-j", jobs,
                *order)
        trees.append(harness.tree(folder))
    assert len(trees[0]) == 3 + 3 + 2  # shards, indexes, their pack, the manifest
    assert trees[1] == trees[0]
    assert trees[2] == trees[0]


def test_number_of_threads_does_not_show_in_images(tmp_path):
    trees = []
    for jobs in (1, 2, 5):
        folder = tmp_path / str(jobs)
        convert("imagefolder", TESTDATA / "images", folder / "train@4", "-j", jobs)
        trees.append(harness.tree(folder))
    assert trees[1] == trees[0] and trees[2] == trees[0]


def test_number_of_threads_does_not_show_in_the_index(source, tmp_path):
    convert("jsonl", source, tmp_path / "train@1", "--compression", "gzip")
    indexes = []
    for jobs in (1, 2, 5):
        harness.succeed("index", tmp_path / "train@1", "-j", jobs)
        indexes.append(harness.tree(tmp_path))
    assert indexes[1] == indexes[0] and indexes[2] == indexes[0]


def test_number_of_threads_does_not_show_in_a_shuffle_beyond_memory(tmp_path):
    """Data beyond 64 MiB is distributed over files, which are removed again."""
    rng = random.Random(1)
    text = tmp_path / "text"
    with open(text, "w") as file:
        for i in range(100_000):
            file.write(f"{i} " + rng.choice("abcdef") * rng.randrange(700, 1000) + "\n")
    trees = []
    for jobs in (1, 5):
        folder = tmp_path / str(jobs)
        convert("text", text, folder / "train@3", "-j", jobs, "--shuffle", "3")
        trees.append(harness.tree(folder))
    assert trees[1] == trees[0]
    assert len(trees[0]) == 3 + 3 + 2
    order = [int(line["text"][0].split()[0]) for line in harness.payloads(tmp_path / "5/train@3")]
    assert order != sorted(order) and sorted(order) == list(range(100_000))


def numbers(spec):
    return [line["i"][0] for line in harness.payloads(spec)]


def test_without_shuffle_the_order_is_that_of_the_source(source, out):
    convert("jsonl", source, out / "a@3")
    convert("jsonl", source, out / "b@3", "--no-shuffle")
    assert numbers(out / "a@3") == numbers(out / "b@3") == list(range(20_000))


def test_each_seed_gives_its_own_order_of_the_same_records(source, out):
    orders = []
    for seed in ("1", "2"):
        convert("jsonl", source, out / f"s{seed}@3", "--shuffle", seed)
        orders.append(numbers(out / f"s{seed}@3"))
    assert orders[0] != orders[1]
    assert sorted(orders[0]) == sorted(orders[1]) == list(range(20_000))
    # A shuffle of everything, not of neighbors: the mean distance of a record is a third of all.
    moved = sum(abs(i - n) for i, n in enumerate(orders[0])) / 20_000
    assert 20_000 / 3.3 < moved < 20_000 / 2.7


def test_default_shuffle_of_images_is_seed_0(out):
    convert("imagefolder", TESTDATA / "images", out / "a@2")
    convert("imagefolder", TESTDATA / "images", out / "b@2", "--shuffle", "0")
    convert("imagefolder", TESTDATA / "images", out / "c@2", "--shuffle", "1")
    names = [[line["image/filename"] for line in harness.payloads(out / f"{stem}@2")]
             for stem in "abc"]
    assert names[0] == names[1] != names[2]
    assert sorted(names[0]) == sorted(names[2])


@pytest.mark.parametrize("order", [[], ["--shuffle", "4"]], ids=["order", "shuffled"])
def test_limit_keeps_the_first_of_the_order(source, out, order):
    convert("jsonl", source, out / "all@1", *order)
    convert("jsonl", source, out / "some@2", "--limit", "777", *order)
    assert numbers(out / "some@2") == numbers(out / "all@1")[:777]


@pytest.mark.parametrize("limit", ["0", "20000", "999999"])
def test_limit_beside_the_input(source, out, limit):
    convert("jsonl", source, out / "some@2", "--limit", limit)
    assert harness.verify(out / "some@2")["records"] == min(int(limit), 20_000)


def test_compressions_hold_the_same_records(source, out):
    contents = []
    for compression in COMPRESSIONS:
        convert("jsonl", source, out / f"{compression}@2", "--compression", compression)
        contents.append(harness.succeed("cat", out / f"{compression}@2", "--format",
                                        "payload").out)
    assert contents[1] == contents[0] and contents[2] == contents[0]


def test_relative_output_in_the_current_folder(source, tmp_path):
    convert("jsonl", source, "here@2", cwd=tmp_path)
    assert harness.verify(tmp_path / "here@2")["records"] == 20_000
    assert (tmp_path / ".shardfeed/here.manifest.json").exists()

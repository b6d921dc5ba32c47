"""Datasets that are written to Azure Blob Storage, as a stand-in serves it (azure_server.py). Where they
fit, the tests are those of S3 (stores_writing_test.py, stores_clean_test.py), whose fixture `s3` is the
stand-in here. What differs: nothing removes blocks that are not committed, so these stay where a writer
is given up, and `clean` says so."""

import os
import shutil
import signal
import subprocess
import sys
import threading
import time

import harness
import numpy as np
import pytest
from azure_server import WRITER, Azure, Object
from harness import DEFECTS, DONE, IO_FAILED, REPOSITORY, run, succeed
from servers import answering
from stores_clean_test import (  # noqa: F401
    test_a_commit_that_came_too_late_is_discarded, test_lying_records,
    test_something_else_in_the_place_of_the_record)
from stores_writing_test import (  # noqa: F401
    BUCKET, RECORD, TEXT, Place, files, program, replacing, reset, surroundings,
    test_a_name_that_is_taken_is_an_error,
    test_a_store_that_ignores_conditions_is_refused,
    test_a_writer_that_ends_at_any_request_leaves_the_old_dataset_or_the_new_one,
    test_an_index_is_written_beside_others_shards, test_cleaning_that_is_killed_is_done_again,
    test_faults_that_pass_change_nothing, test_shards_of_others_are_an_error_too,
    test_the_old_dataset_is_replaced_as_a_whole,
    test_the_package_writes, test_two_writers_of_one_name,
    test_what_is_written_to_a_store_is_what_is_written_to_a_folder, test_writers_at_the_same_moment, write)

sys.path.insert(0, str(REPOSITORY / "python"))
sf = pytest.importorskip("shardfeed", reason="the package is not built: python/build_package.py")

FOLDER = "a folder/ä+&/"


class AzurePlace(Place):
    def is_clean(self, out):
        return super().is_clean(out) or b"unfinished uploads stay: Azure alone removes them" in out


@pytest.fixture
def s3(monkeypatch):
    """The stand-in, whose folder is `s3.place`. It tells the tests of S3 of no uploads: these ask
    whether uploads were removed."""
    for name in list(os.environ):
        if name.startswith(("AZURE_", "IDENTITY_")):
            monkeypatch.delenv(name)
    store = Azure("account", BUCKET)
    with answering(store.answer) as endpoint:
        monkeypatch.setenv("AZURE_STORAGE_ENDPOINT", f"{endpoint}/account")
        monkeypatch.setenv("AZURE_STORAGE_ACCOUNT", "account")
        monkeypatch.setenv("AZURE_STORAGE_KEY", store.key_text)
        store.place = AzurePlace(f"az://{BUCKET}/{FOLDER.rstrip('/')}", lambda: store.files(FOLDER), list)
        yield store


@pytest.fixture
def azure(s3):
    return s3


@pytest.fixture
def place(s3):
    return s3.place


def unfinished(azure):
    return sorted(key.rpartition("/")[2] for key in azure.uploads)


def test_large_shards_are_several_blocks(azure, tmp_path):
    for place in (azure.place, tmp_path / "out"):
        rng = np.random.default_rng(1)
        with sf.write(str(place / "d@2")) as writer:
            for _ in range(40):
                writer.write(rng.bytes(1 << 20))
    assert azure.place.files() == files(tmp_path / "out")
    blocks = [query["blockid"] for _, _, query in azure.requests if query.get("comp") == "block"]
    assert len(set(blocks)) == len(blocks) == 2 * 3 + 3 and {len(block) for block in blocks} == {64}
    assert azure.uploads == {}


def test_a_writer_says_who_it_was(azure):
    write(azure.place / "d@2")
    writers = {key: found.writer for key, found in azure.objects.items()}
    assert len(set(writers.values())) == 1 and len(writers) == 6
    assert all(len(writer) == 32 for writer in writers.values()) and WRITER.isascii()


def test_what_is_given_up_is_not_seen(azure):
    with pytest.raises(ZeroDivisionError), sf.write(azure.place / "d@3") as writer:
        for n in range(30):
            writer.write(os.urandom(1 << 20))
        for _ in range(200):
            if len(azure.uploads) == 3:
                break
            time.sleep(0.05)
        1 / 0
    assert azure.place.files() == {} and len(azure.uploads) == 3
    said = succeed("clean", azure.place / "d").out.decode()
    assert "3 unfinished uploads stay: Azure alone removes them, a week after their last part" in said
    assert succeed("clean", azure.place / "d", "--json").json == {
        "dry_run": False, "finished": [], "removed": [], "kept": [],
        "expiring": [azure.place / f"d-0000{n}-of-00003" for n in range(3)]}
    assert succeed("clean", azure.place / "e").out == b"nothing was left behind\n"
    write(azure.place / "d@3")  # the next of these names removes them
    assert azure.uploads == {}


def test_an_interrupt_leaves_nothing_that_is_seen(azure, tmp_path):
    (tmp_path / "in").mkdir()
    for n in range(20):
        (tmp_path / f"in/{n}.bin").write_bytes(os.urandom(1 << 20))
    begun = threading.Event()

    def slow(number, method, key, query):
        if query.get("comp") == "block":
            begun.set()
            time.sleep(5)

    azure.fault = slow
    process = subprocess.Popen([harness.BINARY, "convert", "files", tmp_path / "in", azure.place / "d@1"],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert begun.wait(20)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130 and "interrupted; nothing was kept" in err, err
    assert azure.place.files() == {} and os.listdir(tmp_path / "tmp") == []


def test_blocks_of_two_writers_are_never_mixed(azure, tmp_path):
    """Both send blocks of the same names; each list has its writer's alone, and removes the others."""
    first, second = (sf.write(azure.place / "d@1", overwrite=True) for _ in range(2))
    for n in range(20):
        first.write(bytes([1]) * (1 << 20))
        second.write(bytes([2]) * (1 << 20))
    for _ in range(100):
        if len(azure.uploads.get(f"{FOLDER}d-00000-of-00001", {"parts": ()})["parts"]) == 4:
            break
        time.sleep(0.05)
    assert len(azure.uploads[f"{FOLDER}d-00000-of-00001"]["parts"]) == 4
    second.close()
    there = azure.place.files()
    with pytest.raises(RuntimeError, match="another process has written a dataset of this name"):
        first.close()
    assert azure.place.files() == there
    assert {record[:1] for record in sf.read(azure.place / "d@1")} == {bytes([2])}
    assert succeed("verify", azure.place / "d@1").status == DONE


def test_blocks_that_are_gone_are_told(azure, tmp_path):
    command, old, new = replacing(azure, tmp_path)
    shard = f"{FOLDER}d-00001-of-00002"
    for lost_before in (True, False):
        reset(azure, old)
        azure.fault = lambda number, method, key, query, early=lost_before: \
            "refuse" if RECORD in azure.place.files() and (
                method != "PUT" if early else query.get("comp") == "blocklist" and key == shard) else None
        assert run(*command).status == IO_FAILED
        azure.fault = None
        del azure.uploads[shard]
        result = run("clean", azure.place / "d")
        assert result.status == DEFECTS, result.err
        assert "d-00001-of-00002: its uploaded parts were removed from the store; " in result.err
        assert RECORD not in azure.place.files()
        if lost_before:
            assert "the new dataset was discarded, and the old one stays" in result.err
            assert azure.place.files() == old
        else:
            assert "write it again, replacing what is there" in result.err
            succeed(*command)
            assert azure.place.files() == new


def test_readers_wait_for_a_commit(azure, tmp_path):
    command, _, new = replacing(azure, tmp_path)
    held = threading.Event()

    def hold(number, method, key, query):
        if query.get("comp") == "blocklist" and method == "PUT" and not held.is_set():
            held.set()
            time.sleep(1.5)

    azure.fault = hold
    writer = program(*command)
    assert held.wait(20)
    assert succeed("verify", azure.place / "d@*").out.endswith(b"all intact and as in the manifest\n")
    assert writer.wait(60) == 0
    assert azure.place.files() == new


def test_shared_access_signatures_write(azure, monkeypatch):
    from stores_azure_test import sas
    monkeypatch.delenv("AZURE_STORAGE_KEY")
    monkeypatch.setenv("AZURE_STORAGE_SAS_TOKEN", sas(azure))
    write(azure.place / "d+ &=@3")
    write(azure.place / "d+ &=@2", overwrite=True)
    assert azure.ways == {"sas"} and len(sf.read(azure.place / "d+ &=@2")) == 200
    assert all(b"sig=" not in data for data in azure.place.files().values())
    monkeypatch.setenv("AZURE_STORAGE_SAS_TOKEN", sas(azure, permissions="rl"))
    with pytest.raises(PermissionError, match="it lacks a permission: reading takes r and l, writing") as raised:
        write(azure.place / "d@3")
    assert "sig=" not in str(raised.value)


ERRORS = {
    "another type": "the blob of this name is a page or an append blob; remove it .InvalidBlobType: The blob",
    "a lease": "another program holds a lease on the blob; end it .LeaseIdMissing: There is currently",
    "others' blocks": "another program has left an unfinished upload of this name, whose blocks have names of",
}


@pytest.mark.parametrize("what", ERRORS)
def test_what_lies_in_the_way_is_told(azure, what):
    name = f"{FOLDER}d-00000-of-00001"
    if what == "another type":
        azure.objects[name], azure.types[name] = Object(b"x", '"0x1"', None), "AppendBlob"
    elif what == "a lease":
        azure.objects[name] = Object(b"x", '"0x1"', None)
        azure.leases.add(name)
    else:
        azure.uploads[name] = {"key": name, "parts": {"MDAwMQ==": b"x"}}
    with pytest.raises(Exception, match=ERRORS[what]):
        write(azure.place / "d@1", overwrite=True)


def test_wrong_places(azure):
    for spec, message in [("az://other/d@2", "there is no container 'other' at http://127.0.0.1"),
                          (f"az://{BUCKET}", "the name is missing"),
                          (f"az://{BUCKET}/d@2.\udcff", "names in Azure must be UTF-8, but this one is not"),
                          ("az:///d@1", "the name of the container is missing")]:
        result = run("convert", "jsonl", TEXT, spec)
        assert result.status != DONE and message in result.err, result.err


def test_cleaning_pages_through_listings(azure):
    azure.page = 3
    for n in range(20):
        azure.uploads[f"{FOLDER}d-000{n:02}-of-00020"] = {"key": "", "parts": {"MDAwMQ==": b"x"}}
    for key in (f"{FOLDER}e-00000-of-00001", f"{FOLDER}deeper/d-00000-of-00020", f"{FOLDER}d"):
        azure.uploads[key] = {"key": "", "parts": {"MDAwMQ==": b"x"}}
    assert len(succeed("clean", azure.place / "d@20", "--json").json["expiring"]) == 20
    shutil.rmtree(os.environ["TMPDIR"])
    assert unfinished(azure)[0] == "d"

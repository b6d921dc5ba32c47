"""Datasets that are written to stores: to S3 as moto serves it, and to stand-ins for S3 and Google
Cloud Storage that fail on request at any of their requests."""

import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import threading
import time

import harness
import numpy as np
import pytest
from gcs_server import Gcs
from harness import DEFECTS, DONE, IO_FAILED, REPOSITORY, USAGE, run, succeed
from servers import S3, Object, Versioned, answering, every_other, forget_credentials

sys.path.insert(0, str(REPOSITORY / "python"))
sf = pytest.importorskip("shardfeed", reason="the package is not built: python/build_package.py")

TEXT = harness.TESTDATA / "tables/events.jsonl"
BUCKET = "data"


@pytest.fixture(autouse=True)
def surroundings(monkeypatch, tmp_path):
    """Nothing of this machine's own credentials, little patience, and a folder for temporary files
    of which nothing must remain."""
    forget_credentials(monkeypatch, tmp_path)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("GS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("GS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("SHARDFEED_NET_SECONDS", "4")
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))


class Place:
    """A folder in a store, and what is in it."""

    def __init__(self, url, files, uploads):
        self.url, self.files, self.uploads = url, files, uploads

    def __truediv__(self, name):
        return f"{self.url}/{name}"

    def is_clean(self, out):
        return out == b"nothing was left behind\n"


@contextlib.contextmanager
def stand_in(kind, monkeypatch):
    """A stand-in, whose folder is its `place`."""
    store = kind(BUCKET)
    with answering(store.answer) as endpoint:
        monkeypatch.setenv(store.endpoint, endpoint)
        store.place = Place(f"{store.scheme}://{BUCKET}/a folder/ä+&", lambda: store.files("a folder/ä+&/"),
                            lambda: [each["key"] for each in store.uploads.values()])
        yield store


@pytest.fixture(params=[S3, Gcs], ids=["s3", "gs"])
def s3(request, monkeypatch):
    """A store that speaks S3's protocol."""
    with stand_in(request.param, monkeypatch) as store:
        yield store


@pytest.fixture(scope="module")
def moto_server():
    server = pytest.importorskip("moto.server", reason="moto is not installed")
    running = server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    running.start()
    host, port = running.get_host_and_port()
    yield f"http://{host}:{port}"
    running.stop()


@pytest.fixture
def moto(moto_server, monkeypatch, request):
    boto3 = pytest.importorskip("boto3")
    client = boto3.client("s3", endpoint_url=moto_server, region_name="us-east-1",
                          aws_access_key_id="key", aws_secret_access_key="secret")
    if BUCKET not in [each["Name"] for each in client.list_buckets()["Buckets"]]:
        client.create_bucket(Bucket=BUCKET)
    monkeypatch.setenv("AWS_ENDPOINT_URL", moto_server)
    prefix = f"ö+&=%/{re.sub(r'[^a-z]', '-', request.node.name)}/"

    def files():
        pages = client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=prefix)
        return {each["Key"][len(prefix):]:
                client.get_object(Bucket=BUCKET, Key=each["Key"])["Body"].read()
                for page in pages for each in page.get("Contents", [])}

    def uploads():
        found = client.list_multipart_uploads(Bucket=BUCKET).get("Uploads", [])
        return [each["Key"] for each in found if each["Key"].startswith(prefix)]

    return Place(f"s3://{BUCKET}/{prefix.rstrip('/')}", files, uploads)


@pytest.fixture(params=["s3", "versioned", "gs", "moto"])
def place(request, monkeypatch):
    if request.param == "moto":
        yield request.getfixturevalue("moto")
        return
    with stand_in({"s3": S3, "versioned": Versioned, "gs": Gcs}[request.param], monkeypatch) as store:
        yield store.place


def files(folder):
    return {str(path.relative_to(folder)): path.read_bytes()
            for path in pathlib.Path(folder).rglob("*") if path.is_file()}


def write(spec, records=200, seed=0, **options):
    rng = np.random.default_rng(seed)
    with sf.write(str(spec), **options) as writer:
        for n in range(records):
            writer.write({"n": n, "x": rng.normal(size=int(rng.integers(1, 60))).astype(np.float32)})


# ---- What is written


COMMANDS = {
    "convert": ["convert", "jsonl", TEXT, "OUT/d@3"],
    "zlib": ["convert", "jsonl", TEXT, "OUT/d@2.tfrecord", "--compression", "zlib"],
    "gzip, shuffled": ["convert", "jsonl", TEXT, "OUT/d@3", "--compression", "gzip", "--shuffle", "1"],
    "splits": ["convert", "jsonl", TEXT, "OUT/d@4", "--split", "train=0.8,test=0.2"],
    "empty shards": ["convert", "jsonl", TEXT, "OUT/d@40", "--limit", "10"],
    "no number": ["convert", "jsonl", TEXT, "OUT/d"],
    "reshard": ["reshard", "IN/raw@4", "OUT/d@3"],
    "reshard whole": ["reshard", "IN/gzip@2", "OUT/d@2", "--compression", "gzip"],
    "merge": ["merge", "IN/raw@4", "IN/gzip@2", "OUT/d@5", "--compression", "none"],
    "split": ["split", "IN/raw@4", "OUT/d", "--shares", "a=0.5,b=0.5"],
    "sample": ["sample", "IN/raw@4", "OUT/d@2", "--count", "20"],
    "repair": ["repair", "IN/raw@4", "OUT/d"],
}


@pytest.mark.parametrize("command", COMMANDS)
def test_what_is_written_to_a_store_is_what_is_written_to_a_folder(place, tmp_path, command):
    write(tmp_path / "raw@4")
    write(tmp_path / "gzip@2", compression="gzip")
    out = {}
    for name, folder in (("here", tmp_path / "out"), ("there", place)):
        words = [str(word).replace("IN/", f"{tmp_path}/").replace("OUT", str(getattr(folder, "url", folder)))
                 for word in COMMANDS[command]]
        out[name] = succeed(*words)
    found, expected = place.files(), files(tmp_path / "out")
    if command == "reshard":
        # In a folder, shards are copied, and so are the statistics of the input, which looked at other values of lists.
        found, expected = without_statistics(found), without_statistics(expected)
    assert found == expected
    assert place.uploads() == []
    assert os.listdir(tmp_path / "tmp") == []


def without_statistics(found):
    """The files, with what the manifest says besides statistics."""
    manifest = json.loads(found[".shardfeed/d.manifest.json"])
    del manifest["statistics"], manifest["crc32c"]
    return {**found, ".shardfeed/d.manifest.json": manifest}


def test_the_package_writes(place, tmp_path):
    for options in ({}, {"compression": "gzip"}):
        write(place / "d@5", overwrite=True, **options)
        write(tmp_path / "out/d@5", overwrite=True, **options)
        assert place.files() == files(tmp_path / "out")
    assert len(sf.read(place / "d@5")) == 200
    assert succeed("verify", place / "d@5").out.endswith(b"all intact and as in the manifest\n")
    assert os.listdir(tmp_path / "tmp") == []


def test_large_shards_are_several_parts(s3, tmp_path):
    rng = np.random.default_rng(1)
    for place in (s3.place, tmp_path / "out"):
        with sf.write(str(place / "d@2")) as writer:
            for _ in range(40):
                writer.write(rng.bytes(1 << 20))
        rng = np.random.default_rng(1)
    assert s3.place.files() == files(tmp_path / "out")
    assert sum("partNumber" in query for _, _, query in s3.requests) == 2 * 3 + 2 + 1


@pytest.mark.parametrize("s3", [S3], indirect=True)
def test_many_open_shards_do_not_take_much_memory(s3, tmp_path):
    """60 shards, each of which has less than a part: 330 MB, of which 256 MiB are kept in memory."""
    program = f"""if True:
        import sys, shardfeed as sf
        rng = __import__("random").Random(1)
        piece = rng.randbytes(500_000)
        with sf.write(sys.argv[1]) as writer:
            for n in range(660):
                writer.write(piece)
        # Not ru_maxrss, which begins with the memory of the process that started this one.
        peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM:"))
        print(int(peak.split()[1]) // 1024)"""
    for place in (s3.place, tmp_path / "out"):
        done = subprocess.run([sys.executable, "-c", program, str(place / "d@60")], capture_output=True,
                              text=True, env={**os.environ, "PYTHONPATH": str(REPOSITORY / "python")})
        assert done.returncode == 0, done.stderr
        assert int(done.stdout) < 1100, "MiB"
    assert s3.place.files() == files(tmp_path / "out")
    assert os.listdir(tmp_path / "tmp") == []


def test_an_index_is_written_beside_others_shards(place, tmp_path, request):
    write(place / "d@2")
    write(tmp_path / "d@2")
    for spec in (place / "d@2", tmp_path / "d@2"):
        succeed("index", spec, "--export", "dali")
    assert {name: data for name, data in place.files().items() if "manifest" not in name} == \
        {name: data for name, data in files(tmp_path).items() if "manifest" not in name}


# ---- What is replaced


def test_a_name_that_is_taken_is_an_error(place):
    write(place / "d@3")
    before = place.files()
    with pytest.raises(FileExistsError, match="there is a dataset of this name; pass overwrite=True"):
        write(place / "d@2")
    result = run("convert", "jsonl", TEXT, place / "d@2")
    assert result.status == USAGE and "pass --overwrite to replace it" in result.err
    assert place.files() == before and place.uploads() == []


def test_shards_of_others_are_an_error_too(s3):
    s3.objects["a folder/ä+&/d-00000-of-00003"] = Object(b"x", '"tag"', None)
    with pytest.raises(FileExistsError, match="there are shards of this name"):
        write(s3.place / "d@2")
    write(s3.place / "d@2", overwrite=True)
    assert sorted(s3.place.files()) == [
        ".shardfeed/d-00000-of-00002.index", ".shardfeed/d-00001-of-00002.index",
        ".shardfeed/d.indexes", ".shardfeed/d.manifest.json", "d-00000-of-00002", "d-00001-of-00002"]


def test_the_old_dataset_is_replaced_as_a_whole(place, tmp_path):
    for name, options in [("d@3", {}), ("d@2", {}), ("d@2.tfrecord.gz", {"compression": "gzip"}),
                          ("d@7", {"records": 5}), ("d@7", {"records": 5}), ("other@1", {})]:
        write(place / name, overwrite=True, **options)
        write(tmp_path / "out" / name, overwrite=True, **options)
        assert place.files() == files(tmp_path / "out"), name
    assert place.uploads() == []


# ---- What is given up


def test_an_exception_leaves_nothing(place, tmp_path):
    with pytest.raises(ZeroDivisionError), sf.write(place / "d@3") as writer:
        for n in range(30):
            writer.write(os.urandom(1 << 20))
        1 / 0
    assert place.files() == {} and place.uploads() == []
    assert os.listdir(tmp_path / "tmp") == []


def test_an_interrupt_leaves_nothing(s3, tmp_path):
    (tmp_path / "in").mkdir()
    for n in range(20):
        (tmp_path / f"in/{n}.bin").write_bytes(os.urandom(1 << 20))
    begun = threading.Event()

    def slow(number, method, key, query):
        if "partNumber" in query:
            begun.set()
            time.sleep(5)

    s3.fault = slow
    process = subprocess.Popen([harness.BINARY, "convert", "files", tmp_path / "in", s3.place / "d@1"],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert begun.wait(20)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130 and "interrupted; nothing was kept" in err, err
    assert s3.place.files() == {} and s3.place.uploads() == []
    assert os.listdir(tmp_path / "tmp") == []


def test_what_cannot_be_resumed_is_told(s3):
    result = run("convert", "jsonl", TEXT, s3.place / "d@2", "--resume")
    assert result.status == USAGE and "a dataset in a store cannot be resumed" in result.err, result.err
    assert s3.requests == []


def test_urls_are_not_paths(s3, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    before = os.listdir(tmp_path)
    with pytest.raises(ValueError, match="must be a list, each a str or a path, not .*s3:/data"):
        sf.read([pathlib.Path("s3://data/x@2")])
    for call in (sf.read, sf.write, sf.verify, lambda url: sf.convert("files", str(tmp_path), url)):
        with pytest.raises(ValueError, match="a str where it is a URL, since paths lose a slash"):
            call(pathlib.Path("s3://data/x@2"))
    assert os.listdir(tmp_path) == before


def test_wrong_places(s3):
    for spec, message in [("other/d@2", "there is no bucket 'other' at http://127.0.0.1"),
                          (BUCKET, "the name is missing"),
                          (f"{BUCKET}/", "the name is missing"),
                          ("data/d@2.\udcff", " must be UTF-8, but this one is not"),
                          ("/d@1", "the name of the bucket is missing")]:
        result = run("convert", "jsonl", TEXT, f"{s3.scheme}://{spec}")
        assert result.status != DONE and message in result.err, result.err


# ---- Faults


@pytest.mark.parametrize("fault", ["503", "reset", "lost", "late error"])
@pytest.mark.parametrize("every", [2, 3])
def test_faults_that_pass_change_nothing(s3, tmp_path, fault, every):
    write(tmp_path / "out/d@3")
    write(s3.place / "d@4", seed=1)
    s3.fault = every_other(fault, every)
    write(s3.place / "d@3", overwrite=True)
    s3.fault = None
    assert s3.place.files() == files(tmp_path / "out")
    if fault == "lost":  # of answers that named an upload, the store alone knows
        succeed("clean", s3.place / "d", "--older-than", "0s")
    assert s3.place.uploads() == []


def program(*arguments):
    return subprocess.Popen([harness.BINARY, *map(str, arguments)], stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True)


def replacing(s3, tmp_path):
    """The command that replaces a dataset, and what is there before and after."""
    places = {}
    for name, options in (("old", ["--limit", "30"]), ("new", [])):
        command = ["convert", "jsonl", TEXT, f"{tmp_path}/{name}/d@{3 if name == 'old' else 2}", *options]
        succeed(*command)
        places[name] = files(tmp_path / name)
    succeed("convert", "jsonl", TEXT, s3.place / "d@3", "--limit", "30")
    assert s3.place.files() == places["old"]
    return ["convert", "jsonl", TEXT, s3.place / "d@2", "--overwrite"], places["old"], places["new"]


def reset(s3, old):
    s3.objects.clear()
    s3.uploads.clear()
    s3.fault = None
    s3.requests.clear()
    for name, data in old.items():
        s3.objects[f"a folder/ä+&/{name}"] = Object(data, f'"{hash(data)}"', None)


RECORD = ".shardfeed/d.commit"
PACK = ".shardfeed/d.indexes"


@pytest.mark.parametrize("what", ["refuse", "kill"])
def test_a_writer_that_ends_at_any_request_leaves_the_old_dataset_or_the_new_one(s3, tmp_path, what,
                                                                                monkeypatch):
    """From request k on, all are refused; or the writer is killed at request k."""
    monkeypatch.setenv("SHARDFEED_NET_SECONDS", "1")
    command, old, new = replacing(s3, tmp_path)
    s3.requests.clear()
    succeed(*command)
    total = len(s3.requests)
    assert s3.place.files() == new and total > 20
    outcomes = set()
    for k in range(total):
        reset(s3, old)
        writer = []

        def end(number, *_, k=k, writer=writer):
            if number < k:
                return None
            if what == "kill":
                while not writer:
                    time.sleep(0.01)
                writer[0].kill()
                return "reset"
            return "refuse"

        s3.fault = end
        writer.append(program(*command))
        _, err = writer[0].communicate(timeout=60)
        s3.fault = None
        if writer[0].returncode == 0:  # only the last answer was lost
            assert s3.place.files() == new
            continue
        there = s3.place.files()
        committed = RECORD in there
        # Readers see the old dataset, the new one, or (after some time) an error that says what to do.
        read = run("verify", s3.place / "d@*") if k % 5 == 0 else None
        if read is None:
            pass
        elif read.status == DONE:
            assert {**there, RECORD: 0} in ({**old, RECORD: 0}, {**new, RECORD: 0}), (k, err)
        else:
            assert committed and f"'shardfeed clean {s3.place.url}" in read.err, (k, read.err)
        if what == "refuse":
            assert not committed or f"'shardfeed clean {s3.place.url}" in err, (k, err)
            if not committed and k > 0:
                assert there == old
        cleaned = succeed("clean", s3.place / "d", "--older-than", "0s")
        assert s3.place.files() == (new if committed else old), (k, cleaned.out, err)
        assert s3.place.uploads() == [], (k, cleaned.out)
        assert s3.place.is_clean(run("clean", s3.place / "d", "--older-than", "0s").out)
        outcomes.add(committed)
        shutil.rmtree(tmp_path / "tmp")  # of killed writers
        (tmp_path / "tmp").mkdir()
    assert outcomes == {True, False}


def test_cleaning_that_is_killed_is_done_again(s3, tmp_path, monkeypatch):
    monkeypatch.setenv("SHARDFEED_NET_SECONDS", "1")
    command, old, new = replacing(s3, tmp_path)

    def commit_and_die():
        reset(s3, old)
        s3.fault = lambda number, method, key, query: \
            "refuse" if RECORD in s3.place.files() and method != "PUT" else None
        assert run(*command).status == IO_FAILED
        s3.fault = None
        assert RECORD in s3.place.files()
        s3.requests.clear()

    commit_and_die()
    succeed("clean", s3.place / "d")
    assert s3.place.files() == new
    for k in range(0, len(s3.requests), 3):
        commit_and_die()
        s3.fault = lambda number, *_, k=k: "refuse" if number >= k else None
        run("clean", s3.place / "d")
        s3.fault = None
        succeed("clean", s3.place / "d")
        assert s3.place.files() == new, k


def test_parts_that_are_gone_are_told(s3, tmp_path):
    command, old, new = replacing(s3, tmp_path)
    for lost_before in (True, False):
        reset(s3, old)
        s3.fault = lambda number, method, key, query, early=lost_before: \
            "refuse" if RECORD in s3.place.files() and method != "PUT" and \
            (early or key.endswith("d-00001-of-00002")) else None
        assert run(*command).status == IO_FAILED
        s3.fault = None
        for name in [name for name, upload in s3.uploads.items() if upload["key"].endswith("d-00001-of-00002")]:
            del s3.uploads[name]
        result = run("clean", s3.place / "d")
        assert result.status == DEFECTS, result.err
        assert "d-00001-of-00002: its uploaded parts were removed from the store; " in result.err
        assert RECORD not in s3.place.files() and s3.place.uploads() == []
        if lost_before:
            assert "the new dataset was discarded, and the old one stays" in result.err
            assert s3.place.files() == old
        else:
            assert "write it again, replacing what is there" in result.err
            succeed(*command)
            assert s3.place.files() == new


@pytest.mark.parametrize("ends", ["DELETE", "PUT", "POST"])
def test_versions_of_the_past_do_not_come_back(monkeypatch, tmp_path, ends):
    """In a bucket with versioning, a writer that ends anywhere in its commit is finished by `clean`; deleted
    records and replaced shards are seen by nobody, whatever versions there are."""
    with stand_in(Versioned, monkeypatch) as s3:
        write(s3.place / "d@2", seed=9)
        for turn, seed in enumerate((1, 2, 1)):  # the last has the bytes of the first
            write(tmp_path / f"{turn}/d@2", seed=seed)
            expected = files(tmp_path / str(turn))

            def fault(number, method, key, query):
                """Refuses everything from the first such request on, once there is a commit record."""
                fault.on |= key.endswith("d.commit") and method == "PUT"
                fault.ended |= fault.on and method == ends and not key.endswith("d.commit")
                return "refuse" if fault.ended else None
            fault.on = fault.ended = False
            s3.fault = fault
            with pytest.raises(OSError, match="'shardfeed clean .*d' puts the rest of it into place"):
                write(s3.place / "d@2", seed=seed, overwrite=True)
            s3.fault = None
            assert "d: " in succeed("clean", s3.place / "d").out.decode()
            assert s3.place.is_clean(succeed("clean", s3.place / "d").out)
            assert s3.place.files() == expected and s3.uploads == {}
            assert list(sf.read(s3.place / "d@2")) == list(sf.read(tmp_path / f"{turn}/d@2"))
        old = {key.rsplit("/", 1)[1] for key, _ in s3.noncurrent}
        assert old >= {"d.commit", "d.manifest.json", "d-00000-of-00002"}


def test_two_writers_of_one_name(place, tmp_path):
    first, second = sf.write(place / "d@2"), sf.write(place / "d@2")
    first.write({"n": 1})
    second.write({"n": 2})
    first.close()
    there = place.files()
    with pytest.raises(OSError, match="there is a dataset of this name|another process has written"):
        second.close()
    assert place.files() == there and place.uploads() == []
    first, second = sf.write(place / "d@3", overwrite=True), sf.write(place / "d@4", overwrite=True)
    first.write({"n": 1})
    second.write({"n": 2})
    second.close()
    there = place.files()
    with pytest.raises(RuntimeError, match="another process has written a dataset of this name in the "
                                      "meantime; it stays, and nothing of this one was kept"):
        first.close()
    assert place.files() == there and place.uploads() == []
    assert [row["n"] for row in sf.read(place / "d@4").parse()] == [2]


def test_writers_at_the_same_moment(s3, tmp_path):
    """One of them wins; what is there is its dataset."""
    commands = [["convert", "jsonl", TEXT, s3.place / f"d@{n}", "--limit", str(100 + n)] for n in range(1, 6)]
    writers = [program(*command) for command in commands]
    errors = [writer.communicate(timeout=60)[1] for writer in writers]
    won = [n for n, writer in enumerate(writers, 1) if writer.returncode == 0]
    assert len(won) == 1, errors
    for writer, err in zip(writers, errors):
        assert writer.returncode == 0 or "there is a dataset of this name" in err or \
            "there are shards of this name" in err or "another process" in err, err
    assert succeed("verify", s3.place / "d@*", "--json").json["records"] == 100 + won[0]
    assert s3.place.uploads() == [] and RECORD not in s3.place.files()


def test_a_store_that_ignores_conditions_is_refused(s3):
    s3.conditions = False
    with pytest.raises(RuntimeError, match="the store replaces objects where it is asked not to"):
        write(s3.place / "d@2")
    assert s3.place.files() == {} and s3.place.uploads() == []


@pytest.mark.parametrize("s3", [S3], indirect=True)
def test_signatures_are_botocores(s3, tmp_path):
    s3.secrets = {"key": ("secret", None)}
    write(s3.place / "d+ &=@3")
    write(s3.place / "d+ &=@2", overwrite=True)
    write(tmp_path / "out/d+ &=@2")
    assert s3.place.files() == files(tmp_path / "out")
    assert succeed("clean", s3.place / "d+ &=").out == b"nothing was left behind\n"
    assert {method for method, _, _ in s3.requests} == {"GET", "PUT", "POST", "DELETE"}


def test_no_permission_to_write(s3):
    s3.fault = lambda number, method, key, query: "refuse" if method in ("PUT", "POST") else None
    with pytest.raises(PermissionError, match="d-00000-of-00002: .*AccessDenied"):
        write(s3.place / "d@2")
    assert s3.place.files() == {}


def test_readers_wait_for_a_commit(s3, tmp_path):
    command, old, new = replacing(s3, tmp_path)
    held = threading.Event()

    def hold(number, method, key, query):
        if method == "POST" and "uploadId" in query and not held.is_set():
            held.set()
            time.sleep(1.5)

    s3.fault = hold
    writer = program(*command)
    assert held.wait(20)
    assert succeed("verify", s3.place / "d@*").out.endswith(b"all intact and as in the manifest\n")
    assert writer.wait(60) == 0
    assert s3.place.files() == new


def test_what_index_may_not_read_is_not_damaged(s3, tmp_path):
    assert run("convert", "jsonl", TEXT, s3.place / "d@1").status == DONE
    refused = 0
    for request in range(1000):
        for key in [key for key in s3.objects if ".shardfeed" in key]:
            del s3.objects[key]
        first = len(s3.requests)
        s3.fault = lambda number, *_, refused=first + request: "refuse" if number == refused else None
        result = run("index", "--manifest", s3.place / "d@1")
        s3.fault = None
        if len(s3.requests) <= first + request:
            break
        assert result.status in (DONE, IO_FAILED), (s3.requests[first + request], result.err)
        refused += result.status == IO_FAILED
    assert refused > 10

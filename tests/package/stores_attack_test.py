"""What strangers found by attacking datasets in stores: names, secrets, redirects, and a cleaner beside a writer."""

import contextlib
import email.utils
import os
import pickle
import subprocess
import sys
import threading
import time

import pytest
from harness import DEFECTS, REPOSITORY, USAGE, fail, run, succeed
from servers import S3, answering, error
from stores_writing_test import TEXT, surroundings, write  # noqa: F401

sys.path.insert(0, str(REPOSITORY / "python"))
sf = pytest.importorskip("shardfeed", reason="the package is not built: python/build_package.py")


@contextlib.contextmanager
def s3_that(monkeypatch, answer):
    """A bucket behind answer(store, request, body)."""
    store = S3("data")
    with answering(lambda request, body: answer(store, request, body)) as endpoint:
        monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
        yield store


@pytest.fixture
def s3(monkeypatch):
    with s3_that(monkeypatch, lambda store, request, body: store.answer(request, body)) as store:
        yield store


# ---- Datasets that are replaced


@pytest.mark.parametrize("spec", ["t@2", "t@*", "t-*"])
def test_a_dataset_that_is_replaced_before_it_is_read_is_an_error(s3, spec):
    """Its manifest had told the sizes of the shards, which those of the next dataset have as well."""
    def write_bytes(byte):
        with sf.write("s3://data/t@2", overwrite=True) as writer:
            for _ in range(100):
                writer.write(byte * 1000)

    write_bytes(b"a")
    old = sf.read(f"s3://data/{spec}")
    assert len(old) == 100
    half = iter(sf.read(f"s3://data/{spec}").shuffle(seed=1).batch(4))
    seen = [bytes(record) for record in next(half)]
    write_bytes(b"b")
    for read in (lambda: list(old), lambda: old[99]):
        with pytest.raises(OSError, match="replaced .*; open it again"):
            read()
    # What was read before the dataset was replaced may still be delivered.
    with contextlib.suppress(OSError):
        seen += [bytes(record) for batch in half for record in batch]
    assert set(seen) == {b"a" * 1000}
    assert [bytes(record) for record in sf.read(f"s3://data/{spec}")] == [b"b" * 1000] * 100


def test_copies_of_a_dataset_take_few_requests_more(s3):
    """Whoever copies a dataset may write its manifest before the shards. The store is asked whether it is the same:
    once, and once more for those that were read while it was asked."""
    write("s3://data/t@4")
    for key in s3.objects:
        s3.times[key] = time.time() - (50 if key.endswith(".index") or key.startswith("t-") else 100)
    s3.requests.clear()
    assert len(list(sf.read("s3://data/t@4"))) == 200
    assert len([key for _, key, _ in s3.requests if key.endswith("t.manifest.json")]) in (2, 3)


# ---- Names


@pytest.mark.parametrize("key", ["a/../../other/x", "./x", "a/./x", "a/../x"])
@pytest.mark.parametrize("scheme", ["s3", "gs", "az"])
def test_dots_are_no_names(monkeypatch, key, scheme):
    """Clients resolve them, so that another object, perhaps in another bucket, would be read or replaced."""
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT", "dev")
    for command in (["cat", f"{scheme}://data/{key}@2"], ["convert", "jsonl", TEXT, f"{scheme}://data/{key}@2"]):
        assert "must not have the part '." in fail(USAGE, *command)


def test_names_with_braces_are_not_written(s3, tmp_path):
    for out in ("s3://data/a{1,2}@2", f"{tmp_path}/a{{1,2}}@2", f"{tmp_path}/d{{0..3}}/x@2"):
        assert fail(USAGE, "convert", "jsonl", TEXT, out).endswith(
            "a dataset's name must not contain braces, which stand for several names")
    succeed("convert", "jsonl", TEXT, f"{tmp_path}/a{{b}}@2")
    assert len(list(sf.read(f"{tmp_path}/a{{b}}@2"))) == 200


@pytest.mark.parametrize("folder", ["br[0]", "a*", "a?"])
def test_folders_with_wildcards_are_not_written(s3, tmp_path, folder):
    for out in (f"s3://data/{folder}/t@2", f"{tmp_path}/{folder}/t@2"):
        assert fail(USAGE, "convert", "jsonl", TEXT, out).endswith(
            "a dataset's folder must not contain *, ? or [, which stand for several names")
    assert not s3.objects and not list(tmp_path.glob("*/t*"))


def test_schemes_without_slashes_are_no_folders(tmp_path, monkeypatch):
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    for name, meant in (("s3:/data/t@2", "s3://data/t@2"), ("s3:data/t@2", "s3://data/t@2"),
                        (f"file:{tmp_path}/t@2", f"file://{tmp_path}/t@2")):
        for command in (["cat", name], ["convert", "jsonl", TEXT, name]):
            assert f"a URL has two slashes after its scheme: {meant} (" in fail(USAGE, *command)
    with pytest.raises(ValueError, match="a cache is a folder of this machine"):
        sf.read("s3://data/t@2", cache="s3://data/cache")
    assert not list(here.iterdir())


def test_kinds_that_are_read_locally_say_so(tmp_path):
    with pytest.raises(ValueError, match="s3:// is not supported here, only local paths are"):
        sf.convert("parquet", "s3://data/t.parquet", tmp_path / "x@1")
    with pytest.raises(ValueError, match="s3:// is not supported here, only local paths are"):
        sf.from_parquet("s3://data/t.parquet")


@pytest.mark.parametrize("options", [[], ["--shuffle", "1"], ["--dedup"], ["--on-error", "skip"]])
def test_records_in_a_store_are_converted(s3, tmp_path, options):
    write(tmp_path / "t@3")
    write("s3://data/in/t@3")
    for source, out in ((tmp_path / "t@3", "here@2"), ("s3://data/in/t@3", "there@2")):
        succeed("convert", "tfrecord", source, tmp_path / out, *options)
    here, there = (list(map(bytes, sf.read(str(tmp_path / name)))) for name in ("here@2", "there@2"))
    assert here == there and len(here) == 200
    told = succeed("convert", "tfrecord", "s3://data/in/t@3", tmp_path / "there@2", *options, "--resume").out.decode()
    assert "modified since" not in told


def test_tfds_needs_a_folder(s3):
    write("s3://data/t@2")
    for command in (["convert", "jsonl", TEXT, "s3://data/x@2"], ["split", "s3://data/t@2", "s3://data/x", "--shares", "a=1,b=1"]):
        assert fail(USAGE, *command, "--tfds") == "--tfds needs a local folder, in which it writes its description"
    assert not [name for name in s3.objects if name.startswith("x")]


@pytest.mark.parametrize("name, meant", [("s3a://b/x@1", "s3://"), ("gcs://b/x@1", "gs://"), ("abfs://c@a/x@1", "abfss://"),
                                         ("file://host/x@1", "file:///PATH")])
def test_schemes_of_other_programs(name, meant):
    assert f":// is not supported; here it is {meant}; datasets are read from" in fail(USAGE, "cat", name)


# ---- Secrets


@pytest.mark.parametrize("query", ["?sv=1&sig=SECRET", "?X-Amz-Credential=k&X-Amz-Signature=SECRET", "?X-Goog-Signature=SECRET",
                                   "?access_token=SECRET", "?a=1;X%2DAmz%2DSignature=SECRET", "?password=SECRET",
                                   "#access_token=SECRET"])
def test_signed_addresses_are_refused(query, tmp_path):
    url = f"http://127.0.0.1:1/t@2{query}"
    message = fail(USAGE, "cat", url)
    assert message.startswith("http://127.0.0.1:1/t@2: a URL must not contain a signature, a token or a password ('")
    with pytest.raises(ValueError, match="must not contain a signature") as raised:
        sf.read(url)
    assert "SECRET" not in message + str(raised.value)


@pytest.mark.parametrize("name, meant", [("ftp://u:SECRET@h/t@2", ""), ("HTTP://u:SECRET@h/t@2", "here it is http://; "),
                                         ("hdfs://u:SEC/RET@h/t@2", ""), ("file://u:SECRET@h/t@2", "here it is file:///PATH; ")])
def test_passwords_of_other_schemes_are_not_repeated(name, meant):
    for command in (["cat", name], ["convert", "jsonl", TEXT, name]):
        message = fail(USAGE, *command)
        assert f":// is not supported; {meant}datasets are read from" in message
        assert "SEC" not in message and "RET" not in message


@pytest.mark.parametrize("variable", ["AWS_ENDPOINT_URL", "STORAGE_EMULATOR_HOST"])
@pytest.mark.parametrize("value, why", [("http://user:SECRET@127.0.0.1:1", "without a password"),
                                        ("http://127.0.0.1:1?token=SECRET", "without a query")])
def test_endpoints_have_no_secrets(monkeypatch, variable, value, why):
    monkeypatch.setenv(variable, value)
    message = fail(USAGE, "cat", ("s3" if variable.startswith("AWS") else "gs") + "://data/t@2")
    forms = "http://HOST or https://HOST" if variable.startswith("AWS") else "HOST:PORT, http://HOST or https://HOST"
    assert message == f"{variable}: expected {forms}, {why}"


def test_passwords_of_containers_are_not_repeated(monkeypatch):
    message = fail(USAGE, "cat", "abfss://c:SECRET@acc.dfs.core.windows.net/t@2")
    assert message.startswith("abfss://c:...: a URL must not contain a password") and "SECRET" not in message


@pytest.mark.parametrize("proxy", ["http://u:SECRET#@x", "http://u:SECRET@x:port", "what://u:SECRET@x:1"])
def test_passwords_of_proxies_are_not_repeated(monkeypatch, proxy):
    monkeypatch.setenv("http_proxy", proxy)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://store.invalid")
    result = run("cat", "s3://data/t@2")
    assert result.status != 0 and "SECRET" not in result.err, result.err


# ---- Answers


@pytest.mark.parametrize("status, location, told", [
    (301, "https://minio.example.org/?token=SECRET", "it has moved to https://minio.example.org/; use that address"),
    (307, "/login", "it has moved to /login; use that address"), (302, None, "the server answered 302")])
def test_redirects_without_a_region(monkeypatch, status, location, told):
    headers = {} if location is None else {"Location": location}
    with s3_that(monkeypatch, lambda *_: (status, headers, b"")):
        message = run("cat", "s3://data/t@2").err
    assert told in message and "region" not in message and "SECRET" not in message


def test_requests_that_are_not_signed_on_purpose(monkeypatch):
    monkeypatch.setenv("AWS_NO_SIGN_REQUEST", "1")
    with s3_that(monkeypatch, lambda *_: error(403, "AccessDenied")):
        assert "AWS_NO_SIGN_REQUEST is set, so none are used" in run("cat", "s3://data/t@2").err


@pytest.mark.parametrize("more, told", [
    ("", "the server says that there is another page, but not which"),
    ("<NextMarker>x</NextMarker>", "the server says that there is another page, but not which"),
    ("<NextContinuationToken>x</NextContinuationToken>", "the server lists the same page again")])
def test_listings_without_an_end(monkeypatch, more, told):
    """What has been listed would be a part of the dataset."""
    listed, armed = [], threading.Event()

    def answer(store, request, body):
        status, headers, text = store.answer(request, body)
        if "list-type" in request.path and armed.is_set():
            listed.append(request.path)
            text = text.replace(b"<IsTruncated>false", b"<IsTruncated>true").replace(
                b"</IsTruncated>", b"</IsTruncated>" + more.encode())
        return status, headers, text

    with s3_that(monkeypatch, answer):
        write("s3://data/t@4")
        armed.set()
        message = run("verify", "s3://data/t-*").err
    assert "s3://data" in message and f": cannot be listed: {told}" in message
    assert 1 <= len(listed) < 10


@pytest.mark.parametrize("more, told", [
    ("", "the server says that there is another page, but not which"),
    ("<NextKeyMarker>x</NextKeyMarker><NextUploadIdMarker>y</NextUploadIdMarker>", "the server lists the same page again")])
def test_listings_of_uploads_without_an_end(monkeypatch, more, told):
    def answer(store, request, body):
        status, headers, text = store.answer(request, body)
        return status, headers, text.replace(b"<ListMultipartUploadsResult><IsTruncated>false</IsTruncated>", (
            f"<ListMultipartUploadsResult><IsTruncated>true</IsTruncated>{more}").encode())

    with s3_that(monkeypatch, answer):
        message = run("clean", "s3://data/").err
    assert "s3://data" in message and told in message


def test_archived_objects(monkeypatch):
    with s3_that(monkeypatch, lambda *_: error(403, "InvalidObjectState", "it is in Glacier")):
        assert "the object is archived (InvalidObjectState: it is in Glacier); restore it" in run("cat", "s3://data/t@2").err


def test_dates_to_retry_after_are_heeded(monkeypatch):
    seen = []

    def answer(store, request, body):
        if request.command == "GET" and "t-0000" in request.path:
            seen.append(time.time())
            if len(seen) == 1:
                # The server's clock is an hour ahead of this machine's.
                now = time.time() + 3600
                return 503, {"Date": email.utils.formatdate(now, usegmt=True),
                             "Retry-After": email.utils.formatdate(now + 2, usegmt=True)}, b""
        return store.answer(request, body)

    with s3_that(monkeypatch, answer):
        write("s3://data/t@1")
        succeed("cat", "s3://data/t@1")
    assert seen[1] - seen[0] > 0.9


def test_a_cache_is_not_blamed_for_requests(s3, tmp_path):
    write("s3://data/t@4")
    assert "would save" not in run("bench", "s3://data/t@4", "--cache", tmp_path / "cache").err


# ---- Others at work


def test_a_cleaner_removes_the_parts_of_a_writer_that_overwrites(monkeypatch, tmp_path):
    """The old dataset stays: the writer commits after its parts are gone, or the cleaner finds its commit."""
    asked, gone, listed, armed = threading.Event(), threading.Event(), threading.Event(), threading.Event()

    def answer(store, request, body):
        if armed.is_set():
            if "uploads" in request.path and request.command == "GET":
                listed.set()
            looks = ".commit" in request.path and request.command in ("GET", "HEAD")
            if looks and listed.is_set() and not asked.is_set():  # the cleaner finds that nobody commits
                answered = store.answer(request, body)
                asked.set()
                gone.wait(3)
                return answered
            if request.command == "PUT" and ".commit" in request.path and b"store commit" in body:
                asked.wait(10)  # the writer commits meanwhile
            if request.command == "POST" and "uploadId" in request.path:
                gone.set()
        return store.answer(request, body)

    with s3_that(monkeypatch, answer) as store:
        monkeypatch.setenv("SHARDFEED_NET_SECONDS", "10")
        write("s3://data/t@2", seed=1)
        before = dict(store.objects)
        armed.set()
        script = ("import sys; sys.path[:0] = sys.argv[1:3]; from stores_writing_test import write; "
                  "write('s3://data/t@2', records=300, seed=2, overwrite=True)")
        writer = subprocess.Popen([sys.executable, "-c", script, os.path.dirname(__file__), str(REPOSITORY / "python")],
                                  env={**os.environ, "PYTHONPATH": str(REPOSITORY / "tests")}, stderr=subprocess.PIPE, text=True)
        for _ in range(1000):
            if store.uploads:
                break
            time.sleep(0.01)
        run("clean", "s3://data/t", "--older-than", "0s")
        told = writer.communicate(timeout=60)[1]
        armed.clear()
        succeed("verify", "s3://data/t@2")
        count = len(list(sf.read("s3://data/t@2")))
        if writer.returncode:
            assert "its uploaded parts were removed from the store" in told, told
            assert count == 200 and dict(store.objects) == before
        else:
            assert count == 300


def test_other_threads_run_while_a_state_waits_for_a_store(monkeypatch):
    def answer(store, request, body):
        if slow.is_set() and request.command == "GET" and ".index" not in request.path:
            time.sleep(0.7)
        return store.answer(request, body)

    slow, longest, ended = threading.Event(), [0.0], threading.Event()

    def beat():
        last = time.monotonic()
        while not ended.is_set():
            time.sleep(0.01)
            now = time.monotonic()
            longest[0], last = max(longest[0], now - last), now

    with s3_that(monkeypatch, answer) as store:
        write("s3://data/t@4", records=400)
        for name in list(store.objects):
            if ".shardfeed" in name:
                del store.objects[name]
        slow.set()
        it = iter(sf.read("s3://data/t@4").batch(10))
        next(it)
        thread = threading.Thread(target=beat)
        thread.start()
        began = time.monotonic()
        pickle.dumps(it.state())
        waited = time.monotonic() - began
        ended.set()
        thread.join()
    assert waited > 0.6 and longest[0] < 0.5 * waited

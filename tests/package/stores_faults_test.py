"""Every fault of a store while a dataset is read, indexed, verified and written: the bytes that there
would be without it, or an error that names the object; never a part of a dataset."""

import contextlib
import datetime
import json
import re
import shutil
import socket
import sys
import time

import numpy as np
import pytest
from harness import DONE, REPOSITORY, run, succeed
from servers import S3, Object, answering, error, forget_credentials

sys.path.insert(0, str(REPOSITORY / "python"))
sf = pytest.importorskip("shardfeed", reason="the package is not built: python/build_package.py")

BUCKET = "data"
FOLDER = "a folder/ä+&"
RECORDS = 3000


# ---- Faults: what is sent instead of an answer. Each is given the request and the answer (status, headers,
# body) and gives another answer, or None where the connection breaks.


def head(request, answer, length=None):
    status, headers, body = answer
    request.send_response(status)
    for name, value in headers.items():
        request.send_header(name, value)
    request.send_header("Content-Length", str(len(body) if length is None else length))
    request.end_headers()


def delay(request, answer):
    time.sleep(0.05)
    return answer


def refused(request, answer):
    return error(503, "SlowDown")


def refused_for_a_second(request, answer):
    status, _, body = error(503, "SlowDown")
    return status, {"Retry-After": "1"}, body


def broken(request, answer):
    return None


def cut(request, answer):
    """The body ends early; a body of nothing, within the head."""
    status, _, body = answer
    if body:
        head(request, answer)
        request.wfile.write(body[:len(body) // 2])
    else:
        request.wfile.write(f"HTTP/1.1 {status}".encode())
    return None


def slow(request, answer):
    """In five pieces, of which none comes at once."""
    body = answer[2]
    head(request, answer)
    for n in range(5):
        request.wfile.flush()
        time.sleep(0.02)
        request.wfile.write(body[n * len(body) // 5:(n + 1) * len(body) // 5])
    return None


def whole(request, answer, store):
    """A range is answered with the object."""
    if answer[0] != 206:
        return answer
    found = store.objects[store.key_of(request)]
    return 200, {"ETag": found.tag}, found.data


def beside(request, answer, store):
    """A range is answered with one that begins a byte further on."""
    if answer[0] != 206:
        return answer
    status, headers, body = answer
    first, last, size = map(int, re.match(r"bytes (\d+)-(\d+)/(\d+)", headers["Content-Range"]).groups())
    if last + 1 >= size:
        return answer
    data = store.objects[store.key_of(request)].data
    return status, {**headers, "Content-Range": f"bytes {first + 1}-{last + 1}/{size}"}, data[first + 1:last + 2]


def other_version(request, answer):
    """Of an object, another version than before."""
    status, headers, body = answer
    if request.command != "GET" or "ETag" not in headers or status not in (200, 206):
        return answer
    if "If-Match" in request.headers:
        return error(412, "PreconditionFailed")
    return status, {**headers, "ETag": '"another"'}, body


def ignored_match(request, answer):
    """The same, by a server that ignores If-Match."""
    status, headers, body = answer
    if request.command != "GET" or "ETag" not in headers or status not in (200, 206):
        return answer
    tag = '"yet another"' if "If-Match" in request.headers else '"another"'
    return status, {**headers, "ETag": tag}, body


def expired(request, answer):
    return error(400, "ExpiredToken", "the token is old")


def error_in_200(request, answer):
    """What S3 does where it finds out too late, or a proxy."""
    return 200, {"ETag": '"x"'}, error(500, "InternalError")[2]


WITH_STORE = (whole, beside)

# The faults of answers to ranges.
OF_RANGES = (whole, beside, other_version, ignored_match)


class Store(S3):
    """The stand-in, with a fault in every n-th of the requests that `hits` chooses."""

    def __init__(self):
        super().__init__(BUCKET)
        self.failing, self.every, self.count, self.ranges, self.happened = None, 1, 0, 0, 0

    def key_of(self, request):
        import urllib.parse
        return urllib.parse.unquote(request.path.partition("?")[0]).lstrip("/").split("/", 1)[1]

    def answer(self, request, body):
        if self.failing is None:
            return super().answer(request, body)
        with self.lock:
            self.count += 1
            hit = self.count % self.every == 0
        # What happens to answers happens when the request was done, and what refuses, instead.
        if hit and self.failing in (refused, refused_for_a_second, expired, error_in_200):
            self.happened += 1
            return self.failing(request, None)
        demanded = request.headers["If-Match"]
        if self.failing is ignored_match:
            del request.headers["If-Match"]
        answer = super().answer(request, body)
        if self.failing is ignored_match and demanded:
            request.headers["If-Match"] = demanded
        if answer is not None and self.failing in OF_RANGES:
            # Only ranges count, of which a writer reads few: the first has the fault.
            if answer[0] != 206:
                return answer
            with self.lock:
                hit = self.ranges % self.every == 0
                self.ranges += 1
        if not hit or answer is None:
            return answer
        changed = self.failing(request, answer, self) if self.failing in WITH_STORE else \
            self.failing(request, answer)
        self.happened += changed is not answer or self.failing is delay
        with contextlib.suppress(OSError):
            if changed is None:
                request.wfile.flush()
                request.connection.shutdown(socket.SHUT_WR)
        return changed

    def place(self):
        return f"s3://{BUCKET}/{FOLDER}"

    def there(self):
        return self.files(FOLDER + "/")

    def put(self, folder):
        for path in folder.rglob("*"):
            if path.is_file():
                data = path.read_bytes()
                self.objects[f"{FOLDER}/{path.relative_to(folder)}"] = Object(data, f'"{hash(data)}"', None)


# ---- Operations: each does its work at the place and returns (what it delivered, None) or (None, the error).


def read(place, here):
    try:
        ds = sf.read(f"{place}/d@4").shuffle(seed=3).parse({"n": sf.int64}).batch(100)
        return [int(n) for batch in ds for n in batch["n"]], None
    except (OSError, RuntimeError, ValueError) as e:
        return None, str(e)


def command(*words):
    def work(place, here):
        result = run(*[word.replace("PLACE", place).replace("HERE", str(here)) for word in words])
        if result.status == DONE:
            return result.out, None
        return None, result.err + result.out.decode()
    return work


# What is read and verified has a manifest and indexes. What is indexed has neither. What is written takes the
# place of another dataset.
OPERATIONS = {
    "read": read,
    "index": command("index", "PLACE/d@4"),
    "verify": command("verify", "PLACE/d@4", "--level", "examples", "--json"),
    "write": command("reshard", "HERE/d@4", "PLACE/d@2", "--overwrite", "-q"),
}

SAME = None  # the same bytes as without the fault
REPLACED = r"was replaced (since the dataset was opened|while it was (read|in use)); open it again|" \
    "another process has written a dataset of this name in the meantime; it stays, and nothing of this one was kept"
REFUSED = "SlowDown"
BROKEN = "127.0.0.1"
WHOLE = "does not serve parts of objects: it answered 200 to a range; use a server that honors 'Range'"
BESIDE = r"expected bytes \d+-\d+, got 'bytes \d+-\d+/\d+'"
EXPIRED = r"ExpiredToken: the token is old\); get new ones"
IN_200 = REPLACED + "|not a shardfeed manifest|not a commit record|the server's answer is not a listing|" \
    "InternalError|" + WHOLE


def ever(outcome, **others):
    return {**dict.fromkeys(OPERATIONS, outcome), **others}


# By fault: the function; whether one request in three may have it and nothing is noticed; and, for each operation,
# the outcome where all have it: SAME, or a pattern of the error. Where one in three has a fault that does not pass,
# either is right, since it depends on which: the same bytes, or that error. A writer asks for no ranges but to find
# out sizes, and compares versions with each other alone.
TABLE = {
    "delay": (delay, True, ever(SAME)),
    "slow bytes": (slow, True, ever(SAME)),
    "503": (refused, True, ever(REFUSED)),
    "503 with Retry-After": (refused_for_a_second, True, ever(REFUSED)),
    "reset": (broken, True, ever(BROKEN)),
    "short body": (cut, True, ever(BROKEN)),
    "ignored range": (whole, False, ever(WHOLE, write=SAME)),
    "wrong range": (beside, False, ever(BESIDE, write=SAME)),
    "other version": (other_version, False, ever(REPLACED, write=SAME)),
    "ignored If-Match": (ignored_match, False, ever(REPLACED, write=SAME)),
    "expired token": (expired, False, ever(EXPIRED)),
    "error in a 200": (error_in_200, False, ever(IN_200)),
}


@pytest.fixture(autouse=True)
def surroundings(monkeypatch, tmp_path):
    """Nothing of this machine's own credentials."""
    forget_credentials(monkeypatch, tmp_path)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")


@pytest.fixture
def store(monkeypatch):
    made = Store()
    with answering(made.answer) as endpoint:
        monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
        yield made


@pytest.fixture(scope="module")
def before(tmp_path_factory):
    """The dataset as a folder, and as one without manifest and indexes."""
    root = tmp_path_factory.mktemp("before")
    rng = np.random.default_rng(0)
    with sf.write(str(root / "whole/d@4")) as writer:
        for n in range(RECORDS):
            writer.write({"n": n, "x": rng.normal(size=int(rng.integers(1, 60))).astype(np.float32)})
    shutil.copytree(root / "whole", root / "bare", ignore=shutil.ignore_patterns(".shardfeed"))
    return root


@pytest.fixture(scope="module")
def expected(before, tmp_path_factory):
    """By operation: what it delivers, and what is in the folder then; here, without a store."""
    found = {}
    for name, work in OPERATIONS.items():
        folder = tmp_path_factory.mktemp(name)
        shutil.copytree(before / ("bare" if name == "index" else "whole"), folder, dirs_exist_ok=True)
        delivered, failure = work(str(folder), before / "whole")
        assert failure is None, failure
        found[name] = delivered, {str(path.relative_to(folder)): path.read_bytes()
                                  for path in folder.rglob("*") if path.is_file()}
    return found


def without_places(delivered):
    """What a command printed, less what differs between here and there."""
    if not isinstance(delivered, bytes):
        return delivered
    return re.sub(rb'"(s3:/)?/[^"]*/|[0-9.]+ (s|ms|MB/s|GB/s)\b|"(seconds|bytes_per_second|peak_rss_bytes)": [0-9.e+-]+', b"", delivered)


CASES = [(fault, operation, often) for fault in TABLE for operation in OPERATIONS for often in ("some", "all")]


@pytest.mark.parametrize("fault, operation, often", CASES)
def test_the_same_bytes_or_an_error_with_a_name(store, before, expected, monkeypatch, fault, operation, often):
    failing, passes, outcomes = TABLE[fault]
    outcome = outcomes[operation]
    if often == "some":
        outcome = SAME if passes else outcomes["read"]
    monkeypatch.setenv("SHARDFEED_NET_SECONDS", "8" if outcome is SAME else "1")
    store.put(before / ("bare" if operation == "index" else "whole"))
    old = store.there()
    store.failing, store.every = failing, 3 if often == "some" else 1
    delivered, failure = OPERATIONS[operation](store.place(), before / "whole")
    store.failing = None
    assert store.happened > 0
    same, new = expected[operation]
    if outcome is SAME or (often == "some" and failure is None):
        assert failure is None, failure
        assert without_places(delivered) == without_places(same)
        assert store.there() == new
        return
    assert delivered is None, "it was not noticed"
    assert re.search(outcome, failure), failure
    assert store.place() in failure
    there = store.there()
    if operation == "index":  # shard by shard: each index is whole, and shards stay
        assert {**there, **old} == there
        assert all(new[name] == data for name, data in there.items())
    else:
        assert there == old
    if operation == "write":  # and nothing is left that is paid for
        succeed("clean", f"{store.place()}/d", "--older-than", "0s")
        assert store.there() == old and not store.uploads


def test_tokens_that_expire_are_replaced_in_every_operation(before, expected, monkeypatch):
    """The store takes a token for five requests; the service that gives them always has another."""
    given = []
    store = Store()

    def service(request, _):
        given.append(0)
        expires = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=1)
        return 200, {}, json.dumps({"AccessKeyId": f"key-{len(given)}", "SecretAccessKey": "s", "Token": "t",
                                    "Expiration": expires.strftime("%Y-%m-%dT%H:%M:%SZ")}).encode()

    def takes(request, body):
        key = request.headers["Authorization"].split("Credential=")[1].split("/")[0]
        with store.lock:
            store.count += 1
            if store.count % 5 == 0 and key == f"key-{len(given)}":
                return error(400, "ExpiredToken", "the token is old")
        return S3.answer(store, request, body)

    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    with answering(service) as credentials, answering(takes) as endpoint:
        monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
        monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", credentials)
        for operation, work in OPERATIONS.items():
            store.objects.clear()
            store.put(before / ("bare" if operation == "index" else "whole"))
            delivered, failure = work(store.place(), before / "whole")
            assert failure is None, (operation, failure)
            assert without_places(delivered) == without_places(expected[operation][0])
            assert store.there() == expected[operation][1]
    assert len(given) > 4

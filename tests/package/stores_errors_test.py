"""What users get wrong about a store, and what each message tells them to do."""

import datetime
import os
import re
import socket

import harness
import pytest
from harness import DONE, run
from servers import answering, error, forget_credentials

TEXT = harness.TESTDATA / "tables/events.jsonl"
NAME = "s3://bucket/folder/train@2"


@pytest.fixture(autouse=True)
def surroundings(monkeypatch, tmp_path):
    for name in list(os.environ):
        if name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    forget_credentials(monkeypatch, tmp_path)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hidden")
    monkeypatch.setenv("SHARDFEED_NET_SECONDS", "1")


def says(message, names="s3://bucket"):
    """Reading and writing fail with the message, which names the URL and no secret."""
    for command in (["verify", NAME], ["convert", "jsonl", TEXT, NAME]):
        result = run(*command)
        assert result.status != DONE, command
        said = result.err + result.out.decode()
        assert re.search(message, said), (command, said)
        assert names in said and "hidden" not in said, (command, said)


@pytest.fixture
def answers(monkeypatch):
    """Makes the store answer so to every request."""
    with answering(lambda request, body: answers_of["now"](request)) as endpoint:
        answers_of = {}
        monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)

        def set_answer(answer):
            answers_of["now"] = answer if callable(answer) else lambda request: answer
        yield set_answer


ANSWERS = {
    "wrong bucket": (error(404, "NoSuchBucket"), "there is no bucket 'bucket' at http://127.0.0.1"),
    "no permission": (error(403, "AccessDenied", "denied"),
                      r"S3 refuses the credentials of the environment \(AccessDenied: denied\); they must "
                      r"allow this request; without permission to list, a missing object is refused in the same way"),
    "unknown key": (error(403, "InvalidAccessKeyId"), "the server does not know this key"),
    "wrong secret": (error(403, "SignatureDoesNotMatch"), "the secret key is wrong"),
    "expired": (error(400, "ExpiredToken", "old"), "get new ones, then resume from the saved state"),
    "invalid token": (error(400, "InvalidToken", "bad"), "get new ones, then resume from the saved state"),
    "clock": ((403, {}, error(403, "RequestTimeTooSkewed")[2]), "set this machine's clock"),
    "region": ((301, {"x-amz-bucket-region": "eu-west-9"}, error(301, "PermanentRedirect")[2]),
               "the bucket is in region eu-west-9; set AWS_REGION"),
    "overloaded": (error(503, "SlowDown", "reduce"), r"SlowDown: reduce \(the last of \d+ attempts in"),
}


@pytest.mark.parametrize("case", ANSWERS)
def test_what_the_store_refuses(answers, case):
    answer, message = ANSWERS[case]
    answers(answer)
    says(message)


def test_no_credentials(answers, monkeypatch):
    answers(error(403, "AccessDenied"))
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    says("S3 refuses access without credentials .*, and none were found; set AWS_ACCESS_KEY_ID and "
         "AWS_SECRET_ACCESS_KEY, or AWS_PROFILE")


def test_half_of_the_credentials(answers, monkeypatch):
    answers(error(403, "AccessDenied"))
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    says("AWS_SECRET_ACCESS_KEY")


def test_nobody_listens(monkeypatch):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{unused.getsockname()[1]}")
        says(r"127\.0\.0\.1.*[Cc]onnect")


def test_no_such_host(monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://no-such-host.invalid")
    says("no-such-host.invalid")


def test_no_such_proxy(monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://example.invalid")
    monkeypatch.setenv("http_proxy", "http://no-such-proxy.invalid:3128")
    says("no-such-proxy.invalid")


def test_an_endpoint_that_is_none(monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", "localhost:9000")
    says("AWS_ENDPOINT_URL: expected http://HOST or https://HOST, got 'localhost:9000'", names="AWS_ENDPOINT_URL")


def test_a_clock_that_is_wrong_is_corrected(answers):
    """By the server's: only the second request, signed with its time, is taken."""
    hour = datetime.timedelta(hours=1)
    theirs = datetime.datetime.now(datetime.timezone.utc) + 5 * hour
    seen = []

    def answer(request):
        signed = datetime.datetime.strptime(request.headers["x-amz-date"], "%Y%m%dT%H%M%SZ")
        late = theirs - signed.replace(tzinfo=datetime.timezone.utc)
        seen.append(abs(late) < hour / 4)
        if seen[-1]:
            return error(404, "NoSuchKey")
        return 403, {"Date": theirs.strftime("%a, %d %b %Y %H:%M:%S GMT")}, error(403, "RequestTimeTooSkewed")[2]

    answers(answer)
    assert "clock" not in run("verify", NAME).err
    assert seen[0] is False and all(seen[1:])

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


def test_half_of_the_credentials(answers, monkeypatch, tmp_path):
    """Those of another identity are not used instead."""
    def half(there, missing):
        says(f"{there} is set without {missing}; set both or neither", names=there)

    answers(error(403, "AccessDenied"))
    with monkeypatch.context() as m:
        m.delenv("AWS_SECRET_ACCESS_KEY")
        half("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    half("AWS_SECRET_ACCESS_KEY", "AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    with monkeypatch.context() as m:
        m.setenv("AWS_ROLE_ARN", "arn:role")
        half("AWS_ROLE_ARN", "AWS_WEB_IDENTITY_TOKEN_FILE")
    with monkeypatch.context() as m:
        m.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", str(tmp_path / "token"))
        half("AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_ROLE_ARN")
    profile(monkeypatch, tmp_path, "aws_access_key_id = key")
    half("aws_access_key_id of the profile 'prod'", "aws_secret_access_key")


def profile(monkeypatch, tmp_path, settings, name="prod"):
    (tmp_path / "profiles").write_text(f"[{name}]\n{settings}\n")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "profiles"))
    if name != "default":
        monkeypatch.setenv("AWS_PROFILE", name)


@pytest.mark.parametrize("setting", ["role_arn", "sso_session", "sso_start_url", "credential_process"])
def test_profiles_that_are_not_supported(answers, monkeypatch, tmp_path, setting):
    """Another identity, as that of the container, must not be used instead."""
    asked = []
    answers(lambda request: asked.append(request.path) or error(403, "AccessDenied"))
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    with monkeypatch.context() as m:
        m.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", os.environ["AWS_ENDPOINT_URL"] + "/container")
        profile(m, tmp_path, f"{setting} = x\nregion = eu-west-1")
        says(f"the profile 'prod' has {setting}, which is not supported; set AWS_ACCESS_KEY_ID", names="prod")
        assert not asked
    # That of no name may be there for something else.
    profile(monkeypatch, tmp_path, f"{setting} = x", name="default")
    says(rf"none were found \(the default profile has {setting}, which is not supported\); set AWS_ACCESS_KEY_ID")


@pytest.mark.parametrize("variable", ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"])
@pytest.mark.parametrize("value, told", [("hidden\n", "ends with a line break; remove it"),
                                         ("hidden\r\nX-Injected: 1", "has blanks, line breaks or other characters"),
                                         ("hid den", "has blanks, line breaks or other characters")])
def test_keys_with_line_breaks(answers, monkeypatch, variable, value, told):
    asked = []
    answers(lambda request: asked.append(request.path) or error(403, "AccessDenied"))
    monkeypatch.setenv(variable, value)
    says(f"{variable} {told}", names=variable)
    assert not asked


def test_keys_of_profiles_with_blanks(answers, monkeypatch, tmp_path):
    answers(error(403, "AccessDenied"))
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    profile(monkeypatch, tmp_path, "aws_access_key_id = key\naws_secret_access_key = hidden key")
    says("aws_secret_access_key of the profile 'prod' has blanks", names="prod")


@pytest.mark.parametrize("variable, more", [
    ("AWS_CONTAINER_CREDENTIALS_FULL_URI", {}),
    ("AWS_ENDPOINT_URL_STS", {"AWS_ROLE_ARN": "arn", "AWS_WEB_IDENTITY_TOKEN_FILE": __file__})])
def test_addresses_of_services_are_shown_without_passwords(monkeypatch, variable, more):
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    for name, value in more.items():
        monkeypatch.setenv(name, value)
    for address in ("http://user:hidden@127.0.0.1:1/path?token=hidden", "http://127.0.0.1:1?token=hidden"):
        monkeypatch.setenv(variable, address)
        says("127.0.0.1:1", names="127.0.0.1:1")


@pytest.mark.parametrize("variable", ["AWS_WEB_IDENTITY_TOKEN_FILE", "GOOGLE_APPLICATION_CREDENTIALS"])
@pytest.mark.parametrize("content", ['{"private_key": "hidden"}', "eyJhbGciOi.hidden.x", "hidden\nhidden"])
def test_variables_that_hold_no_path(monkeypatch, variable, content):
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    monkeypatch.setenv("AWS_ROLE_ARN", "arn")
    monkeypatch.setenv(variable, content)
    said = run("verify", "s3://data/t@2" if variable.startswith("AWS") else "gs://data/t@2").err
    assert f"{variable} must hold the path of a file, but seems to hold what the file contains" in said
    assert "hidden" not in said


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


@pytest.mark.parametrize("text", ["abc", "-5", "0", "10s"])
def test_patience_that_is_no_number(monkeypatch, text):
    monkeypatch.setenv("SHARDFEED_NET_SECONDS", text)
    says(f"SHARDFEED_NET_SECONDS: expected a number of seconds, 1 or more, got '{text}'", names="SECONDS")


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

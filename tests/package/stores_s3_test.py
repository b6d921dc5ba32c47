"""Datasets in S3, as moto serves it: names, listings and credentials. botocore checks signatures."""

import datetime
import json
import sys
import urllib.parse

import pytest
from harness import DONE, REPOSITORY, run, succeed
from servers import answering, error, signature_error
from stores_test import RECORDS, folder, numbers, surroundings  # noqa: F401

sys.path.insert(0, str(REPOSITORY / "python"))
sf = pytest.importorskip("shardfeed", reason="the package is not built: python/build_package.py")

BUCKET = "data"


@pytest.fixture(scope="module")
def s3_server():
    server = pytest.importorskip("moto.server", reason="moto is not installed")
    running = server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    running.start()
    host, port = running.get_host_and_port()
    yield f"http://{host}:{port}"
    running.stop()


@pytest.fixture(scope="module")
def s3_client(s3_server):
    boto3 = pytest.importorskip("boto3")
    client = boto3.client("s3", endpoint_url=s3_server, region_name="us-east-1",
                          aws_access_key_id="key", aws_secret_access_key="secret")
    client.create_bucket(Bucket=BUCKET)
    return client


@pytest.fixture(scope="module")
def uploaded(s3_client, folder):
    for file in folder.rglob("*"):
        if file.is_file():
            s3_client.upload_file(str(file), BUCKET, f"some folder/ä+&=%/{file.relative_to(folder)}")
    return f"s3://{BUCKET}/some folder/ä+&=%"


@pytest.fixture
def s3(s3_server, monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3_server)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")


def test_s3_names(s3, uploaded, folder):
    expected = numbers(sf.read(str(folder / "raw@4")))
    for name in ("raw@4", "raw@*", "raw-*-of-00004", "raw-0000[0-3]-of-*"):
        assert numbers(sf.read(f"{uploaded}/{name}")) == expected, name
    assert numbers(sf.read(f"{uploaded}/gzip@3.tfrecord.gz").shuffle(seed=3)) == \
        numbers(sf.read(str(folder / "gzip@3.tfrecord.gz")).shuffle(seed=3))
    assert "holds 2 datasets; name one of them" in run("verify", uploaded).err
    assert succeed("verify", f"{uploaded}/raw@4").out.endswith(b"all intact and as in the manifest\n")
    assert len(numbers(sf.read(f"{uploaded}/raw-00001-of-00004"))) == RECORDS // 4


def test_s3_what_is_not_there(s3, uploaded):
    for name, message in [
            (f"s3://{BUCKET}/nowhere/raw@4", "no such folder"),
            (f"s3://{BUCKET}/nothing", "there is no such object or folder"),
            ("s3://other/raw@4", "there is no bucket 'other' at http://127.0.0.1"),
            (f"{uploaded}/raw@5", "no such shards; found raw-00000-of-00004 ...; did you mean"),
            (f"{uploaded}/x*", "no file matches")]:
        result = run("verify", name)
        assert result.status != DONE and message in result.err, result.err


def test_s3_listings_have_pages(s3, s3_client, monkeypatch):
    # Not by requests, each of which takes moto long.
    moto = pytest.importorskip("moto.backends").get_backend("s3")["123456789012"]["aws"]
    for n in range(1003):
        moto.put_object(BUCKET, f"many/d-{n:05}-of-01004", b"")
    assert "1 of 1004 shards is missing: d-01003" in run("inspect", f"s3://{BUCKET}/many/d@*").err


def judged(secrets):
    """Answers as S3 to requests that botocore would sign alike; others are refused. `secrets`: by
    key id, (secret, token)."""
    seen = []

    def answer(request, _):
        header = request.headers.get("Authorization", "")
        if header:
            seen.append(header.split("Credential=")[1].split("/")[0])
        return signature_error(request, secrets) or error(404, "NoSuchKey", "none")

    return answer, seen


def look(name="s3://bucket/a folder/x+y=z&ä%41~/file"):
    """The error of opening a name that does not exist, or is refused."""
    return run("verify", name).err


def test_signatures_are_botocores(monkeypatch):
    answer, seen = judged({"id": ("secret/+=", None), "with-token": ("s", "tok/en+=")})
    with answering(answer) as endpoint:
        monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
        monkeypatch.setenv("AWS_REGION", "eu-central-1")
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "id")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret/+=")
        for name in ("s3://bucket/file", "s3://bucket/a folder/x+y=z&ä%41~/file", "s3://bucket/a@3",
                     "s3://my.bucket/(a)*'!"):
            assert "Signature" not in look(name) and "refuses" not in look(name), look(name)
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
        assert "SignatureDoesNotMatch: no); the secret key is wrong" in look()
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "unknown")
        assert "the server does not know this key" in look()
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "with-token")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s")
        monkeypatch.setenv("AWS_SESSION_TOKEN", "tok/en+=")
        assert "refuses" not in look()
        monkeypatch.setenv("AWS_SESSION_TOKEN", "old")
        assert "ExpiredToken: old); get new ones" in look()
        assert "wrong" not in look() and "tok/en" not in look()
        monkeypatch.setenv("AWS_NO_SIGN_REQUEST", "1")
        seen.clear()
        assert "S3 refuses access without credentials" in look()
        assert not seen


def test_where_credentials_are_found(monkeypatch, tmp_path):
    secrets = {name: (f"secret-{name}", f"token-{name}") for name in ("role", "container", "ec2")}
    secrets.update({"profile": ("secret-profile", None), "other": ("secret-other", None)})
    answer, seen = judged(secrets)

    def found(name):
        expires = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=1)
        return json.dumps({"AccessKeyId": name, "SecretAccessKey": f"secret-{name}",
                           "Token": f"token-{name}",
                           "Expiration": expires.strftime("%Y-%m-%dT%H:%M:%SZ")}).encode()

    def metadata(request, body):
        if request.path == "/" and request.command == "POST":
            form = urllib.parse.parse_qs(body.decode())
            assert form["Action"] == ["AssumeRoleWithWebIdentity"] and form["RoleArn"] == ["arn:role"]
            assert form["WebIdentityToken"] == ["web token&="]
            parts = json.loads(found("role"))
            return 200, {}, (
                "<AssumeRoleWithWebIdentityResponse xmlns='x'><AssumeRoleWithWebIdentityResult>"
                f"<Credentials><AccessKeyId>role</AccessKeyId><SecretAccessKey>secret-role"
                f"</SecretAccessKey><SessionToken>token-role</SessionToken><Expiration>"
                f"{parts['Expiration']}</Expiration></Credentials>"
                "</AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>").encode()
        if request.path == "/container":
            assert request.headers["Authorization"] == "let me"
            return 200, {}, found("container")
        if request.path == "/latest/api/token" and request.command == "PUT":
            return 200, {}, b"session"
        assert request.headers["X-aws-ec2-metadata-token"] == "session"
        if request.path.endswith("/security-credentials/"):
            return 200, {}, b"the-role"
        assert request.path.endswith("/security-credentials/the-role")
        return 200, {}, found("ec2")

    (tmp_path / "token").write_text("web token&=\n")
    (tmp_path / "credentials").write_text(
        "# mine\n[default]\naws_access_key_id = profile\naws_secret_access_key=secret-profile\n"
        "[else]\naws_access_key_id = other\naws_secret_access_key = secret-other\n")
    with answering(answer) as endpoint, answering(metadata) as service:
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", endpoint)

        def by(key, **variables):
            seen.clear()
            with monkeypatch.context() as m:
                for name, value in variables.items():
                    m.setenv(name, value)
                error = look()
            assert seen and set(seen) == {key}, (key, seen, error)
            assert "refuses" not in error, error

        by("profile", AWS_SHARED_CREDENTIALS_FILE=str(tmp_path / "credentials"))
        by("other", AWS_SHARED_CREDENTIALS_FILE=str(tmp_path / "credentials"), AWS_PROFILE="else")
        by("role", AWS_WEB_IDENTITY_TOKEN_FILE=str(tmp_path / "token"), AWS_ROLE_ARN="arn:role",
           AWS_ENDPOINT_URL_STS=service)
        by("container", AWS_CONTAINER_CREDENTIALS_FULL_URI=service + "/container",
           AWS_CONTAINER_AUTHORIZATION_TOKEN="let me")
        by("ec2", AWS_EC2_METADATA_SERVICE_ENDPOINT=service, AWS_EC2_METADATA_DISABLED="false")
        monkeypatch.setenv("AWS_PROFILE", "nobody")
        assert "AWS_PROFILE is 'nobody', but neither" in look()


def test_credentials_that_expire_are_replaced(monkeypatch, folder):
    """The service gives new ones each time; the store accepts only the newest."""
    given = []

    def service(request, _):
        given.append(f"key-{len(given)}")
        expires = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=1)
        return 200, {}, json.dumps({
            "AccessKeyId": given[-1], "SecretAccessKey": "s", "Token": "t",
            "Expiration": expires.strftime("%Y-%m-%dT%H:%M:%SZ")}).encode()

    def store(request, _):
        key = request.headers["Authorization"].split("Credential=")[1].split("/")[0]
        if key == "key-0":
            return 400, {}, b"<Error><Code>ExpiredToken</Code><Message>old</Message></Error>"
        return 404, {}, b"<Error><Code>NoSuchKey</Code><Message>none</Message></Error>"

    with answering(service) as credentials, answering(store) as endpoint:
        monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
        monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", credentials)
        assert "expired" not in look("s3://bucket/a@2").lower()
        assert given == ["key-0", "key-1"]

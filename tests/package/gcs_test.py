"""Google Cloud Storage: where credentials are found, what is signed, and what errors say; and
credentials that a function gives, of S3 too."""

import contextlib
import datetime
import gzip
import json
import os
import subprocess
import sys
import threading
import time

import pytest
from gcs_server import Gcs, Tokens, error
from harness import DONE, IO_FAILED, REPOSITORY, run, succeed
from servers import S3, Object, answering, forget_credentials

sys.path.insert(0, str(REPOSITORY / "python"))
sf = pytest.importorskip("shardfeed", reason="the package is not built: python/build_package.py")

BUCKET = "data"
NAME = f"gs://{BUCKET}/a folder/x+y=z&ä%41~/d@2"


@pytest.fixture(autouse=True)
def surroundings(monkeypatch, tmp_path):
    """Nothing of this machine's own credentials, and little patience."""
    forget_credentials(monkeypatch, tmp_path)
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path / "gcloud"))
    monkeypatch.setenv("NO_GCE_CHECK", "true")
    monkeypatch.setenv("SHARDFEED_NET_SECONDS", "4")
    yield
    for url in ("s3://", f"s3://{BUCKET}", "gs://", f"gs://{BUCKET}"):
        sf.set_credentials(url, None)


@contextlib.contextmanager
def store_of(kind, monkeypatch):
    store = kind(BUCKET)
    with answering(store.answer) as endpoint:
        monkeypatch.setenv(store.endpoint, endpoint)
        yield store


@pytest.fixture
def gcs(monkeypatch):
    with store_of(Gcs, monkeypatch) as store:
        yield store


@pytest.fixture(scope="module")
def rsa():
    """A private key as PEM, and the public key."""
    pytest.importorskip("cryptography")
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa
    key = rsa.generate_private_key(65537, 2048)
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8,
                             serialization.NoEncryption()).decode(), key.public_key()


def look(name=NAME):
    """The error of a name that is not there, or where it is refused."""
    result = run("verify", name)
    assert result.status != DONE
    for secret in ("s3cret", "ya29", "1//refresh", "PRIVATE KEY"):
        assert secret not in result.err, result.err
    return result.err


def write(spec, records=20, **options):
    with sf.write(spec, **options) as writer:
        for n in range(records):
            writer.write({"n": n})


def numbers(spec):
    """In order: a writer deals records out to its shards."""
    return sorted(row["n"] for row in sf.read(spec).parse())


# ---- Keys and tokens


def test_hmac_keys_sign(gcs, monkeypatch):
    gcs.secrets = {"GOOG1": "s3cret/+="}
    monkeypatch.setenv("GS_ACCESS_KEY_ID", "GOOG1")
    monkeypatch.setenv("GS_SECRET_ACCESS_KEY", "s3cret/+=")
    monkeypatch.setenv("GOOGLE_CLOUD_QUOTA_PROJECT", "payer")
    write(NAME)
    write(NAME, overwrite=True)
    assert numbers(NAME) == list(range(20))
    assert succeed("clean", NAME).out == b"nothing was left behind\n"
    assert {method for method, _, _ in gcs.requests} == {"GET", "PUT", "POST", "DELETE"}
    assert gcs.projects == {"payer"}
    monkeypatch.setenv("GS_SECRET_ACCESS_KEY", "s3cret")
    assert "the credentials of the environment (SignatureDoesNotMatch: no); the secret of the HMAC key is wrong" \
        in look()
    monkeypatch.setenv("GS_ACCESS_KEY_ID", "GOOG2")
    assert "InvalidAccessKeyId: no); the HMAC key is unknown, or it was deactivated" in look()


def test_where_tokens_are_found(gcs, rsa, monkeypatch, tmp_path):
    gcs.tokens = set()
    tokens = Tokens(gcs, rsa[1])
    with answering(tokens.answer) as service:
        account = {"type": "service_account", "client_email": "me@project", "private_key": rsa[0],
                   "private_key_id": "key-1", "token_uri": service + "/token"}
        user = {"type": "authorized_user", "client_id": "me", "client_secret": "s3cret",
                "refresh_token": "1//refresh&=", "token_uri": service + "/token"}
        (tmp_path / "account.json").write_text(json.dumps(account))
        (tmp_path / "gcloud").mkdir()
        (tmp_path / "gcloud/application_default_credentials.json").write_text(json.dumps(user))

        def by(kind, *without, **variables):
            before = len(tokens.given)
            with monkeypatch.context() as m:
                for name in without:
                    m.delenv(name)
                for name, value in variables.items():
                    m.setenv(name, str(value))
                message = look()
            assert "no such" in message, message
            assert tokens.given[before:] == [kind], (kind, tokens.given, message)

        by("service", GOOGLE_APPLICATION_CREDENTIALS=tmp_path / "account.json")
        assert tokens.claims["iss"] == "me@project" and tokens.claims["aud"] == service + "/token"
        assert tokens.claims["scope"] == "https://www.googleapis.com/auth/devstorage.read_write"
        assert abs(tokens.claims["iat"] - time.time()) < 60
        assert tokens.claims["exp"] - tokens.claims["iat"] == 3600
        by("user", GOOGLE_APPLICATION_CREDENTIALS=tmp_path / "gcloud/application_default_credentials.json")
        # An emulator is not given what is there for everything; Google is, which cannot be reached here.
        assert "without credentials" in look() and len(tokens.given) == 2
        monkeypatch.delenv("STORAGE_EMULATOR_HOST")
        monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")
        assert "https://storage.googleapis.com: Failed to connect" in look()
        assert tokens.given[2:] == ["user"]


def test_files_that_are_no_credentials(gcs, rsa, monkeypatch, tmp_path):
    path = tmp_path / "file.json"
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(path))
    assert f"GOOGLE_APPLICATION_CREDENTIALS: {path}: cannot open: No such file" in look()
    account = {"type": "service_account", "client_email": "me@project", "private_key_id": "key-1"}
    for text, message in [
            ("{", f"{path}: not a file of Google credentials"),
            ('{"type": "external_account"}', "credentials of type 'external_account' are not supported, only "
             "service_account and authorized_user; let a function give tokens (set_credentials)"),
            ('{"type": "service_account"}', "a service account's key without client_email or private_key"),
            ('{"type": "authorized_user"}', "run 'gcloud auth application-default login'"),
            (json.dumps({**account, "private_key": "PRIVATE KEY"}),
             "the private key is not an RSA key without a password")]:
        path.write_text(text)
        assert message in look(), look()
    tokens = Tokens(gcs, rsa[1])
    with answering(tokens.answer) as service:
        account.update(private_key=rsa[0], token_uri=service)
        path.write_text(json.dumps(account))
        tokens.refuse = {"error": "invalid_grant", "error_description": "Account not found"}
        assert f"{path}: {service} refuses these credentials (invalid_grant: Account not found); the key may have " \
               "been deleted or disabled" in look()
        path.write_text(json.dumps({"type": "authorized_user", "client_id": "me", "client_secret": "s3cret",
                                    "refresh_token": "1//refresh&=", "token_uri": service}))
        assert "(invalid_grant: Account not found); run 'gcloud auth application-default login'" in look()


def test_a_token_that_expired_is_replaced(gcs, rsa, monkeypatch, tmp_path):
    gcs.tokens = set()
    tokens = Tokens(gcs, rsa[1])
    with answering(tokens.answer) as service:
        (tmp_path / "account.json").write_text(json.dumps({
            "type": "service_account", "client_email": "me@project", "private_key": rsa[0],
            "private_key_id": "key-1", "token_uri": service}))
        monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "account.json"))
        write(NAME)
        gcs.tokens.clear()
        assert numbers(NAME) == list(range(20))
        assert tokens.given == ["service"] * 2
        # None comes any more.
        monkeypatch.setenv("GOOGLE_CLOUD_QUOTA_PROJECT", "another store")
        gcs.tokens = set()
        tokens.store = Gcs("nothing")
        tokens.store.tokens = set()
        with pytest.raises(PermissionError, match="the token has expired or is not one of Google's"):
            numbers(NAME)


def test_without_credentials(gcs):
    write(NAME)
    assert numbers(NAME) == list(range(20)) and set(gcs.seen) == {None}
    gcs.tokens = set()
    message = look()
    assert "does not allow it without credentials (AccessDenied: Anonymous caller does not have storage.objects.get " \
           "access), and none were found; set GOOGLE_APPLICATION_CREDENTIALS, or run 'gcloud auth application-default " \
           "login'" in message


def test_what_errors_say(gcs, monkeypatch):
    monkeypatch.setenv("GS_ACCESS_KEY_ID", "GOOG1")
    monkeypatch.setenv("GS_SECRET_ACCESS_KEY", "s3cret")
    assert "there is no bucket 'other' at http://127.0.0.1" in look("gs://other/d@2")
    for answer, message in [
            (error(403, "AccessDenied", "Access denied.", "me@p does not have storage.objects.get access."),
             "refuses the credentials of the environment (AccessDenied: me@p does not have storage.objects.get "
             "access.); give them a role such as Storage Object User on the bucket"),
            (error(400, "UserProjectMissing"), "set GOOGLE_CLOUD_QUOTA_PROJECT to the project that does"),
            (error(400, "ExpiredToken"), "the token has expired"),
            (error(403, "RequestTimeTooSkewed"), "; set this machine's clock"),
            (error(400, "InvalidArgument", "wrong"), "InvalidArgument: wrong")]:
        with monkeypatch.context() as m:
            m.setattr(gcs, "refused", lambda request, answer=answer: answer)
            assert message in look(), look()
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", "ftp://x")
    assert "STORAGE_EMULATOR_HOST: expected HOST:PORT, http://HOST or https://HOST, got 'ftp://x'" in look()


def test_a_clock_that_is_wrong_is_corrected(gcs, monkeypatch):
    monkeypatch.setenv("GS_ACCESS_KEY_ID", "GOOG1")
    monkeypatch.setenv("GS_SECRET_ACCESS_KEY", "s3cret")
    gcs.secrets = {"GOOG1": "s3cret"}
    write(NAME)
    real = gcs.refused
    ahead = datetime.timedelta(hours=1)

    def refused(request):
        signed = datetime.datetime.strptime(request.headers["x-goog-date"], "%Y%m%dT%H%M%SZ")
        now = datetime.datetime.now(datetime.timezone.utc).replace(tzinfo=None) + ahead
        if abs(signed - now) > datetime.timedelta(minutes=15):
            # The server of these tests sends a Date of its own, before this one.
            request.date_time_string = lambda: now.strftime("%a, %d %b %Y %H:%M:%S GMT")
            return error(403, "RequestTimeTooSkewed")
        return real(request)

    gcs.refused = refused
    assert succeed("verify", NAME).status == DONE


def test_objects_that_are_stored_compressed_are_refused(gcs):
    write(f"gs://{BUCKET}/d@1")
    key = "d-00000-of-00001"
    found = gcs.objects[key]
    gcs.objects[key] = Object(gzip.compress(found.data), '"zipped"', None)
    gcs.encoded.add(key)
    for name in (f"gs://{BUCKET}/d@1", f"gs://{BUCKET}/{key}"):
        with pytest.raises(RuntimeError, match="encodes the object as gzip; store it without Content-Encoding"):
            numbers(name)


def test_listings_have_pages(gcs):
    for n in range(130):
        gcs.objects[f"many/part-{n:05}"] = Object(b"", '"e"', None)
    result = run("inspect", f"gs://{BUCKET}/many/part-*", "--json")
    assert result.status == DONE and result.json["shards"] == 130, result.err


# ---- Functions


KINDS = {"s3": (S3, {"access_key_id": "key", "secret_access_key": "s3cret", "session_token": "t"}),
         "gs": (Gcs, {"token": "ya29.t"})}


@pytest.fixture(params=KINDS)
def store(request, monkeypatch):
    kind, values = KINDS[request.param]
    with store_of(kind, monkeypatch) as found:
        found.values = values
        found.url = f"{request.param}://{BUCKET}"
        if request.param == "s3":
            found.secrets = {"key": ("s3cret", "t")}
        else:
            found.tokens = {"ya29.t"}
        yield found


def test_a_function_gives_credentials(store):
    calls = []

    def give():
        calls.append(threading.get_ident())
        return {**store.values, "expires": time.time() + 3600}

    sf.set_credentials(store.url, give)
    write(f"{store.url}/d@3")
    assert numbers(f"{store.url}/d@3") == list(range(20))
    assert len(calls) == 1
    sf.set_credentials(store.url, None)
    with pytest.raises(PermissionError, match="without credentials"):
        numbers(f"{store.url}/d@3")
    sf.set_credentials(store.url.split("//")[0] + "//", give)
    assert numbers(f"{store.url}/d@3") == list(range(20)) and len(calls) == 2


def test_a_function_is_called_again_in_time(store):
    calls, again = [], threading.Event()

    def give():
        calls.append(threading.current_thread())
        if len(calls) > 1:
            again.set()
        now = datetime.datetime.now(datetime.timezone.utc)
        return {**store.values, "expires": now + datetime.timedelta(seconds=60)}

    sf.set_credentials(store.url, give)
    write(f"{store.url}/d@1")
    assert again.wait(20)
    assert numbers(f"{store.url}/d@1") == list(range(20))
    assert len(calls) == 2 and calls[0] is threading.main_thread() and calls[1] is not calls[0]


def test_a_function_is_called_again_when_the_store_refuses(store):
    calls = []

    def give():
        calls.append(0)
        return store.values if len(calls) > 1 else \
            {"token": "old"} if "token" in store.values else {**store.values, "session_token": "old"}

    store_url = f"{store.url}/d@1"
    sf.set_credentials(store.url, give)
    write(store_url)
    assert len(calls) == 2


def test_a_function_that_fails_later(store):
    calls = []

    def give():
        calls.append(0)
        if len(calls) > 1:
            raise KeyError("vault")
        return store.values

    sf.set_credentials(store.url, give)
    write(f"{store.url}/d@1")
    store.refused = lambda request: error(400, "ExpiredToken", "old")
    with pytest.raises(PermissionError, match=f"which could not be replaced: credentials for {store.url}: the function "
                       r".*give raised KeyError: 'vault'; \(ExpiredToken: old\)"):
        numbers(f"{store.url}/d@1")
    assert len(calls) == 2


def test_what_functions_do_wrong(store):
    def fail():
        raise KeyError("vault")

    for function, kind, message in [
            (fail, OSError, f"credentials for {store.url}: the function .*fail raised KeyError: 'vault'"),
            (lambda: None, OSError, "must return a dict with a token or an access_key_id, not NoneType"),
            (lambda: {"tokem": "s3cret"}, OSError, "returned the unknown keys tokem; known are access_key_id"),
            (lambda: {"token": b"s3cret"}, OSError, "returned a token that is not a str but bytes"),
            (lambda: {}, ValueError, "gave neither a token nor an access_key_id"),
            (lambda: {"access_key_id": "k"}, ValueError, "an access_key_id or a secret_access_key without the other"),
            (lambda: {**store.values, "token": "s3cret\r\nX: y"}, ValueError, "gave (both a token and|a token that has)"),
            (lambda: {"token": "s3crét"}, ValueError, "a token that has blanks or other characters"),
            (lambda: {**store.values, "expires": 1}, ValueError, "credentials that have expired already"),
            (lambda: {**store.values, "expires": float("nan")}, OSError, "an expires that is not a time"),
            (lambda: {**store.values, "expires": "soon"}, OSError, "returned str as expires"),
            (lambda: {**store.values, "expires": datetime.datetime.now()}, OSError, "without a time zone")]:
        sf.set_credentials(store.url, function)
        with pytest.raises(kind, match=message) as raised:
            numbers(f"{store.url}/d@1")
        assert "s3c" not in str(raised.value)


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_what_ends_the_program_is_no_error_of_a_function(store, kind):
    def give():
        raise kind("enough")

    sf.set_credentials(store.url, give)
    with pytest.raises(kind, match="enough"):
        numbers(f"{store.url}/d@1")
    with pytest.raises(kind, match="enough"):
        write(f"{store.url}/d@1")
    caught = []

    def read():
        try:
            numbers(f"{store.url}/d@1")
        except BaseException as error:
            caught.append(type(error))

    thread = threading.Thread(target=read)
    thread.start()
    thread.join()
    assert caught == [kind]
    sf.set_credentials(store.url, lambda: store.values)
    write(f"{store.url}/d@1")
    assert numbers(f"{store.url}/d@1") == list(range(20))


def test_s3_takes_no_token():
    sf.set_credentials("s3://data", lambda: {"token": "s3cret"})
    with pytest.raises(ValueError, match="credentials for s3://data: the function .* gave a token, which S3 does not take"):
        sf.read("s3://data/d@1")


def test_wrong_arguments():
    for url in ("", "s3", "s3:/x", "http://host", "ftp://x", "s3://bucket/", "s3://bucket/key"):
        with pytest.raises(ValueError, match="credentials are set for a bucket or container, such as s3://bucket"):
            sf.set_credentials(url, dict)
    with pytest.raises(ValueError) as raised:
        sf.set_credentials("s3://user:s3cret@bucket", dict)
    assert "s3cret" not in str(raised.value)
    for function in (3, "x", {}):
        with pytest.raises(TypeError, match="function must be"):
            sf.set_credentials("s3://bucket", function)


PROGRAM = """if True:
    import os, sys, threading, time, shardfeed as sf
    url, values, case = sys.argv[1], eval(sys.argv[2]), sys.argv[3]
    calls = []
    def give():
        calls.append(0)
        if case == "exit" and len(calls) > 1:
            time.sleep(3600)
        return {**values, "expires": time.time() + 60}
    sf.set_credentials(url, give)
    def count():
        return sum(1 for _ in sf.read(url + "/d@2"))
    assert count() == 20
    if case == "exit":
        count()
        time.sleep(0.3)
    elif case == "fork":
        child = os.fork()
        if child == 0:
            os._exit(0 if count() == 20 and len(calls) >= 1 else 1)
        assert os.waitpid(child, 0)[1] == 0
    elif case == "threads":
        # All need the GIL, and the function's threads too.
        def spin():
            while not done.is_set(): pass
        done = threading.Event()
        threads = [threading.Thread(target=spin) for _ in range(3)]
        for thread in threads: thread.start()
        readers = [threading.Thread(target=count) for _ in range(6)]
        for reader in readers: reader.start()
        for reader in readers: reader.join()
        done.set()
    print("done")
"""


@pytest.mark.parametrize("case", ["exit", "fork", "threads"])
def test_functions_and_the_end_forks_and_threads(store, case):
    """A program ends while its function sleeps; a child continues with it; nobody waits for the GIL."""
    sf.set_credentials(store.url, lambda: store.values)
    write(f"{store.url}/d@2")
    done = subprocess.run([sys.executable, "-c", PROGRAM, store.url, repr(store.values), case],
                          capture_output=True, text=True, timeout=100,
                          env={**os.environ, "PYTHONPATH": str(REPOSITORY / "python")})
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr


def test_states_and_pickles_have_no_credentials(store):
    import pickle
    sf.set_credentials(store.url, lambda: store.values)
    write(f"{store.url}/d@2")
    ds = sf.read(f"{store.url}/d@2").shuffle(seed=1).parse({"n": sf.int64}).batch(4)
    iterator = iter(ds)
    next(iterator)
    for kept in (pickle.dumps(ds), repr(ds).encode(), repr(iterator.state()).encode()):
        assert b"s3cret" not in kept and b"ya29" not in kept


def test_the_metadata_server(monkeypatch):
    """Of a machine of Google's, which is asked where nothing else is named."""
    store = Gcs(BUCKET)
    tokens = Tokens(store)
    with answering(tokens.answer) as service:
        monkeypatch.delenv("NO_GCE_CHECK")
        monkeypatch.setenv("GCE_METADATA_HOST", service.split("//")[1])
        # Google's own host cannot be reached from a test: a proxy is told what is asked for.
        monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")
        monkeypatch.setenv("SHARDFEED_NET_SECONDS", "1")
        result = run("verify", f"gs://{BUCKET}/d@2")
        assert result.status == IO_FAILED and tokens.given == ["machine"], result.err

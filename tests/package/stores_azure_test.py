"""Datasets in Azure Blob Storage, as a stand-in serves it (azure_server.py). Azure's own SDK is the
judge of the stand-in, in test_the_sdk_and_the_stand_in_agree: its signatures by key and its shared
access signatures pass, those with a wrong key do not, and it writes, reads and lists."""

import base64
import datetime
import json
import logging
import os
import sys
import time
import urllib.parse

import pytest
from azure_server import Azure, Object
from harness import DONE, REPOSITORY, run, succeed
from servers import answering
from stores_test import ORDERS, RECORDS, SPECS, folder, numbers, write  # noqa: F401

sys.path.insert(0, str(REPOSITORY / "python"))
sf = pytest.importorskip("shardfeed", reason="the package is not built: python/build_package.py")

PREFIX = "some folder/ä+&=%/"
PLACE = f"az://data/{PREFIX.rstrip('/')}"


@pytest.fixture(autouse=True)
def surroundings(monkeypatch):
    """Nothing of this machine's own credentials, and little patience."""
    for name in list(os.environ):
        if name.startswith(("AZURE_", "IDENTITY_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("AZURE_POD_IDENTITY_AUTHORITY_HOST", "http://127.0.0.1:1")
    monkeypatch.setenv("SHARDFEED_NET_SECONDS", "20")


@pytest.fixture
def azure(monkeypatch):
    store = Azure("account", "data")
    with answering(store.answer) as endpoint:
        store.endpoint = f"{endpoint}/account"
        monkeypatch.setenv("AZURE_STORAGE_ENDPOINT", store.endpoint)
        monkeypatch.setenv("AZURE_STORAGE_ACCOUNT", "account")
        monkeypatch.setenv("AZURE_STORAGE_KEY", store.key_text)
        yield store


@pytest.fixture
def uploaded(azure, folder):  # noqa: F811
    for n, file in enumerate(sorted(folder.rglob("*"))):
        if file.is_file():
            azure.objects[PREFIX + str(file.relative_to(folder))] = Object(file.read_bytes(), f'"0x{n}"', None)
    return azure


def sas(azure, key=None, hours=1, permissions="rwldc"):
    """A shared access signature of the account, by Azure's SDK."""
    blob = pytest.importorskip("azure.storage.blob", reason="azure-storage-blob is not installed")
    return blob.generate_account_sas(
        "account", key or azure.key_text, blob.ResourceTypes(container=True, object=True), permissions,
        datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=hours))


# ---- The stand-in


def test_the_sdk_and_the_stand_in_agree(azure):
    blob = pytest.importorskip("azure.storage.blob", reason="azure-storage-blob is not installed")
    from azure.core.exceptions import HttpResponseError, ResourceExistsError
    logging.getLogger("azure").setLevel(logging.ERROR)
    container_sas = blob.generate_container_sas(
        "account", "data", azure.key_text, permission="rwld",
        expiry=datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=1))
    for credential, way in [({"account_name": "account", "account_key": azure.key_text}, "key"),
                            (sas(azure), "sas"), (container_sas, "sas")]:
        azure.objects.clear()
        azure.ways.clear()
        client = blob.ContainerClient(azure.endpoint, "data", credential, retry_total=0)
        for name in ("a", "b/c", "ö +&=%/x'(~)"):
            one = client.get_blob_client(name)
            one.upload_blob(name.encode() * 9, metadata={"shardfeed_writer": "me"})
            assert one.download_blob(offset=1, length=3).readall() == (name.encode() * 9)[1:4]
            with pytest.raises(ResourceExistsError):
                one.upload_blob(b"", overwrite=False)
        one.stage_block("0001", b"new", validate_content=True)
        assert [each.id for each in one.get_block_list("uncommitted")[1]] == ["0001"]
        assert one.get_blob_properties().metadata == {"shardfeed_writer": "me"}
        client.get_blob_client("only/blocks").stage_block("0001", b"new")
        azure.page = 2
        assert [each.name for each in client.list_blobs()] == ["a", "b/c", "ö +&=%/x'(~)"]
        assert {each.name for each in client.walk_blobs()} == {"a", "b/", "ö +&=%/"}
        assert "only/blocks" in [each.name for each in client.list_blobs(include=["uncommittedblobs"])]
        azure.page = 5000
        one.delete_blob()
        assert azure.ways == {way}, azure.ways
    wrong = base64.b64encode(b"wrong").decode()
    for credential in ({"account_name": "account", "account_key": wrong}, sas(azure, key=wrong)):
        with pytest.raises(HttpResponseError) as raised:
            blob.ContainerClient(azure.endpoint, "data", credential, retry_total=0).get_blob_client(
                "a").download_blob()
        assert raised.value.error_code == "AuthenticationFailed"


# ---- What is read


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("order", ORDERS)
def test_what_is_read_is_what_is_read_locally(uploaded, folder, spec, order):  # noqa: F811
    read = ORDERS[order]
    assert numbers(read(sf.read(f"{PLACE}/{spec}"))) == numbers(read(sf.read(str(folder / spec))))
    assert uploaded.ways == {"key"}


def test_names(uploaded, folder):  # noqa: F811
    expected = numbers(sf.read(str(folder / "raw@4")))
    for page in (5000, 2):  # those of 2 begin with a page of nothing
        uploaded.page = page
        for name in ("raw@4", "raw@*", "raw-*-of-00004", "raw-0000[0-3]-of-*"):
            assert numbers(sf.read(f"{PLACE}/{name}")) == expected, name
        assert "holds 2 datasets; name one of them" in run("verify", PLACE).err
    there = f"abfss://data@account.dfs.core.windows.net/{PREFIX}raw@4"
    assert numbers(sf.read(there)) == expected
    assert succeed("verify", there).out.endswith(b"all intact and as in the manifest\n")
    assert len(numbers(sf.read(f"{PLACE}/raw-00001-of-00004"))) == RECORDS // 4


def test_blobs_of_other_types_are_read(uploaded, folder):  # noqa: F811
    uploaded.types = {key: "AppendBlob" for key in uploaded.objects}
    assert numbers(sf.read(f"{PLACE}/raw@4")) == numbers(sf.read(str(folder / "raw@4")))


def test_a_shard_that_is_replaced_is_never_mixed(uploaded):
    ds = sf.read(f"{PLACE}/raw@4").parse({"n": sf.int64}).batch(10)
    next(iter(ds))
    for key, found in uploaded.objects.items():
        uploaded.objects[key] = found._replace(tag='"0xother"')
    with pytest.raises(OSError, match="replaced since|open it again"):
        list(ds)


@pytest.mark.parametrize("fault", ["503", "reset"])
def test_faults_that_pass_change_nothing(uploaded, folder, fault):  # noqa: F811
    uploaded.fault = lambda number, *_: fault if number % 3 == 0 else None
    assert numbers(sf.read(f"{PLACE}/raw@4").shuffle(seed=3)) == \
        numbers(sf.read(str(folder / "raw@4")).shuffle(seed=3))


# ---- Errors


def look(name=f"{PLACE}/raw@4"):
    result = run("verify", name)
    return "" if result.status == DONE else result.err + result.out.decode()


def test_what_is_not_there(uploaded, monkeypatch):
    for name, message in [
            ("az://data/nowhere/raw@4", "no such folder"),
            ("az://data/nothing", "there is no such object or folder"),
            ("az://other/raw@4", f"there is no container 'other' at {uploaded.endpoint}"),
            (f"{PLACE}/raw@5", "no such shards; found raw-00000-of-00004 ...; did you mean"),
            ("az:///a@2", "the name of the container is missing"),
            ("az://data@account.dfs.core.windows.net/a@2", "az:// has a container alone"),
            ("abfss://data/a@2", "expected abfss://CONTAINER@ACCOUNT.dfs.core.windows.net/..."),
            ("abfss://user:secret@host/a@2", "expected abfss://CONTAINER@ACCOUNT.dfs"),
            ("az://da_ta/a@2", "containers have names of letters, digits and '-'"),
            ("az://data/a@2?sv=1&sig=secret", "az://data/a@2: a URL must not contain a shared access "
                                              "signature; set AZURE_STORAGE_SAS_TOKEN to it")]:
        assert message in look(name), look(name)
        assert "secret" not in look(name)
    for name in ("AZURE_STORAGE_ENDPOINT", "AZURE_STORAGE_ACCOUNT"):
        monkeypatch.delenv(name)
    assert "az://data: the storage account is not known; set AZURE_STORAGE_ACCOUNT or " \
        "AZURE_STORAGE_CONNECTION_STRING, or write abfss://data@ACCOUNT" in look()


def test_settings_that_cannot_be(azure, monkeypatch):
    for name, value, message in [
            ("AZURE_STORAGE_KEY", "se-cret", "AZURE_STORAGE_KEY: the account's key is not in Base64"),
            ("AZURE_STORAGE_ENDPOINT", "secret", "AZURE_STORAGE_ENDPOINT: expected http://HOST or"),
            ("AZURE_STORAGE_ACCOUNT", "secret/x", "AZURE_STORAGE_ACCOUNT: expected the name of an account"),
            ("AZURE_STORAGE_CONNECTION_STRING", "secret", "it has neither AccountName nor BlobEndpoint"),
            ("AZURE_STORAGE_CONNECTION_STRING", "AccountName=a;AccountKey=se-cret", "is not in Base64"),
            ("AZURE_STORAGE_CONNECTION_STRING", "AccountName=a;SharedAccessSignature=secret",
             "AZURE_STORAGE_CONNECTION_STRING: SharedAccessSignature: expected a shared access signature")]:
        with monkeypatch.context() as m:
            m.setenv(name, value)
            assert message in look() and "secret" not in look(), look()
    monkeypatch.delenv("AZURE_STORAGE_KEY")
    monkeypatch.setenv("AZURE_STORAGE_SAS_TOKEN", "secret")
    assert "AZURE_STORAGE_SAS_TOKEN: expected a shared access signature" in look() and "secret" not in look()


def test_keys(uploaded, monkeypatch):
    monkeypatch.setenv("AZURE_STORAGE_KEY", base64.b64encode(b"wrong").decode())
    assert "Azure refuses the key of AZURE_STORAGE_KEY (AuthenticationFailed" in look()
    assert "; the key is wrong, or that of another account" in look()
    monkeypatch.setenv("AZURE_STORAGE_KEY", uploaded.key_text)
    uploaded.fault = lambda *_: "refuse"
    assert "(AuthorizationPermissionMismatch" in look() and "the key may not do this" in look()
    monkeypatch.delenv("AZURE_STORAGE_KEY")
    monkeypatch.delenv("AZURE_STORAGE_ENDPOINT")
    uploaded.fault = None
    uploaded.ways.clear()
    monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING",
                       f"DefaultEndpointsProtocol=http;AccountName=account;AccountKey={uploaded.key_text};"
                       f"BlobEndpoint={uploaded.endpoint}/;")
    assert look() == "" and uploaded.ways == {"key"}
    assert look(f"abfss://data@account.dfs.core.windows.net/{PREFIX}raw@4") == ""


def test_a_clock_that_is_wrong_is_learned(uploaded):
    uploaded.skew = -3 * 3600
    assert look() == ""
    uploaded.skew = 3 * 3600
    assert look() == ""
    # A server whose answers have another time than what it compares with.
    real = uploaded.refused
    uploaded.refused = lambda *_: (*real(*_)[:1], {**real(*_)[1], "Date": "Mon, 01 Jan 2024 00:00:00 GMT"},
                                   real(*_)[2]) if real(*_) else None
    uploaded.skew = 9 * 3600
    assert "set this machine's clock" in look()


def test_shared_access_signatures(uploaded, monkeypatch):
    monkeypatch.delenv("AZURE_STORAGE_KEY")

    def by(token):
        monkeypatch.setenv("AZURE_STORAGE_SAS_TOKEN", token)
        error = look()
        for secret in urllib.parse.parse_qs(token.lstrip("?"))["sig"]:
            assert secret not in error and urllib.parse.quote(secret, safe="") not in error
        return error

    uploaded.ways.clear()
    assert by(sas(uploaded)) == "" and by("?" + sas(uploaded)) == "" and uploaded.ways == {"sas"}
    it = iter(sf.read(f"{PLACE}/raw@4").shuffle(seed=1))
    next(it)
    assert "sig" not in json.dumps(it.state_dict(), default=str)
    assert "; it has expired, or is not valid yet; get another one, then resume" in by(sas(uploaded, hours=-1))
    assert "Azure refuses the shared access signature of AZURE_STORAGE_SAS_TOKEN (AuthenticationFailed" in \
        by(sas(uploaded, key=base64.b64encode(b"wrong").decode()))
    assert "it is wrong, or that of another account" in by(sas(uploaded, key=base64.b64encode(b"x").decode()))
    assert "it lacks a permission: reading takes r and l, writing r, l, c, w and d" in \
        by(sas(uploaded, permissions="w"))
    token = sas(uploaded)
    monkeypatch.delenv("AZURE_STORAGE_SAS_TOKEN")
    monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING",
                       f"BlobEndpoint={uploaded.endpoint};SharedAccessSignature={token}")
    assert look() == ""


def test_anonymous(uploaded, monkeypatch):
    monkeypatch.setenv("AZURE_SKIP_SIGNATURE", "1")
    assert "Azure does not allow it without credentials (ResourceNotFound" in look()
    assert "none were found; set AZURE_STORAGE_KEY or AZURE_STORAGE_SAS_TOKEN, or log in" in look()
    uploaded.public = True
    uploaded.ways.clear()
    assert look() == ""
    monkeypatch.delenv("AZURE_SKIP_SIGNATURE")
    monkeypatch.delenv("AZURE_STORAGE_KEY")
    assert look() == "" and uploaded.ways == {"nothing"}


# ---- Azure AD


def test_identities(uploaded, monkeypatch, tmp_path):
    monkeypatch.delenv("AZURE_STORAGE_KEY")
    (tmp_path / "assertion").write_text("asser&tion\n")
    seen = []

    def service(request, body):
        path, _, query = request.path.partition("?")
        query = dict(urllib.parse.parse_qsl(query))
        form = dict(urllib.parse.parse_qsl(body.decode()))
        if path == "/tenant/oauth2/v2.0/token":
            assert form["grant_type"] == "client_credentials" and form["client_id"] == "client"
            assert form["scope"] == "https://storage.azure.com/.default"
            if "client_assertion" in form:
                assert form["client_assertion"] == "asser&tion"
                assert form["client_assertion_type"] == "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
                seen.append("workload")
            elif form["client_secret"] == "sec&ret":
                seen.append("secret")
            else:
                return 401, {}, json.dumps({"error": "invalid_client", "error_description":
                                            "AADSTS7000215: Invalid client secret provided.\r\nTrace"}).encode()
            return 200, {}, json.dumps({"token_type": "Bearer", "expires_in": 3599,
                                        "access_token": f"token-{seen[-1]}"}).encode()
        assert query["resource"] == "https://storage.azure.com"
        if path == "/app":
            assert request.headers["X-IDENTITY-HEADER"] == "let me" and query["api-version"] == "2019-08-01"
            seen.append("app")
        elif path == "/metadata/identity/oauth2/token":
            assert request.headers["Metadata"] == "true" and query["api-version"] == "2018-02-01"
            seen.append("machine")
        else:
            return 404, {}, b""
        return 200, {}, json.dumps({"access_token": f"token-{seen[-1]}",
                                    "expires_on": str(int(time.time()) + 3599)}).encode()

    with answering(service) as url:
        application = {"AZURE_TENANT_ID": "tenant", "AZURE_CLIENT_ID": "client", "AZURE_AUTHORITY_HOST": url}

        def by(name, **variables):
            seen.clear()
            uploaded.ways.clear()
            uploaded.tokens = {f"token-{name}"}
            with monkeypatch.context() as m:
                for variable, value in variables.items():
                    m.setenv(variable, value)
                assert look() == ""
            assert uploaded.ways == {"token"} and set(seen) == {name}

        by("secret", **application, AZURE_CLIENT_SECRET="sec&ret",
           AZURE_FEDERATED_TOKEN_FILE=str(tmp_path / "assertion"))
        by("workload", **application, AZURE_FEDERATED_TOKEN_FILE=str(tmp_path / "assertion"))
        by("app", IDENTITY_ENDPOINT=f"{url}/app", IDENTITY_HEADER="let me",
           AZURE_POD_IDENTITY_AUTHORITY_HOST=url)
        by("machine", AZURE_POD_IDENTITY_AUTHORITY_HOST=url)
        uploaded.tokens = set()
        for name, value in application.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("AZURE_CLIENT_SECRET", "wrong")
        assert "az://data: the identity of AZURE_CLIENT_SECRET gives no token: AADSTS7000215: Invalid client " \
            "secret provided.; check AZURE_TENANT_ID and AZURE_CLIENT_ID" in look()
        monkeypatch.setenv("AZURE_CLIENT_SECRET", "sec&ret")
        assert "Azure refuses the identity of AZURE_CLIENT_SECRET (InvalidAuthenticationInfo" in look()
        uploaded.tokens = {"token-secret"}
        uploaded.fault = lambda *_: "refuse"
        assert "it needs the role Storage Blob Data Reader, and to write Storage Blob Data Contributor" in look()


def test_tokens_that_expire_are_replaced(uploaded, monkeypatch):
    """The service gives others each time; the store takes only the newest."""
    monkeypatch.delenv("AZURE_STORAGE_KEY")
    given = []

    def service(request, _):
        given.append(f"token-{len(given)}")
        uploaded.tokens = {given[-1]} - {"token-0"}
        return 200, {}, json.dumps({"access_token": given[-1], "expires_in": "3599"}).encode()

    with answering(service) as url:
        monkeypatch.setenv("AZURE_POD_IDENTITY_AUTHORITY_HOST", url)
        assert look() == ""
    assert given == ["token-0", "token-1"]

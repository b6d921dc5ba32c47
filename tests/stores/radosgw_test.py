"""Writing, reading and cleaning in the S3 of Ceph, which checks signatures and has conditions of its
own: it heeds If-None-Match when an object is created, but not when an upload is completed."""

import os
import sys

import harness
import numpy as np
import pytest
from harness import DONE, REPOSITORY, USAGE, run, succeed

sys.path.insert(0, str(REPOSITORY / "python"))
import shardfeed as sf  # noqa: E402

TEXT = harness.TESTDATA / "tables/events.jsonl"
ENDPOINT = os.environ.get("SHARDFEED_STORE", "")
pytestmark = pytest.mark.skipif(not ENDPOINT, reason="run by scripts/stores")
BUCKET = "tests"


@pytest.fixture(scope="module")
def client():
    boto3 = pytest.importorskip("boto3")
    made = boto3.client("s3", endpoint_url=ENDPOINT, region_name="us-east-1",
                        aws_access_key_id=os.environ["SHARDFEED_STORE_KEY"],
                        aws_secret_access_key=os.environ["SHARDFEED_STORE_SECRET"])
    made.create_bucket(Bucket=BUCKET)
    return made


@pytest.fixture(autouse=True)
def surroundings(monkeypatch, tmp_path, client):
    for name in list(os.environ):
        if name.startswith("AWS_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "no-config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "no-credentials"))
    monkeypatch.setenv("AWS_ENDPOINT_URL", ENDPOINT)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", os.environ["SHARDFEED_STORE_KEY"])
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", os.environ["SHARDFEED_STORE_SECRET"])
    monkeypatch.setenv("SHARDFEED_NET_SECONDS", "20")


@pytest.fixture(params=["plain", "a b/ä+&=%41()'!~"])
def place(request):
    """A folder whose name is awkward to sign."""
    return f"s3://{BUCKET}/{request.node.originalname}/{request.param}"


def objects(client, place):
    prefix = place.removeprefix(f"s3://{BUCKET}/") + "/"
    pages = client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=prefix)
    return {each["Key"][len(prefix):]: client.get_object(Bucket=BUCKET, Key=each["Key"])["Body"].read()
            for page in pages for each in page.get("Contents", [])}


def uploads(client):
    return client.list_multipart_uploads(Bucket=BUCKET).get("Uploads", [])


def write(spec, records=2000, seed=0, **options):
    rng = np.random.default_rng(seed)
    with sf.write(str(spec), **options) as writer:
        for n in range(records):
            writer.write({"n": n, "x": rng.normal(size=int(rng.integers(1, 60))).astype(np.float32)})


def numbers(ds):
    return [int(n) for batch in ds.parse({"n": sf.int64}).batch(100) for n in batch["n"]]


def test_what_is_written_is_what_is_written_to_a_folder(client, place, tmp_path):
    for options in ({}, {"compression": "gzip"}):
        for spec in (f"{place}/d@5", tmp_path / "out/d@5"):
            write(spec, overwrite=True, **options)
        assert objects(client, place) == harness.tree(tmp_path / "out")
    assert uploads(client) == []


def test_what_is_read_is_what_is_read_locally(place, tmp_path):
    for spec, options in (("raw@4", {}), ("gzip@3.tfrecord.gz", {"compression": "gzip"})):
        for folder in (place, tmp_path):
            write(f"{folder}/{spec}", **options)
        for order in (lambda ds: ds, lambda ds: ds.shuffle(seed=3), lambda ds: ds.interleave(cycle=3, block=5),
                      lambda ds: ds.shuffle(seed=3, window=None)):
            assert numbers(order(sf.read(f"{place}/{spec}"))) == numbers(order(sf.read(f"{tmp_path}/{spec}")))
        assert succeed("verify", f"{place}/{spec}").out.endswith(b"all intact and as in the manifest\n")
    assert numbers(sf.read(f"{place}/raw@*")) == numbers(sf.read(f"{tmp_path}/raw@4"))
    assert "holds 2 datasets" in run("verify", place).err


def test_large_shards_are_several_parts(client, place):
    rng = np.random.default_rng(1)
    records = [rng.bytes(1 << 20) for _ in range(40)]
    with sf.write(f"{place}/d@2") as writer:
        for record in records:
            writer.write(record)
    assert [bytes(record) for record in sf.read(f"{place}/d@2").interleave(cycle=2, block=1)] == records
    assert uploads(client) == []


def test_two_writers_of_one_name(client, place):
    first, second = (sf.write(f"{place}/d@{n}", overwrite=True) for n in (3, 4))
    first.write({"n": 1})
    second.write({"n": 2})
    second.close()
    there = objects(client, place)
    with pytest.raises(RuntimeError, match="another process has written a dataset of this name"):
        first.close()
    assert objects(client, place) == there and uploads(client) == []
    with pytest.raises(FileExistsError, match="there is a dataset of this name"):
        write(f"{place}/d@2")


def test_what_is_given_up_leaves_nothing(client, place):
    with pytest.raises(ZeroDivisionError), sf.write(f"{place}/d@3") as writer:
        for _ in range(30):
            writer.write(os.urandom(1 << 20))
        1 / 0
    assert objects(client, place) == {} and uploads(client) == []


def test_clean_removes_what_a_killed_writer_left(client, place):
    key = f"{place}/d-00000-of-00001".removeprefix(f"s3://{BUCKET}/")
    begun = client.create_multipart_upload(Bucket=BUCKET, Key=key)
    client.upload_part(Bucket=BUCKET, Key=key, UploadId=begun["UploadId"], PartNumber=1, Body=b"x" * 100)
    assert "younger than 24h" in succeed("clean", f"{place}/d").out.decode()
    assert succeed("clean", f"{place}/d", "--older-than", "0s", "--json").json["removed"] == \
        [f"{place}/d-00000-of-00001"]
    assert uploads(client) == []


def test_listings_have_pages(client):
    for n in range(1003):
        client.put_object(Bucket=BUCKET, Key=f"many/part-{n:05}", Body=b"")
    assert succeed("inspect", f"s3://{BUCKET}/many/part-*", "--json").json["shards"] == 1003


def test_an_object_that_is_replaced_is_never_mixed(place):
    write(f"{place}/d@1")
    ds = sf.read(f"{place}/d@1").parse({"n": sf.int64}).batch(10)
    assert next(iter(ds))["n"].tolist() == list(range(10))
    write(f"{place}/d@1", seed=1, overwrite=True)
    with pytest.raises(OSError, match="replaced since|open it again"):
        list(ds)


def test_wrong_credentials_are_named(monkeypatch):
    name = f"s3://{BUCKET}/d@1"
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    assert "SignatureDoesNotMatch" in run("verify", name).err and "the secret key is wrong" in run("verify", name).err
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "unknown")
    assert "the server does not know this key" in run("verify", name).err
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    assert "S3 refuses access without credentials" in run("verify", name).err
    result = run("convert", "jsonl", TEXT, name)
    assert result.status not in (DONE, USAGE) and "without credentials" in result.err


def test_wrong_buckets_are_named():
    for command in (["verify"], ["convert", "jsonl", TEXT]):
        assert "there is no bucket 'nobodys' at http://127.0.0.1" in run(*command, "s3://nobodys/d@1").err


def test_the_conditions_of_this_server(client):
    """Why the writer relies on the conditional creation of small objects alone. Where this fails, Ceph has
    become better, and docs/stores.md has to say so."""
    from botocore.exceptions import ClientError
    client.put_object(Bucket=BUCKET, Key="here", Body=b"first", IfNoneMatch="*")
    with pytest.raises(ClientError, match="PreconditionFailed"):
        client.put_object(Bucket=BUCKET, Key="here", Body=b"second", IfNoneMatch="*")
    begun = client.create_multipart_upload(Bucket=BUCKET, Key="here")["UploadId"]
    part = client.upload_part(Bucket=BUCKET, Key="here", UploadId=begun, PartNumber=1, Body=b"third")
    client.complete_multipart_upload(Bucket=BUCKET, Key="here", UploadId=begun, IfNoneMatch="*",
                                     MultipartUpload={"Parts": [{"ETag": part["ETag"], "PartNumber": 1}]})
    assert client.get_object(Bucket=BUCKET, Key="here")["Body"].read() == b"third"

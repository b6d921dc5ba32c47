"""Datasets in stores that several processes write (jobs_test.py has those in folders): parts are uploads
that nobody sees, and the driver's commit publishes one attempt at each. For jobs without a driver, see
stores_shared_jobs_test.py."""

import json
import multiprocessing
import os
import pickle
import sys

import pytest
from harness import REPOSITORY, changed_message, succeed
from jobs_test import PARTS, rows_of, write_part
from servers import S3, Object
from stores_writing_test import (  # noqa: F401
    files, moto, moto_server, place, s3, surroundings, write)

sys.path.insert(0, str(REPOSITORY / "python"))
sf = pytest.importorskip("shardfeed", reason="the package is not built: python/build_package.py")

HIDDEN = ".shardfeed/a.jobs/"


def write_parts(job):
    return [write_part(job, part) for part in range(PARTS)]


def finished_job(place):
    """A job that is to replace a dataset of 3 records, and the messages of all its parts."""
    write(place / "a@1", records=3, overwrite=True)
    job = sf.write_job(place / "a@4", overwrite=True)
    return job, write_parts(job)


@pytest.fixture
def wanted(tmp_path):
    """What a job in a folder makes of the same rows."""
    job = sf.write_job(tmp_path / "wanted/a@4")
    job.commit(write_parts(job))
    return files(tmp_path / "wanted")


def left_behind(place):
    return [name for name in place.files() if "jobs" in name or "commit" in name]


@pytest.mark.parametrize("compression", ["none", "gzip"])
def test_parts_become_the_dataset_that_a_folder_has(place, tmp_path, compression):
    there = sf.write_job(place / "a", PARTS, compression=compression)
    here = sf.write_job(tmp_path / "out/a", PARTS, compression=compression)
    copy = pickle.loads(pickle.dumps(there))
    assert (copy.id, copy.spec, len(copy)) == (there.id, place / "a@4", PARTS)
    messages = [write_part(copy, part) for part in (2, 0, 3, 1)]
    assert all(name.startswith(HIDDEN) for name in place.files())
    with pytest.raises(FileNotFoundError):
        sf.read(place / "a@4")
    assert there.commit(messages) == here.commit(write_parts(here))
    assert place.files() == files(tmp_path / "out") and place.uploads() == []
    assert [(int(r["part"]), int(r["n"])) for r in sf.read(place / "a@4").parse()] == [
        (part, row["n"]) for part in range(PARTS) for row in rows_of(part)]
    assert succeed("verify", place / "a@4", "--level", "examples").out.endswith(
        b"all intact and as in the manifest\n")
    assert os.listdir(tmp_path / "tmp") == []


def test_processes_write_parts(place, wanted):
    job = sf.write_job(place / "a@4")
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        messages = pool.starmap(write_part, [(job, part) for part in range(PARTS)])
    job.commit(messages)
    assert place.files() == wanted and place.uploads() == []


def test_large_parts_are_several_pieces(place, tmp_path):
    """And shards of nothing."""
    pieces = [os.urandom(1 << 20) for _ in range(20)]
    for folder in (place, tmp_path / "out"):
        job = sf.write_job(str(folder / "a@3"))
        messages = []
        for part in range(3):
            with job.shard(part) as writer:
                for piece in pieces if part == 1 else []:
                    writer.write(piece)
            messages.append(writer.message)
        assert max(map(len, messages)) < 2000
        job.commit(messages)
    assert place.files() == files(tmp_path / "out") and place.uploads() == []


def test_attempts_beside_each_other_count_once(place, wanted):
    job = sf.write_job(place / "a@4")
    late = job.shard(1, "late")
    late.write({"part": 99})
    messages = [write_part(job, part, attempt) for attempt in (0, 1) for part in range(PARTS)]
    with pytest.raises(ZeroDivisionError):
        with job.shard(2, "failing") as writer:
            writer.write({"part": 98})
            raise ZeroDivisionError
    job.commit(messages)
    with pytest.raises(RuntimeError, match="the job has been committed, aborted"):
        late.close()
    late.abort()
    assert place.files() == wanted and place.uploads() == []
    with pytest.raises(RuntimeError, match="the job has been committed, aborted"):
        job.shard(0)
    assert place.files() == wanted


def test_commits_may_be_repeated(place, wanted):
    job = sf.write_job(place / "a@4")
    messages = write_parts(job)
    report = job.commit(messages)
    assert pickle.loads(pickle.dumps(job)).commit(messages) == report
    assert place.files() == wanted
    other = sf.write_job(place / "a@4", overwrite=True)
    assert other.commit(write_parts(other), made_by={"by": "me"}) == report
    assert json.loads(place.files()[".shardfeed/a.manifest.json"])["made_by"]["by"] == "me"
    assert place.uploads() == [] and left_behind(place) == []


def test_the_old_dataset_is_there_until_the_commit(place, wanted):
    write(place / "a@2")
    with pytest.raises(FileExistsError, match="there is a dataset of this name; pass overwrite=True"):
        sf.write_job(place / "a@4")
    assert left_behind(place) == []
    before = place.files()
    job = sf.write_job(place / "a@4", overwrite=True)
    messages = write_parts(job)
    assert {name: data for name, data in place.files().items() if not name.startswith(HIDDEN)} == before
    job.commit(messages)
    assert place.files() == wanted


def test_a_commit_does_not_replace_what_was_written_meanwhile(place):
    job = sf.write_job(place / "a@4", overwrite=True)
    messages = write_parts(job)
    write(place / "a@4", records=5)
    with pytest.raises(RuntimeError, match="another dataset of this name has been written since the job "
                                           "was created; it stays"):
        job.commit(messages)
    assert len(sf.read(place / "a@4")) == 5
    job.abort()
    assert left_behind(place) == [] and place.uploads() == []


def test_aborting_leaves_nothing(place, tmp_path):
    job = sf.write_job(place / "a@4")
    write_part(job, 0)
    write_part(job, 0, "again")
    writing = job.shard(1)
    writing.write({"n": 1})
    job.abort()
    with pytest.raises(RuntimeError, match="the job has been committed, aborted"):
        writing.close()
    writing.abort()
    job.abort()
    assert place.files() == {} and place.uploads() == []
    assert os.listdir(tmp_path / "tmp") == []


def test_what_is_no_dataset_is_not_committed(place):
    job = sf.write_job(place / "a@4")
    other = sf.write_job(place / "b@4")
    messages = write_parts(job)
    def lying(**object):
        return [*messages[:3], changed_message(messages[3], lambda said: said["object"].update(object))]

    cases = [
        (messages[1:], "1 of 4 parts have no message: 0"),
        ([*messages[:3], write_part(other, 3)], "message 3 is not that of a finished part: it is of another"),
        ([*messages[:3], messages[3].replace('"upload":"', '"upload":"x')],
         "message 3 is not that of a finished part: its checksum does not match it"),
        ([*messages[:3], changed_message(messages[3], lambda said: said.pop("object"))],
         "the message of part 3 does not name the upload of its shard"),
        (lying(bytes=1), "the message of part 3 does not name the upload of its shard"),
        ([*messages[:3], changed_message(messages[3], lambda said: said.update(object=5))],
         "message 3 is not that of a finished part"),
        (lying(name="\\x"), "message 3 is not that of a finished part: the name of its shard is not escaped"),
    ]
    for some, message in cases:
        with pytest.raises(ValueError, match=message):
            job.commit(some)
    other.abort()
    assert job.commit(messages)["records"] == 46
    assert left_behind(place) == []


def test_parts_that_are_gone_are_an_error(s3):
    write(s3.place / "a@2")
    before = s3.place.files()
    job = sf.write_job(s3.place / "a@4", overwrite=True)
    messages = write_parts(job)
    key, = [key for key in s3.objects if "/00002-" in key and key.endswith(".index")]
    index = s3.objects.pop(key)
    with pytest.raises(sf.DataLossError, match="00002.index: the object of a finished part is gone; write"):
        job.commit(messages)
    s3.objects[key] = Object(index.data[:-1], '"tag"', None)
    with pytest.raises(sf.DataLossError, match="00002.index: it is damaged; write the part again"):
        job.commit(messages)
    other, = [name for name in s3.objects if "/00001-" in name and name.endswith(".index")]
    s3.objects[key] = s3.objects[other]
    with pytest.raises(sf.DataLossError, match="00002.index: not the index of the shard that its message"):
        job.commit(messages)
    s3.objects[key] = index
    uploads = dict(s3.uploads)
    name, = [name for name, upload in uploads.items() if "a-00002-" in upload.get("key", name)]
    del s3.uploads[name]
    with pytest.raises(sf.DataLossError, match="a-00002-of-00004: its uploaded parts were removed"):
        job.commit(messages)
    assert {name: data for name, data in s3.place.files().items() if not name.startswith(HIDDEN)} == before
    again = write_part(job, 2)
    job.commit([*messages[:2], again, messages[3]])
    assert len(sf.read(s3.place / "a@4")) == 46
    assert left_behind(s3.place) == []


@pytest.mark.parametrize("fault, length", [("refuse", 2), ("lost", 2), ("refuse", 10**6)])
def test_a_commit_that_fails_at_any_request_can_be_repeated(s3, wanted, fault, length, monkeypatch):
    """For two requests, or forever, as for a driver that dies."""
    monkeypatch.setenv("SHARDFEED_NET_SECONDS", "1")
    step = 0
    while True:
        job, messages = finished_job(s3.place)
        begun = len(s3.requests)
        s3.fault = lambda number, *_: fault if number - begun in range(step, step + length) else None
        failed = False
        try:
            job.commit(messages)
        except (OSError, RuntimeError, sf.DataLossError):
            failed = True
        s3.fault = None
        finished = len(s3.requests) - begun <= step
        # The old dataset or the new one, and the new one after another try.
        if failed and not any("a.commit" in name for name in s3.objects):
            assert len(sf.read(s3.place / "a@*")) in (3, 46)
        assert pickle.loads(pickle.dumps(job)).commit(messages)["records"] == 46
        # Indexes that the first try had uploaded, and was not allowed to remove.
        succeed("clean", s3.place / "a", "--older-than", "0s")
        assert s3.place.files() == wanted and s3.place.uploads() == []
        if finished:
            break
        step += 2
    assert step > 60


def old_or_new(place, wanted):
    """The whole old dataset, of 3 records, or the whole new one, and nothing else after `clean`."""
    succeed("clean", place / "a", "--older-than", "0s")
    assert place.uploads() == [] and left_behind(place) == []
    names = {name for name in place.files() if not name.startswith(".")}
    if names == {"a-00000-of-00001"}:
        return len(sf.read(place / "a@1")) == 3
    return place.files() == wanted


@pytest.mark.parametrize("length", [1, 2])
def test_aborting_after_a_commit_that_failed(s3, wanted, length, monkeypatch):
    """As Dask, Ray and Beam do after any exception."""
    monkeypatch.setenv("SHARDFEED_NET_SECONDS", "1")
    step, finished = 0, False
    while not finished:
        job, messages = finished_job(s3.place)
        begun = len(s3.requests)
        s3.fault = lambda number, *_: "refuse" if number - begun in range(step, step + length) else None
        try:
            job.commit(messages)
        except (OSError, RuntimeError, sf.DataLossError):
            pass
        s3.fault = None
        finished = len(s3.requests) - begun <= step
        job.abort()
        assert old_or_new(s3.place, wanted), step
        step += 2
    assert step > 60


@pytest.mark.parametrize("s3", [S3], indirect=True)
@pytest.mark.parametrize("what", ["abort", "clean"])
def test_removing_a_job_beside_its_commit(s3, wanted, what):
    """At any request of the commit, another process removes the job: one of both gives way."""
    committed, step, finished = 0, 0, False
    while not finished:
        job, messages = finished_job(s3.place)
        begun = len(s3.requests)
        other = pickle.loads(pickle.dumps(job))

        def remove(number, *_):
            if number - begun != step:
                return
            s3.fault = None
            if what == "abort":
                other.abort()
            else:
                succeed("clean", s3.place / "a", "--older-than", "0s")

        s3.fault = remove
        try:
            job.commit(messages)
            committed += 1
        except (OSError, RuntimeError, sf.DataLossError):
            pass
        s3.fault = None
        finished = len(s3.requests) - begun <= step
        job.abort()
        assert old_or_new(s3.place, wanted), step
        step += 1 if what == "abort" else 4
    assert committed > 3


def test_a_record_whose_job_is_gone_is_discarded(s3):
    """By whoever finds it, as by its own writer: the old dataset stays."""
    job, messages = finished_job(s3.place)
    s3.fault = lambda *_: "refuse" if any(key.endswith("a.commit") for key in s3.objects) else None
    with pytest.raises((OSError, RuntimeError)):
        job.commit(messages)
    s3.fault = None
    record, = [key for key in s3.objects if key.endswith("a.commit")]
    assert json.loads(s3.objects[record].data)["job"] == f"{job.id}/job"
    shown, = [key for key in s3.objects if key.endswith("/job")]
    del s3.objects[shown]
    succeed("clean", s3.place / "a", "--older-than", "0s")
    assert len(sf.read(s3.place / "a@1")) == 3
    assert left_behind(s3.place) == [] and s3.place.uploads() == []


def test_a_lock_is_waited_for(s3, wanted):
    """The one in the place of the record while a job is removed; here, of a process that was killed."""
    write(s3.place / "a@1", records=3)
    key = f"a folder/ä+&/{HIDDEN}".replace("a.jobs/", "a.commit")
    for step in ("write", "commit", "clean"):
        s3.objects[key] = Object(b'{"format":"shardfeed store lock 1","holder":"x"}\n', '"tag"', None)
        s3.times[key] = 0
        assert len(sf.read(s3.place / "a@*")) in (3, 46)  # readers do not mind
        if step == "write":
            write(s3.place / "a@1", records=3, overwrite=True)
        elif step == "commit":
            job = sf.write_job(s3.place / "a@4", overwrite=True)
            job.commit(write_parts(job))
        else:
            succeed("clean", s3.place / "a", "--older-than", "0s")
        assert key not in s3.objects
    assert s3.place.files() == wanted and s3.place.uploads() == []


def test_what_others_have_in_the_folder_of_jobs_stays(s3):
    for name in ("2024/report.csv", "0123456789abcdef0123456789abcdef/notes.txt"):
        key = f"a folder/ä+&/{HIDDEN}{name}"
        s3.objects[key], s3.times[key] = Object(b"theirs", '"tag"', None), 0
    before = s3.place.files()
    assert succeed("clean", s3.place / "a", "--older-than", "0s").out == b"nothing was left behind\n"
    assert s3.place.files() == before


def test_an_attempt_at_work_keeps_its_job(s3):
    job = sf.write_job(s3.place / "a@2")
    messages = [write_part(job, 0)]
    with job.shard(1) as writer:
        writer.write({"n": 1})
        for key in s3.objects:
            if "/00001-" not in key:
                s3.times[key] -= 25 * 3600
        succeed("clean", s3.place / "a")
    assert job.commit([*messages, writer.message])["shards"] == 2


def test_clean_heeds_jobs_at_work(s3, wanted):
    job = sf.write_job(s3.place / "a@4")
    messages = write_parts(job)
    kept = succeed("clean", s3.place / "a").out.decode()
    assert "younger than 24h and was kept" in kept and len(left_behind(s3.place)) == 17
    for upload in s3.uploads.values():
        upload["time"] = upload.get("time", 0) - 25 * 3600
    for key in list(s3.objects):
        if "/00003-" not in key:
            s3.times[key] -= 25 * 3600
    succeed("clean", f"{s3.place.url}/")  # one part is new, so the job is at work
    assert job.commit(messages)["records"] == 46
    assert s3.place.files() == wanted


def test_clean_removes_old_jobs(s3):
    job = sf.write_job(s3.place / "a@4")
    messages = write_parts(job)
    for key in list(s3.objects):
        s3.times[key] -= 25 * 3600
    dry = succeed("clean", s3.place / "a", "--dry-run", "--json").json
    assert dry["removed"] == [s3.place / f".shardfeed/a.jobs/{job.id}"] and left_behind(s3.place)
    succeed("clean", s3.place / "a")
    assert s3.place.files() == {} and s3.place.uploads() == []
    with pytest.raises(RuntimeError, match="the job has been committed, aborted"):
        job.commit(messages)


def test_other_peoples_messages_remove_nothing(s3):
    """Names of uploads in the objects of a job are only those of the dataset's own shards."""
    write(s3.place / "other@1")
    job = sf.write_job(s3.place / "a@4")
    write_part(job, 0)
    key, = [key for key in s3.objects if key.endswith(".message")]
    for name in ("other-00000-of-00001", "../x/a-00000-of-00004", "a/a-00000-of-00004"):
        lying = changed_message(s3.objects[key].data, lambda said: said["object"].update(name=name)).encode()
        s3.objects[key] = Object(lying, '"tag"', None)
        begun = len(s3.requests)
        again = pickle.loads(pickle.dumps(job))
        again.abort()
        assert not [request for request in s3.requests[begun:] if "uploadId" in request[2]]
        s3.objects[key] = Object(lying, '"tag"', None)
    job.abort()
    assert len(sf.read(s3.place / "other@1")) == 200


def test_a_store_that_is_only_read_is_refused():
    with pytest.raises(ValueError, match="HTTP servers are only read"):
        sf.write_job("http://127.0.0.1:1/a@4")

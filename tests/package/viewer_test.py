"""`shardfeed view` and `shardfeed report`: what the page is given, who may ask for it, and wrong use. The page itself is
tried in tests/browser."""

import http.client
import io
import json
import os
import shutil
import signal
import struct
import subprocess
import sys
import threading
import urllib.parse
import urllib.request

import harness
import numpy as np
import pytest
from harness import DEFECTS, DONE, IO_FAILED, REPOSITORY, TESTDATA, USAGE
from package_data import sf

from shardfeed.viewer import examples, media
from shardfeed.viewer.dataset import Missing, ViewedDataset
from shardfeed.viewer.server import SCRIPTS, Server

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(REPOSITORY / "python")}
PNG = (TESTDATA / "images").rglob("*.png")
JPEG = (TESTDATA / "images").rglob("*.jpg")


def shardfeed(*arguments, cwd=None):
    done = subprocess.run([sys.executable, "-m", "shardfeed", *map(str, arguments)], cwd=cwd, env=ENVIRONMENT,
                          stdin=subprocess.DEVNULL, capture_output=True, timeout=120)
    return harness.Result(done.returncode, done.stdout, done.stderr.decode())


def npy(array):
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("viewed")


@pytest.fixture(scope="module")
def table(folder):
    """1,000 records, of which every tenth lacks `y`."""
    spec = str(folder / "table@1")
    with sf.write(spec) as writer:
        for i in range(1000):
            row = {"x": i, "text": f"row {i}", "half": [i / 2, -1.5]}
            if i % 10:
                row["y"] = 0.1 * (i % 7)
            writer.write(row)
    return spec


@pytest.fixture(scope="module")
def media_set(folder):
    """One record with a value of each medium."""
    spec = str(folder / "media@1")
    row = {"image/encoded": next(iter(sorted(JPEG))).read_bytes(), "png": next(iter(sorted(PNG))).read_bytes(),
           "mask": npy(np.arange(12, dtype=np.uint8).reshape(3, 4)), "curve": npy(np.arange(5.0)),
           "image/raw": bytes(range(24)), "image/height": 2, "image/width": 4, "image/channels": 3,
           "sound": b"RIFF\x24\0\0\0WAVEfmt ", "page": b"<html><script>alert(1)</script>", "big": 2**60 + 1,
           "nan": [float("nan"), 0.1], "binary": bytes(range(256))}
    with sf.write(spec) as writer:
        writer.write(row)
    return spec, row


def feature(record, name):
    return next(one for one in record["features"] if one["name"] == name)


# ---- Examples


def test_features_are_those_that_tensorflow_parses(tf):
    feature_of = tf.train.Feature
    made = tf.train.Example(features=tf.train.Features(feature={
        "b": feature_of(bytes_list=tf.train.BytesList(value=[b"", b"\xff"])),
        "f": feature_of(float_list=tf.train.FloatList(value=[0.5, -1e30])),
        "i": feature_of(int64_list=tf.train.Int64List(value=[0, 1, -1, 2**63 - 1, -2**63, 300])),
        "none": feature_of(), "empty": feature_of(int64_list=tf.train.Int64List())}))
    found = {one.name: (one.kind, list(one.values)) for one in examples.features_of(made.SerializeToString())}
    assert found == {"b": ("bytes", [b"", b"\xff"]), "f": ("float", [0.5, np.float32(-1e30)]),
                     "i": ("int64", [0, 1, -1, 2**63 - 1, -2**63, 300]), "none": ("", []), "empty": ("int64", [])}


def test_sequences_show_their_steps(tf):
    step = lambda *values: tf.train.Feature(int64_list=tf.train.Int64List(value=values))
    made = tf.train.SequenceExample(
        context=tf.train.Features(feature={"n": step(7)}),
        feature_lists=tf.train.FeatureLists(feature_list={"s": tf.train.FeatureList(feature=[step(1, 2), step(), step(3)])}))
    n, s = examples.features_of(made.SerializeToString())
    assert (n.name, list(n.values), n.steps) == ("n", [7], None)
    assert (s.name, list(s.values), s.steps) == ("s", [1, 2, 3], [2, 0, 1])


@pytest.mark.parametrize("record", [b"hello", b"\x0a\xff", b"\x0a\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01",
                                    b"\xff" * 20, b"\x08\x01"])
def test_other_records_are_no_examples(record):
    with pytest.raises(examples.NotAnExample):
        examples.features_of(record)


def test_damaged_records_are_features_or_no_examples(tf):
    made = tf.train.Example(features=tf.train.Features(feature={
        "i": tf.train.Feature(int64_list=tf.train.Int64List(value=range(200))),
        "f": tf.train.Feature(float_list=tf.train.FloatList(value=range(20))),
        "b": tf.train.Feature(bytes_list=tf.train.BytesList(value=[b"abc"] * 5))})).SerializeToString()
    for at in range(len(made)):
        for changed in (made[:at], made[:at] + bytes([made[at] ^ 0x80]) + made[at + 1:]):
            try:
                examples.features_of(changed)
            except examples.NotAnExample:
                pass


# ---- Media


@pytest.mark.parametrize("shape", [(3, 5), (3, 5, 1), (3, 5, 3), (3, 5, 4)])
def test_png_has_the_pixels(shape):
    image = pytest.importorskip("PIL.Image")
    pixels = np.arange(np.prod(shape), dtype=np.uint8).reshape(shape)
    decoded = np.asarray(image.open(io.BytesIO(media.png(pixels))))
    assert np.array_equal(decoded, pixels.reshape(decoded.shape))


def test_pixels_of_other_shapes_are_refused():
    for pixels in (np.zeros((2, 2, 2), np.uint8), np.zeros((0, 2), np.uint8), np.zeros((2, 2), np.float32)):
        with pytest.raises(ValueError, match="are not an image"):
            media.png(pixels)


def test_arrays_that_are_no_images_are_not_shown():
    for array in (np.arange(5), np.zeros((2, 2), "S3"), np.zeros((5000, 2)), np.zeros((2, 2, 2, 2))):
        assert media.image_of_array(array) is None
    for array in (np.zeros((2, 3), bool), np.full((2, 3), np.nan), np.zeros((3, 4, 5)), np.eye(4) * 1e300):
        assert media.image_of_array(array).startswith(b"\x89PNG")


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("values", [(-1e308, 0, 1e308), (-1.7e308, 0, 1.7e308), (-5e-324, 0, 5e-324), (-2, 0, 2)])
def test_numbers_of_any_size_are_stretched_between_their_extremes(values):
    image = pytest.importorskip("PIL.Image")
    array = np.array([[*values, np.nan, np.inf, -np.inf]] * 2)
    decoded = np.asarray(image.open(io.BytesIO(media.image_of_array(array))))
    assert decoded[1].tolist() == [0, 128, 255, 0, 255, 0]


def test_html_and_text_have_no_media_type():
    for value in (b"<svg xmlns='http://www.w3.org/2000/svg'/>", b"<html>", b"BMW", b"", b"RIFF....AVI "):
        assert media.media_type(value) is None


# ---- Datasets


def test_records_have_their_values(table):
    record = ViewedDataset(table).record(11)
    assert record["shard"].endswith("table-00000-of-00001") and record["shard_record"] == 11
    assert feature(record, "x") == {"name": "x", "kind": "int64", "count": 1, "values": [11]}
    assert feature(record, "half")["values"] == [5.5, -1.5]
    assert feature(record, "text")["values"] == [{"size": 6, "text": "row 11"}]


def test_media_are_told(media_set):
    spec, row = media_set
    dataset = ViewedDataset(spec)
    record = dataset.record(0)
    kinds = {name: feature(record, name)["values"][0].get("media") for name in ("image/encoded", "png", "mask", "sound", "page")}
    assert kinds == {"image/encoded": "image/jpeg", "png": "image/png", "mask": "array/npy", "sound": "audio/wav", "page": None}
    assert feature(record, "mask")["values"][0]["is_image"] and not feature(record, "curve")["values"][0]["is_image"]
    assert record["raw_image"] == [2, 4, 3]
    assert feature(record, "big")["values"] == [str(2**60 + 1)]  # a number would lose digits in JavaScript
    assert feature(record, "nan")["values"] == ["nan", 0.1]
    assert feature(record, "binary")["values"][0]["hex"].startswith("00 01 02")
    assert dataset.image(0, "png", 0) == ("image/png", row["png"])
    for name in ("mask", "image/raw"):
        kind, data = dataset.image(0, name, 0)
        assert kind == "image/png" and data.startswith(b"\x89PNG")
    for name in ("curve", "page", "sound"):
        with pytest.raises(Missing, match="is not an image"):
            dataset.image(0, name, 0)


def test_tiff_is_shown_as_png(folder):
    image = pytest.importorskip("PIL.Image")
    file = io.BytesIO()
    image.new("RGB", (5, 3), (250, 10, 20)).save(file, "TIFF")
    spec = str(folder / "tiff@1")
    with sf.write(spec) as writer:
        writer.write({"image/encoded": file.getvalue(), "image/height": 3, "image/width": 5})
    kind, data = ViewedDataset(spec).image(0, "image/encoded", 0)
    assert kind == "image/png"
    assert np.array_equal(np.asarray(image.open(io.BytesIO(data))), np.full((3, 5, 3), (250, 10, 20)))


def test_heic_is_shown_as_png(folder):
    image = pytest.importorskip("PIL.Image")
    heif = TESTDATA / "heif"
    spec = str(folder / "heic@1")
    with sf.write(spec) as writer:
        writer.write({"image/encoded": (heif / "odd.heic").read_bytes(), "image/height": 43, "image/width": 61})
    dataset = ViewedDataset(spec)
    assert dataset.record(0)["features"][0]["values"][0]["media"] == "image/heic"
    kind, data = dataset.image(0, "image/encoded", 0)
    shown = np.asarray(image.open(io.BytesIO(data))).astype(int)
    assert kind == "image/png" and shown.shape == (43, 61, 3)
    assert np.abs(shown - np.asarray(image.open(heif / "odd.png"))).max() <= 2


def test_jpeg_xl_is_shown_as_png(folder):
    image = pytest.importorskip("PIL.Image")
    spec = str(folder / "jxl@1")
    with sf.write(spec) as writer:
        writer.write({"image/encoded": (TESTDATA / "jxl/rgba.jxl").read_bytes(), "image/height": 43, "image/width": 61})
        writer.write({"image/encoded": (TESTDATA / "jxl/lossy.jxl").read_bytes(), "image/height": 43, "image/width": 61})
    dataset = ViewedDataset(spec)
    assert [dataset.record(i)["features"][0]["values"][0]["media"] for i in (0, 1)] == ["image/jxl"] * 2
    kind, data = dataset.image(0, "image/encoded", 0)
    wanted = np.asarray(image.open(TESTDATA / "jxl/rgba.png"))[..., :3]
    assert kind == "image/png" and np.array_equal(np.asarray(image.open(io.BytesIO(data))), wanted)


@pytest.mark.parametrize("brands, kind", [
    (b"avif\0\0\0\0", "image/avif"), (b"avis\0\0\0\0msf1", "image/avif"), (b"mif1\0\0\0\0heicavif", "image/avif"),
    (b"heic\0\0\0\0", "image/heic"), (b"mif1\0\0\0\0heic", "image/heic"), (b"isom\0\0\0\0mp42", None),
    (b"isomavif", None)])
def test_kinds_of_heif_follow_their_brands(brands, kind):
    assert media.media_type((8 + len(brands)).to_bytes(4, "big") + b"ftyp" + brands) == kind
    assert media.is_shown_by_browsers(kind) == (kind == "image/avif")


def test_a_damaged_record_costs_its_own_row(table, tmp_path):
    with sf.write(str(tmp_path / "t@1")) as writer:
        for i in range(5):
            writer.write({"text": b"x" * 100})
    harness.flip(tmp_path / "t-00000-of-00001", 3 * os.path.getsize(tmp_path / "t-00000-of-00001") // 5 - 60)
    found = ViewedDataset(str(tmp_path / "t@1")).records(range(5))
    assert ["error" in record for record in found] == [False, False, True, False, False]
    assert "payload CRC" in found[2]["error"]


def test_records_that_are_no_examples_are_shown_whole(folder):
    spec = str(folder / "plain@1")
    with sf.write(spec) as writer:
        writer.write(b"hello there")
    record = ViewedDataset(spec).record(0)
    assert record["not_an_example"] and record["features"][0]["values"] == [{"size": 11, "text": "hello there"}]
    assert ViewedDataset(spec).find(None, "contains", "there", 0)["records"] == [0]


@pytest.mark.parametrize("compare, text, expected", [
    ("=", "7", [7]), ("<", "2", [0, 1]), ("<=", "2", [0, 1, 2]), (">", "997", [998, 999]), (">=", "998.5", [999])])
def test_integers_are_found(table, compare, text, expected):
    assert ViewedDataset(table).find("x", compare, text, 0) == {"records": expected, "next": None}


def test_other_values_are_found(table):
    dataset = ViewedDataset(table)
    assert dataset.find("text", "contains", "w 99", 0)["records"] == [99, *range(990, 1000)]
    assert dataset.find("text", "=", "row 99", 0)["records"] == [99]
    assert dataset.find("y", "missing", "", 0)["records"][:3] == [0, 10, 20]
    assert dataset.find("y", "=", "0.6", 0)["records"][0] == 6  # stored with 24 bits
    assert dataset.find("y", "=", "1e39", 0)["records"] == dataset.find("y", ">", "inf", 0)["records"] == []
    assert dataset.find("x", "=", "5.0", 0)["records"] == [5] and dataset.find("x", "<", "1e99999999", 1)["records"][0] == 1
    assert dataset.find("x", "=", "5.5", 0)["records"] == dataset.find("x", "=", "nan", 0)["records"] == []
    assert dataset.find("x", "!=", "nan", 0)["records"][0] == 0
    assert dataset.find("half", "=", "-1.5", 0)["records"] == list(range(50))  # one of the values is enough
    assert dataset.find(None, "contains", "row 99", 0)["records"] == [99, *range(990, 1000)]


def test_steps_and_odd_records_are_searched(folder):
    sequence = bytes.fromhex("0a07 0a05 0a0163 1200") + bytes.fromhex("1210 0a0e 0a01 74 1209 0a07 1a05 0a03 010203")
    with sf.write(folder / "odd@1") as writer:
        writer.write(sequence)
        writer.write(b"no Example")
        writer.write(sequence)
    dataset = ViewedDataset(str(folder / "odd@1"))
    assert dataset.find("t", "=", "3", 0) == {"records": [0, 2], "next": None}
    assert dataset.find("t", "present", "", 0)["records"] == [0, 2]
    with pytest.raises(Missing, match="'c' has no value in any record that was looked at"):
        dataset.find("c", "present", "", 0)


def test_a_search_goes_on_where_it_ended(table):
    dataset = ViewedDataset(table)
    found, at = [], 0
    while at is not None:
        answer = dataset.find("y", "present", "", at)
        found += answer["records"]
        at = answer["next"]
    assert found == [i for i in range(1000) if i % 10]


@pytest.mark.parametrize("arguments, message", [
    (("nix", "=", "1"), "there is no feature 'nix'"),
    (("x", "contains", "1"), "has numbers, which can be searched by: =, !="),
    (("x", "=", "one"), "'one' is not a number"),
    (("text", "<", "1"), "has bytes, which can be searched by: contains"),
    ((None, "=", "1"), "whole records can only be searched for what they contain")])
def test_wrong_searches_are_explained(table, arguments, message):
    with pytest.raises(Missing, match=message):
        ViewedDataset(table).find(*arguments, 0)


def test_a_step_of_an_order_is_that_of_replay(table):
    found = ViewedDataset(table).batch({"shuffle": "3", "batch": "8", "world": "2", "rank": "1", "step": "2"})
    expected = harness.run("replay", table, "--shuffle", "3", "--batch", "8", "--world", "2", "--rank", "1", "--step", "2",
                           "--json").json
    assert found == expected
    with pytest.raises(Missing, match="--batch"):
        ViewedDataset(table).batch({"batch": "many"})


# ---- The server


@pytest.fixture(scope="module")
def server(table, media_set):
    made = Server([ViewedDataset(table), ViewedDataset(media_set[0])])
    thread = threading.Thread(target=made.serve_forever, daemon=True)
    thread.start()
    yield made
    made.shutdown()
    made.server_close()


def ask(server, path, token=None, method="GET", **query):
    connection = http.client.HTTPConnection("127.0.0.1", server.server_address[1], timeout=60)
    connection.request(method, f"/{server.token if token is None else token}/{path}?{urllib.parse.urlencode(query)}")
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer, body


def answer_of(server, path, **query):
    answer, body = ask(server, path, **query)
    assert answer.status == 200, body
    return json.loads(body)


def test_the_page_and_its_parts_are_served(server):
    for path, kind in (("", "text/html"), *((name, "text/javascript") for name in SCRIPTS), ("page.css", "text/css")):
        answer, body = ask(server, path)
        assert answer.status == 200 and answer.headers["Content-Type"].startswith(kind) and body
        assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert ask(server, "", method="HEAD")[1] == b""


def test_the_page_loads_nothing_from_elsewhere():
    folder = REPOSITORY / "python/shardfeed/viewer"
    for name in ("page.html", "page.css", *SCRIPTS):
        text = (folder / name).read_text()
        assert [line for line in text.splitlines() if "://" in line and "www.w3.org" not in line] == []


@pytest.mark.parametrize("path", ["", "page.js", "api/datasets", "image", "../"])
def test_nothing_is_served_without_the_token(server, path):
    for token in ("", "x", server.token[:-1], server.token + "x"):
        answer, body = ask(server, path, token=token, n=0, f="x", i=0)
        assert answer.status == 404 and body == b"open the URL that 'shardfeed view' printed\n"


def test_the_url_without_its_slash_is_the_same_page(server):
    with urllib.request.urlopen(server.url.rstrip("/")) as answer:
        assert answer.url == server.url and answer.status == 200


@pytest.mark.parametrize("path", ["../../etc/passwd", "program.py", "api/", "page.html", "..%2fprogram.py", "//"])
def test_nothing_else_is_served(server, path):
    answer, body = ask(server, path)
    assert answer.status == 404 and b"there is no" in body


def test_only_the_loopback_interface_is_listened_on(server):
    assert server.server_address[0] == "127.0.0.1"


def test_answers_name_what_is_wrong(server):
    for path, query, message in (
            ("api/record", {"n": 5000}, "there is no record 5000"), ("api/record", {"n": "-1"}, "n must be a whole number"),
            ("api/record", {"d": 7}, "there is no dataset 7"), ("api/records", {"numbers": "1,x"}, "numbers must be a whole number"),
            ("api/records", {"first": 0, "count": 1000}, "at most 200 records"), ("api/find", {"feature": "nix"}, "no feature 'nix'"),
            ("image", {"d": 1, "n": 0, "f": "nix"}, "there is no feature 'nix'"),
            ("value", {"d": 1, "n": 0, "f": "png", "i": 1}, "has no value 1"),
            ("value", {"d": 1, "n": 0, "f": "big", "i": 0}, "has no value 0 of bytes"), ("api/nix", {}, "there is no api/nix")):
        answer, body = ask(server, path, **query)
        assert answer.status == 404 and message in json.loads(body)["error"], body


def test_records_are_served_by_range_and_by_number(server):
    assert [one["record"] for one in answer_of(server, "api/records", first=998, count=50)] == [998, 999]
    assert [one["record"] for one in answer_of(server, "api/records", numbers="5,3")] == [5, 3]
    assert answer_of(server, "api/records", first=2000, count=5) == []


def test_values_never_run_in_the_page(server, media_set):
    answer, body = ask(server, "value", d=1, n=0, f="page", i=0)
    assert body == media_set[1]["page"]
    assert answer.headers["Content-Type"] == "application/octet-stream"
    assert answer.headers["Content-Disposition"].startswith("attachment")
    assert ask(server, "value", d=1, n=0, f="sound", i=0)[0].headers["Content-Type"] == "audio/wav"
    assert ask(server, "image", d=1, n=0, f="png", i=0)[0].headers["Content-Type"] == "image/png"


def wait_for(server, path, **query):
    while (found := answer_of(server, path, **query))["state"] == "running":
        pass
    return found


def test_overview_and_statistics_are_those_of_inspect(server, table):
    expected = harness.run("inspect", table, "--records", "0", "--statistics", "--json").json
    assert wait_for(server, "api/statistics", start=1)["result"] == expected
    for name in ("statistics", "statistics_from", "repeated_records", "repeated_records_is_exact"):
        expected.pop(name)
    expected["statistics_in_manifest"] = True
    assert wait_for(server, "api/overview")["result"] == expected


def test_statistics_and_verify_run_only_when_they_are_asked_for(server):
    assert answer_of(server, "api/verify", d=1)["state"] == "idle"
    assert wait_for(server, "api/verify", d=1, start=1)["result"]["num_defects"] == 0


def test_two_datasets_are_compared(server):
    found = wait_for(server, "api/diff", a=0, b=1, start=1)["result"]
    assert any("'x'" in text or " x " in text for text in found["schema"])


def test_a_run_that_fails_says_why(tmp_path):
    with sf.write(str(tmp_path / "t@1")) as writer:
        writer.write({"x": 1})
    dataset = ViewedDataset(str(tmp_path / "t@1"))
    harness.flip(tmp_path / "t-00000-of-00001", 20)
    shutil.rmtree(tmp_path / ".shardfeed")  # whose manifest has statistics
    with pytest.raises(sf.DataLossError, match="payload CRC"):
        dataset.statistics.result()


def test_values_of_an_order_are_no_other_options(server, tmp_path):
    for value in (f"--cache={tmp_path}/cache", "--json", "--help", "1\0"):
        answer, _ = ask(server, "api/batch", d=0, batch=2, shuffle=value)
        assert answer.status == 404
    assert not (tmp_path / "cache").exists()


# ---- The commands


def begin_view(*arguments):
    process = subprocess.Popen([sys.executable, "-m", "shardfeed", "view", *arguments], env=ENVIRONMENT,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    return process, process.stdout.readline()


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_view_prints_its_url_and_ends_when_it_is_interrupted(table, how):
    process, line = begin_view(table)
    url = urllib.parse.urlsplit(line.split()[0])
    assert url.hostname == "127.0.0.1" and len(url.path) > 20 and "Ctrl+C" in line
    connection = http.client.HTTPConnection(url.hostname, url.port, timeout=60)
    connection.request("GET", url.path)
    assert connection.getresponse().status == 200
    process.send_signal(how)
    assert process.wait(60) == DONE and process.stderr.read() == ""


def test_options_may_precede_the_command(table):
    process = subprocess.Popen([sys.executable, "-m", "shardfeed", "-j", "1", "--json", "view", table], env=ENVIRONMENT,
                               stdout=subprocess.PIPE, text=True)
    assert json.loads(process.stdout.readline())["url"].startswith("http://127.0.0.1:")
    process.terminate()
    process.wait(60)


def test_options_after_the_command_override_those_before_it(table, tmp_path):
    process = subprocess.Popen([sys.executable, "-m", "shardfeed", "-j", "2", "--color", "always", "view", table, "-j", "1",
                                "--color", "never", "--json"], env=ENVIRONMENT, stdout=subprocess.PIPE, text=True)
    assert json.loads(process.stdout.readline())["url"].startswith("http://127.0.0.1:")
    process.terminate()
    process.wait(60)
    page = tmp_path / "r.html"
    result = shardfeed("-j", "2", "report", "-j", "3", table, page)
    assert result.status == DONE and page.exists(), result.err
    result = shardfeed("-j", "2", "report", "-j", "3", "-j", "4", table, page)
    assert result.status == USAGE and "report: --jobs: At Most 1 required but received 2" in result.err


def test_a_port_that_is_taken_is_told(table, server):
    result = shardfeed("view", table, "--port", server.server_address[1])
    assert result.status == IO_FAILED
    assert f"port {server.server_address[1]}: Address already in use" in result.err


@pytest.mark.parametrize("arguments, status, message", [
    (["view"], USAGE, "view: DATASET is required"),
    (["view", "t@1", "--port", "70000"], USAGE, "'70000' is not a port"),
    (["view", "t@1", "--nix"], USAGE, "there is no option --nix"),
    (["view", "nix@1"], IO_FAILED, "nix@1: no such shards"),
    (["report", "nix@1"], USAGE, "expected a dataset and the file to write"),
    (["report", "nix@1", "r.html", "--records", "-1"], USAGE, "--records"),
    (["report", "nix@1", "r.html"], IO_FAILED, "nix@1: no such shards"),
    (["view", "t@1", "--max-record-bytes", "much"], USAGE, "--max-record-bytes: much is not a size")])
def test_wrong_use_is_explained(tmp_path, arguments, status, message):
    result = shardfeed(*arguments, cwd=tmp_path)
    assert (result.status, result.out) == (status, b"") and message in result.err
    assert list(tmp_path.iterdir()) == []


def test_help_has_examples():
    for command in ("view", "report"):
        result = shardfeed(command, "--help")
        assert result.status == DONE and f"shardfeed {command} out/train@64" in result.out.decode()


def data_of(page):
    start = page.index('<script type="application/json" id="data">') + len('<script type="application/json" id="data">')
    return json.loads(page[start:page.index("</script>", start)])


def test_a_report_holds_all_that_it_shows(media_set, tmp_path):
    result = shardfeed("report", media_set[0], tmp_path / "r.html", "--json")
    assert result.status == DONE, result.err
    page = (tmp_path / "r.html").read_text()
    assert result.json["bytes"] == len(page.encode())
    assert "<script src=" not in page and "<link rel=\"stylesheet\"" not in page
    data = data_of(page)
    assert data["records"][0]["record"] == 0 and set(data["statistics"]["statistics"]) == set(media_set[1])
    assert set(data["media"]) == {"0/image/encoded/0", "0/png/0", "0/mask/0", "0/image/raw/0", "0/sound/0"}
    # A value cannot end the element that holds the data.
    assert page.count("</script>") == 2 and "<html><script>" not in page


def test_a_report_shows_records_from_everywhere(table, tmp_path):
    assert shardfeed("report", table, tmp_path / "r.html", "--records", "4").status == DONE
    data = data_of((tmp_path / "r.html").read_text())
    assert [one["record"] for one in data["records"]] == [0, 250, 500, 750]


def test_a_report_replaces_nothing_by_itself(table, tmp_path):
    (tmp_path / "r.html").write_text("old")
    result = shardfeed("report", table, tmp_path / "r.html")
    assert result.status == USAGE and "exists; pass --overwrite to replace it" in result.err
    assert (tmp_path / "r.html").read_text() == "old"
    assert shardfeed("report", table, tmp_path / "r.html", "--overwrite").status == DONE


def test_a_report_in_a_folder_that_is_not_there_is_refused(table, tmp_path):
    file = tmp_path / "none/r.html"
    result = shardfeed("report", table, file)
    assert (result.status, result.err) == (
        IO_FAILED, f"shardfeed: {file}: cannot create: the folder {file.parent} does not exist, create it first\n")
    (tmp_path / "f").write_text("")
    result = shardfeed("report", table, tmp_path / "f/r.html")
    assert (result.status, result.err) == (IO_FAILED, f"shardfeed: {tmp_path}/f/r.html: cannot create: Not a directory\n")


def test_a_report_shows_defects_in_their_places(tmp_path):
    with sf.write(str(tmp_path / "t@1")) as writer:
        writer.write({"x": 1})
        writer.write({"x": 2})
    harness.flip(tmp_path / "t-00000-of-00001", 20)
    assert shardfeed("report", tmp_path / "t@1", tmp_path / "r.html").status == DONE
    first, second = data_of((tmp_path / "r.html").read_text())["records"]
    assert "payload CRC" in first["error"] and feature(second, "x")["values"] == [2]


def test_a_report_whose_statistics_cannot_be_computed_fails_and_leaves_nothing(tmp_path):
    with sf.write(str(tmp_path / "t@1")) as writer:
        writer.write({"x": 1})
    harness.flip(tmp_path / "t-00000-of-00001", 20)
    shutil.rmtree(tmp_path / ".shardfeed")
    result = shardfeed("report", tmp_path / "t@1", tmp_path / "r.html")
    assert result.status == DEFECTS and "payload CRC" in result.err
    assert {path.name for path in tmp_path.iterdir()} <= {"t-00000-of-00001", ".shardfeed"}  # an index was made


def test_the_program_alone_says_what_to_install():
    for command in ("view", "report"):
        result = harness.run(command, "t@1")
        assert result.status == USAGE
        assert f"{command} comes with the Python package: pip install shardfeed, then python -m shardfeed {command}" in result.err

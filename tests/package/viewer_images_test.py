"""What `shardfeed view`, `shardfeed report` and notebooks show of images, arrays, sounds and long texts."""

import base64
import io
import itertools
import re
import socket
import struct
import threading

import numpy as np
import pytest
from harness import DONE, REPOSITORY, TESTDATA
from package_data import sf
from viewer_faults_test import example
from viewer_test import data_of, npy, shardfeed

from shardfeed.viewer import media, images, values
from shardfeed.viewer.dataset import Missing, ViewedDataset
from shardfeed.viewer.server import SCRIPTS, Server

Image = pytest.importorskip("PIL.Image")


def encoded(width, height, kind, color=(250, 10, 20), **options):
    file = io.BytesIO()
    Image.new("RGB", (width, height), color).save(file, kind, **options)
    return file.getvalue()


def decoded(data):
    return np.asarray(Image.open(io.BytesIO(data)))


def written(spec, *rows):
    with sf.write(str(spec)) as writer:
        for row in rows:
            writer.write(row)
    return str(spec)


def turned():
    exif = Image.Exif()
    exif[0x112] = 6
    return encoded(50, 30, "TIFF", exif=exif)


@pytest.mark.parametrize("value, shape", [
    (lambda: encoded(50, 30, "TIFF"), (30, 50, 3)), (turned, (50, 30, 3)),
    (lambda: encoded(50, 30, "TIFF", big_tiff=True), (30, 50, 3)), (lambda: encoded(8192, 64, "TIFF"), (32, 4096, 3)),
    (lambda: (TESTDATA / "heif/odd.heic").read_bytes(), (43, 61, 3)), (lambda: (TESTDATA / "jxl/rgba.jxl").read_bytes(), (43, 61, 3)),
    (lambda: (TESTDATA / "jxl/turned.jxl").read_bytes(), (61, 43, 3))])
def test_images_that_browsers_do_not_know_have_their_own_size(tmp_path, value, shape):
    dataset = ViewedDataset(written(tmp_path / "t@1", {"scan": value()}))
    kind, data = dataset.image(0, "scan", 0)
    assert kind == "image/png" and decoded(data).shape == shape
    dataset.close()


def test_each_value_of_a_feature_is_shown(tmp_path):
    tiffs = [encoded(5, 3, "TIFF", (250, 0, 0)), encoded(4, 6, "TIFF", (0, 0, 250)), b"II*\0 broken"]
    dataset = ViewedDataset(written(tmp_path / "t@1", {"scans": tiffs}))
    first, second = (decoded(dataset.image(0, "scans", i)[1]) for i in (0, 1))
    assert first.shape == (3, 5, 3) and second.shape == (6, 4, 3) and second[0, 0].tolist() == [0, 0, 250]
    with pytest.raises(Missing, match="feature 'scans' of record 0: TIFF ends before"):
        dataset.image(0, "scans", 2)
    dataset.close()


@pytest.mark.parametrize("head, kind", [
    (b"\xff\xfb\x90\x00", "audio/mpeg"), (b"\xff\xfa\x90\x00", "audio/mpeg"), (b"\xff\xf3\x84\x00", "audio/mpeg"),
    (b"\xff\xf2\x84\x00", "audio/mpeg"), (b"\xff\xe3\x18\x00", "audio/mpeg"), (b"\xff\xe2\x18\x00", "audio/mpeg"),
    (b"ID3\x04", "audio/mpeg"), (b"\xff\xfd\x90\x00", None),  # layer II
    (b"\xff\xeb\x90\x00", None), (b"\xff\xfb\xf0\x00", None), (b"\xff\xfb\x00\x00", None), (b"\xff\xfb\x9c\x00", None),
    (b"\xff\xfb", None), (b"\xff\xfe\0\0", None), (b"\xff\xff\xff\xff", None), (b"II+\0", "image/tiff"),
    (b"MM\0+", "image/tiff"), (b"RF64\xff\xff\xff\xffWAVEds64", "audio/wav"), (b"RF64\xff\xff\xff\xffother", None)])
def test_media_are_known_by_their_headers(head, kind):
    assert media.media_type(head) == kind


@pytest.mark.parametrize("array, text", [
    (np.arange(5.0), "float64 [5]: 0.0, 1.0, 2.0, 3.0, 4.0"),
    (np.arange(50_000, dtype=np.uint8).reshape(5000, 10), "uint8 [5000, 10]: 0, 1, 2, 3, 4, 5, 6, 7, … (0 to 255)"),
    (np.float64(0.1), "float64 []: 0.1"), (np.full(9, np.nan, np.float32), "float32 [9]: " + "nan, " * 8 + "… (all NaN)"),
    (np.array([np.nan, 3, -2] * 4), "float64 [12]: nan, 3.0, -2.0, nan, 3.0, -2.0, nan, 3.0, … (-2.0 to 3.0)"),
    (np.array(["a"] * 9), "<U1 [9]: a, a, a, a, a, a, a, a, …"), (np.empty((0, 3), np.int8), "int8 [0, 3]: ")])
def test_arrays_are_shown_with_values_and_extremes(array, text):
    assert values.bytes_shown(npy(array))["text"] == text


def test_a_record_has_long_texts_and_says_what_it_leaves_out(tmp_path):
    dataset = ViewedDataset(written(tmp_path / "t@1", {
        "long": "ä" * 20_000, "longer": "ä" * 50_000, "many": ["x" * 60_000] * 100, "binary": bytes(range(256))}))
    binary, long, longer, many = dataset.record(0)["features"]
    assert long["values"] == [{"size": 40_000, "text": "ä" * 20_000}]
    assert longer["values"] == [{"size": 100_000, "text": "ä" * 32_768, "left_out": 100_000 - 65_536}]
    assert binary["values"][0]["left_out"] == 192
    shown = [len(value["text"]) for value in many["values"]]
    assert shown[:17] == [60_000] * 17 and shown[18:] == [300] * 82  # an answer that can be shown
    short = dataset.records([0])[0]["features"][1]["values"][0]
    assert len(short["text"].encode()) == 300 and short["left_out"] == 39_700
    dataset.close()


def test_a_report_says_what_it_leaves_out(tmp_path):
    noise = np.random.default_rng(1).integers(0, 256, (400, 500, 3)).astype(np.uint8)
    spec = written(tmp_path / "t@1", {
        "photo": media.png(noise), "small": encoded(5, 3, "PNG"), "scans": [encoded(5, 3, "TIFF"), b"II*\0 broken"],
        "beep": b"RIFF\x24\0\0\0WAVEfmt ", "song": b"ID3" + bytes(300_000), "text": "x" * 5000})
    assert shardfeed("report", spec, tmp_path / "r.html").status == DONE
    data = data_of((tmp_path / "r.html").read_text())
    kept = data["media"]
    assert kept["0/photo/0"]["reduced"] and "reduced" not in kept["0/small/0"]
    assert decoded(base64.b64decode(kept["0/photo/0"]["url"].split(",")[1])).shape == (205, 256, 3)
    assert kept["0/scans/0"]["url"].startswith("data:image/png") and "cannot be shown" in kept["0/scans/1"]["left_out"]
    assert kept["0/beep/0"]["url"].startswith("data:audio/wav")
    assert kept["0/song/0"] == {"left_out": "too large for a report, which has sounds up to 256 KiB"}
    text = next(one for one in data["records"][0]["features"] if one["name"] == "text")
    assert text["values"][0]["left_out"] == 5000 - 4096


def test_notebooks_show_the_images_that_the_page_shows(tmp_path):
    mask = npy(np.arange(12, dtype=np.uint8).reshape(3, 4))
    noise = np.random.default_rng(1).integers(0, 256, (400, 500, 3)).astype(np.uint8)
    step = b"\x0a\x00"
    png = encoded(2, 2, "PNG")
    # A feature list of one step with an image.
    size = len(png)
    value = b"\x0a" + bytes([size & 0x7F | 0x80, size >> 7]) + png if size > 127 else b"\x0a" + bytes([size]) + png
    feature = b"\x0a" + bytes([len(value)]) + value
    frames = example({b"frames": step + b"\x0a" + bytes([len(feature)]) + feature}, 2)
    for name, record, shape in [
            ("mask", {"mask": mask}, (3, 4, 3)), ("tiff", {"scan": encoded(5, 3, "TIFF")}, (3, 5, 3)),
            ("raw", {"image/raw": bytes(24), "image/height": 2, "image/width": 4, "image/channels": 3}, (2, 4, 3)),
            ("list", frames, (2, 2, 3)), ("large", {"photo": media.png(noise)}, (205, 256, 3))]:
        html = sf.inspect(written(tmp_path / f"{name}@1", record))._repr_html_()
        url = re.search(r'<img height="96" src="data:image/png;base64,([^"]*)"/>', html)
        assert url and decoded(base64.b64decode(url[1])).shape == shape, name


def test_reduced_images_fit_into_a_report():
    noise = np.random.default_rng(1).integers(0, 256, (600, 600, 3)).astype(np.uint8)
    assert len(images.reduced(media.png(noise))) < images.MAX_BYTES
    with pytest.raises(images.Unshown):
        images.reduced(b"nothing")


def test_no_name_of_the_scripts_is_defined_twice():
    folder = REPOSITORY / "python/shardfeed/viewer"
    texts = [(folder / name).read_text() for name in SCRIPTS]
    names = sorted(name for text in texts for name in re.findall(r"^(?:async )?(?:function|const|let|class) (\w+)", text, re.M))
    assert len(names) > 50 and [name for name, group in itertools.groupby(names) if len(list(group)) > 1] == []
    page = (folder / "page.html").read_text()
    assert re.findall(r'<script src="([^"]*)">', page) == list(SCRIPTS)
    assert sum(map(len, texts)) < 150_000


def test_a_client_that_resets_its_connection_is_no_error(tmp_path, capfd):
    server = Server([ViewedDataset(written(tmp_path / "t@1", {"x": 1}))])
    threading.Thread(target=server.serve_forever, daemon=True).start()
    before = set(threading.enumerate())
    try:
        client = socket.create_connection(("127.0.0.1", server.server_address[1]))
        client.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert client.recv(1 << 16).startswith(b"HTTP/1.1 404")
        # An idle connection, whose end is a reset.
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        answering = set(threading.enumerate()) - before
        client.close()
        for thread in answering:
            thread.join(30)
    finally:
        server.shutdown()
        server.server_close()
    assert answering and capfd.readouterr().err == ""

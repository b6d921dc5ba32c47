"""JPEGs that convert has rewritten: other decoders see the same pixels and the same metadata."""

import io
import json
import os
import pty
import random
import shutil
import tarfile

import harness
import numpy
import pytest
from harness import TESTDATA, convert

Image = pytest.importorskip("PIL.Image")
ImageCms = pytest.importorskip("PIL.ImageCms")

SIZES = [(1, 1), (7, 9), (16, 16), (33, 65), (177, 121), (500, 47)]


def make_image(mode, size, seed):
    """Gradients with noise in some places."""
    rng = numpy.random.default_rng(seed)
    width, height = size
    channels = {"L": 1, "RGB": 3, "CMYK": 4}[mode]
    y, x = numpy.mgrid[:height, :width]
    values = numpy.stack([(x * (c + 1) + y * 2) % 230 for c in range(channels)], -1)
    noise = rng.integers(0, 90, values.shape) * ((x // 20 + y // 20) % 3 == 0)[..., None]
    values = numpy.minimum(values + noise, 255).astype(numpy.uint8)
    return Image.fromarray(values[..., 0] if channels == 1 else values, mode)


def saved(image, **options):
    out = io.BytesIO()
    image.save(out, "JPEG", **options)
    return out.getvalue()


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    """A folder of all kinds of JPEG that Pillow writes, and their bytes by name."""
    folder = tmp_path_factory.mktemp("jpegs")
    files = {}
    for i, size in enumerate(SIZES):
        for mode in ("L", "RGB", "CMYK"):
            for subsampling in ("4:4:4", "4:2:2", "4:2:0") if mode == "RGB" else ("4:4:4",):
                for kind, options in (("baseline", {}), ("optimized", {"optimize": True}),
                                      ("progressive", {"progressive": True}),
                                      ("restarts", {"restart_marker_rows": 1})):
                    name = f"{mode}-{subsampling.replace(':', '')}-{kind}-{size[0]}x{size[1]}.jpg"
                    files[name] = saved(make_image(mode, size, i), subsampling=subsampling,
                                        quality=random.Random(name).choice([30, 75, 95]), **options)
    (folder / "all").mkdir()
    for name, data in files.items():
        (folder / "all" / name).write_bytes(data)
    return folder, files


@pytest.fixture(scope="module")
def converted(tf, images, tmp_path_factory):
    """What convert stored for them, by name; where; and its report."""
    folder, files = images
    out = tmp_path_factory.mktemp("converted")
    report = harness.succeed("convert", "imagefolder", folder, out / "p@2", "--json").json
    stored = {}
    for record in harness.read_by_tensorflow(tf, harness.shards(out, "p")):
        features = harness.decoded(tf, record)
        stored[features["image/filename"][0].decode().removeprefix("all/")] = \
            features["image/encoded"][0]
    assert set(stored) == set(files)
    return stored, out, report


@pytest.mark.parametrize("method", ["INTEGER_FAST", "INTEGER_ACCURATE"])
def test_tensorflow_sees_the_same_pixels(tf, images, converted, method):
    for name, data in images[1].items():
        if name.startswith("CMYK"):
            continue  # which TensorFlow refuses
        for fancy in (True, False):
            expected, found = (tf.io.decode_jpeg(jpeg, dct_method=method, fancy_upscaling=fancy)
                               for jpeg in (data, converted[0][name]))
            assert numpy.array_equal(expected, found), name


def test_tensorflow_crops_the_same_pixels(tf, images, converted):
    for name, data in images[1].items():
        if not name.startswith("CMYK") and "177x121" in name:
            expected, found = (tf.io.decode_and_crop_jpeg(jpeg, [31, 40, 60, 90])
                               for jpeg in (data, converted[0][name]))
            assert numpy.array_equal(expected, found), name


def test_pillow_sees_the_same_pixels(images, converted):
    for name, data in images[1].items():
        expected, found = (Image.open(io.BytesIO(jpeg)) for jpeg in (data, converted[0][name]))
        assert expected.mode == found.mode
        assert expected.tobytes() == found.tobytes(), name
        assert not found.info.get("progressive")


def test_the_report_counts_them(images, converted):
    manifest = json.loads((converted[1] / ".shardfeed/p.manifest.json").read_text())
    assert manifest["made_by"]["options"] == "--jpeg seekable"
    counts = {note.split(" ", 1)[1]: int(note.split()[0]) for note in converted[2]["notes"]}
    assert sum(counts.values()) == len(images[1])
    assert set(counts) <= {"JPEGs were rewritten losslessly to be seekable",
                           "JPEGs were kept: already seekable"}


def test_exif_profiles_and_comments_are_kept(tf, tmp_path, out):
    image = make_image("RGB", (60, 40), 1)
    exif = Image.Exif()
    exif[0x0112] = 6  # orientation
    exif[0x010e] = "a description"
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    profile += bytes(100_000)  # which takes several segments
    data = saved(image, exif=exif.tobytes(), icc_profile=profile, comment=b"a comment",
                 dpi=(123, 456), progressive=True)
    (tmp_path / "in/c").mkdir(parents=True)
    (tmp_path / "in/c/1.jpg").write_bytes(data)
    convert("imagefolder", tmp_path / "in", out / "p@1")
    record, = harness.read_by_tensorflow(tf, harness.shards(out, "p"))
    stored = harness.decoded(tf, record)["image/encoded"][0]
    assert stored != data
    found = Image.open(io.BytesIO(stored))
    assert found.tobytes() == Image.open(io.BytesIO(data)).tobytes()
    assert dict(found.getexif()) == {0x0112: 6, 0x010e: "a description"}
    assert found.info["icc_profile"] == profile
    assert found.info["comment"] == b"a comment"
    assert found.info["dpi"] == (123, 456)


def test_keep_stores_the_files(tf, images, out):
    folder, files = images
    report = harness.succeed("convert", "imagefolder", folder, out / "p@1", "--jpeg", "keep",
                             "--json").json
    assert report["notes"] == []
    for record in harness.read_by_tensorflow(tf, harness.shards(out, "p")):
        features = harness.decoded(tf, record)
        name = features["image/filename"][0].decode().removeprefix("all/")
        assert features["image/encoded"][0] == files[name]


def test_what_was_rewritten_is_kept_the_next_time(tf, converted, tmp_path, out):
    stored = converted[0]
    (tmp_path / "in/c").mkdir(parents=True)
    for name, data in stored.items():
        (tmp_path / "in/c" / name).write_bytes(data)
    report = harness.succeed("convert", "imagefolder", tmp_path / "in", out / "p@1", "--json").json
    assert report["notes"] == [f"{len(stored)} JPEGs were kept: already seekable"]


def segments(jpeg):
    """(marker, offset, payload) up to the first scan, and the offset of its data."""
    at, found = 2, []
    while True:
        size = int.from_bytes(jpeg[at + 2:at + 4], "big")
        found.append((jpeg[at + 1], at, jpeg[at + 4:at + 2 + size]))
        at += 2 + size
        if found[-1][0] == 0xda:
            return found, at


def small_image(jpeg, box):
    """A simple reader by docs/seekable_jpeg.md: a JPEG of the intervals under the box, and its
    position in the image."""
    found, begin = segments(jpeg)
    frame_at, frame = next((at, p) for code, at, p in found if code in (0xc0, 0xc1))
    height, width, components = (int.from_bytes(frame[1:3], "big"),
                                 int.from_bytes(frame[3:5], "big"), frame[5])
    interval, = (int.from_bytes(p, "big") for code, _, p in found if code == 0xdd)
    factors = [(b >> 4, b & 15) for b in frame[7::3]] if components > 1 else [(1, 1)]
    mcu_width, mcu_height = (8 * max(f[i] for f in factors) for i in (0, 1))
    mcus = -(-width // mcu_width)
    rows = -(-height // mcu_height)
    left, top, right, bottom = box
    c0, c1 = max(left - 1, 0) // mcu_width, min(-(-(right + 1) // mcu_width), mcus)
    if c1 - c0 == 1:
        c0, c1 = (c0 - 1, c1) if c0 > 0 else (c0, min(c1 + 1, mcus))
    r0, r1 = max(top - 1, 0) // mcu_height, min(-(-(bottom + 1) // mcu_height), rows)
    i0, i1 = c0 // interval, -(-c1 // interval)
    intervals, marker = [], None
    while marker != 0xd9:
        at = begin
        while not (jpeg[at] == 0xff and jpeg[at + 1] not in (0, 0xff)):
            at += 1
        marker = jpeg[at + 1]
        assert marker in (0xd0 + len(intervals) % 8, 0xd9)
        intervals.append(jpeg[begin:at])
        begin = at + 2
    per_row = mcus // interval
    assert mcus % interval == 0 and len(intervals) == per_row * rows
    header = bytearray(jpeg[:segments(jpeg)[1]])
    small_height = min(r1 * mcu_height, height) - r0 * mcu_height
    small_width = min(i1 * interval * mcu_width, width) - i0 * interval * mcu_width
    header[frame_at + 5:frame_at + 9] = (small_height.to_bytes(2, "big") +
                                         small_width.to_bytes(2, "big"))
    taken = [intervals[r * per_row + i] for r in range(r0, r1) for i in range(i0, i1)]
    data = b"".join(part + bytes([0xff, 0xd0 + n % 8]) for n, part in enumerate(taken))
    return bytes(header) + data[:-2] + b"\xff\xd9", (i0 * interval * mcu_width, r0 * mcu_height)


def test_the_document_is_enough_to_read_crops(converted):
    rng = random.Random(1)
    tried = 0
    for name, jpeg in converted[0].items():
        whole = Image.open(io.BytesIO(jpeg))
        width, height = whole.size
        for _ in range(4):
            left, top = rng.randrange(width), rng.randrange(height)
            box = (left, top, rng.randrange(left, width) + 1, rng.randrange(top, height) + 1)
            small, (x, y) = small_image(jpeg, box)
            found = Image.open(io.BytesIO(small))
            inside = (box[0] - x, box[1] - y, box[2] - x, box[3] - y)
            assert found.crop(inside).tobytes() == whole.crop(box).tobytes(), (name, box)
            tried += found.size != whole.size
    assert tried > 100


@pytest.mark.parametrize("jobs", [1, 4])
def test_damaged_images_are_kept_and_named(tf, tmp_path, out, jobs):
    shutil.copytree(TESTDATA / "images", tmp_path / "in")
    data = (TESTDATA / "images/circles/0.jpg").read_bytes()
    (tmp_path / "in/stripes/cut.jpg").write_bytes(data[:2000])
    (tmp_path / "in/circles/hole.jpg").write_bytes(data[:1500] + data[2500:])
    report = harness.succeed("convert", "imagefolder", tmp_path / "in", out / "p@3", "--json", "-j",
                             jobs).json
    damaged, = (note for note in report["notes"] if "damaged" in note)
    assert damaged.startswith(f"2 damaged JPEGs were kept: {tmp_path}/in/circles/hole.jpg (JPEG is "
                              "damaged: ")
    assert damaged.endswith(f"{tmp_path}/in/stripes/cut.jpg (JPEG is cut off: the file ends after "
                            "2000 bytes, before its image)")
    # A resumed run would not know of them all.
    assert "notes" not in json.loads((out / ".shardfeed/p.manifest.json").read_text())
    stored = {features["image/filename"][0]: features["image/encoded"][0] for features in (
        harness.decoded(tf, r) for r in harness.read_by_tensorflow(tf, harness.shards(out, "p")))}
    assert stored[b"stripes/cut.jpg"] == data[:2000]


def test_jpeg_takes_seekable_or_keep(out):
    result = harness.run("convert", "imagefolder", TESTDATA / "images", out / "x@1", "--jpeg",
                         "fast")
    assert result.status == harness.USAGE
    assert "--jpeg" in result.err and "seekable" in result.err


# ---- the other kinds


def test_images_of_images_and_captions_become_seekable(tf, tmp_path, out):
    jpeg = saved(make_image("RGB", (100, 80), 1), progressive=True)
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a.jpg").write_bytes(jpeg)
    (tmp_path / "in/a.txt").write_text("an image")
    for kind in ("images", "captions"):
        report = harness.succeed("convert", kind, tmp_path / "in", out / f"{kind}@1", "--json").json
        assert "1 JPEG was rewritten losslessly to be seekable" in report["notes"]
        convert(kind, tmp_path / "in", out / f"kept-{kind}@1", "--jpeg", "keep")
        stored, = harness.read_by_tensorflow(tf, harness.shards(out, kind))
        kept, = harness.read_by_tensorflow(tf, harness.shards(out, f"kept-{kind}"))
        stored = harness.decoded(tf, stored)["image/encoded"][0]
        assert harness.decoded(tf, kept)["image/encoded"] == [jpeg] and stored != jpeg
        assert Image.open(io.BytesIO(stored)).tobytes() == Image.open(io.BytesIO(jpeg)).tobytes()


def test_tars_and_records_keep_their_bytes_unless_told_otherwise(tf, tmp_path, out):
    jpegs = [saved(make_image("RGB", (100, 80), n)) for n in range(2)]
    with tarfile.open(tmp_path / "a.tar", "w", format=tarfile.USTAR_FORMAT) as tar:
        for name, data in (("a.jpg", jpegs[0]), ("a.seg.jpg", jpegs[1]), ("a.cls", b"3")):
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    convert("tar", tmp_path / "a.tar", out / "kept@1")
    report = harness.succeed("convert", "tar", tmp_path / "a.tar", out / "tar@1", "--jpeg",
                             "seekable", "--json").json
    assert report["notes"] == ["2 JPEGs were rewritten losslessly to be seekable"]
    convert("tfrecord", out / "kept@1", out / "same@1")
    report = harness.succeed("convert", "tfrecord", out / "kept@1", out / "records@1", "--jpeg",
                             "seekable", "--json").json
    assert report["notes"] == ["2 JPEGs were rewritten losslessly to be seekable"]
    records = {name: harness.read_by_tensorflow(tf, harness.shards(out, name))
               for name in ("kept", "same", "tar", "records")}
    assert records["kept"] == records["same"] != records["tar"]
    assert records["records"] == records["tar"]
    kept, seekable = (harness.decoded(tf, records[name][0]) for name in ("kept", "tar"))
    assert [kept["jpg"], kept["seg.jpg"]] == [[jpeg] for jpeg in jpegs]
    for name in ("jpg", "seg.jpg"):
        first, second = (Image.open(io.BytesIO(r[name][0])) for r in (kept, seekable))
        assert first.tobytes() == second.tobytes()
    assert kept["cls"] == seekable["cls"] == [3]
    made_by = [json.loads((out / f".shardfeed/{name}.manifest.json").read_text())["made_by"]
               for name in ("kept", "records")]
    assert "options" not in made_by[0] and made_by[1]["options"] == "--jpeg seekable"


# ---- verify and inspect


def test_verify_decodes_images_and_names_the_broken(tf, tmp_path, out):
    jpeg = saved(make_image("RGB", (200, 150), 1))
    (tmp_path / "in/c").mkdir(parents=True)
    for n in range(6):
        (tmp_path / f"in/c/{n}.jpg").write_bytes(jpeg)
    convert("imagefolder", tmp_path / "in", out / "sound@3", "--no-shuffle")
    report = harness.verify(out / "sound@3", "--level", "images")
    assert report["images"] == {"sound": 6, "broken": 0, "not_decoded": {}}
    (tmp_path / "in/c/1.jpg").write_bytes(jpeg[:len(jpeg) // 2])
    (tmp_path / "in/c/4.jpg").write_bytes(jpeg[:2000] + bytes(500) + jpeg[2500:])
    make_image("RGB", (5, 4), 1).save(tmp_path / "in/c/5.jpg", "PNG")  # whose suffix lies
    convert("imagefolder", tmp_path / "in", out / "x@3", "--no-shuffle")
    assert harness.verify(out / "x@3")["num_defects"] == 0
    report = harness.verify(out / "x@3", "--level", "images", status=harness.DEFECTS)
    assert report["images"] == {"sound": 4, "broken": 2, "not_decoded": {}}
    first, second = report["defects"]
    assert (first["kind"], first["record"], first["shard"]) == (
        "image", 1, f"{out}/x-00000-of-00003")
    assert first["detail"].startswith(
        f"{out}/x-00000-of-00003: record 1 at byte {first['offset']}: image/encoded: JPEG is cut")
    assert (second["record"], second["shard"]) == (0, f"{out}/x-00002-of-00003")
    text = harness.run("verify", out / "x@3", "--level", "images").out.decode()
    assert "6 images decoded, 2 of them broken" in text


def test_inspect_shows_images_where_the_terminal_can(tmp_path, out):
    (tmp_path / "in/c").mkdir(parents=True)
    make_image("RGB", (200, 150), 1).save(tmp_path / "in/c/1.jpg")
    convert("imagefolder", tmp_path / "in", out / "x@1")
    kitty = {**os.environ, "TERM": "xterm-kitty"}
    shown = harness.succeed("inspect", out / "x@1", env=kitty).out  # into a file
    assert b"  image/encoded: jpeg, 200 x 150\n" in shown and b"\x1b" not in shown
    for how, start in (("kitty", b"\x1b_Ga=T,f=24,s=200,v=150,m=1;"),
                       ("iterm", b"\x1b]1337;File=inline=1;size="),
                       ("sixel", b'\x1bPq"1;1;200;150#0;')):
        assert start in harness.succeed("inspect", out / "x@1", "--images", how).out
    # On a terminal that kitty's variables announce. `script` would do, but may be missing.
    pid, terminal = pty.fork()
    if pid == 0:
        os.execve(harness.BINARY, harness.command("inspect", out / "x@1"), kitty)
    shown = b""
    while True:
        try:
            piece = os.read(terminal, 65536)
        except OSError:  # how Linux reports the end, when the other side is closed
            break
        if not piece:
            break
        shown += piece
    assert os.waitpid(pid, 0)[1] == 0
    assert b"\x1b_Ga=T,f=24,s=200,v=150,m=1;" in shown


# ---- smaller


def test_shrunk_images_are_those_of_an_area_mean(tf, tmp_path, out):
    (tmp_path / "in/c").mkdir(parents=True)
    exif = Image.Exif()
    exif[0x0112] = 6  # orientation
    large = make_image("RGB", (640, 480), 1)
    large.save(tmp_path / "in/c/1.jpg", exif=exif.tobytes(), quality=95)
    make_image("L", (300, 500), 2).save(tmp_path / "in/c/2.jpg", quality=95)
    make_image("CMYK", (400, 400), 3).save(tmp_path / "in/c/3.jpg", quality=95)
    make_image("RGB", (90, 120), 4).save(tmp_path / "in/c/4.jpg", quality=95)
    make_image("RGB", (300, 300), 5).save(tmp_path / "in/c/5.png")
    report = harness.succeed("convert", "imagefolder", tmp_path / "in", out / "x@1", "--no-shuffle",
                             "--resize-shorter", 100, "--quality", 95, "--json").json
    assert report["notes"] == ["3 JPEGs were shrunk to a shorter side of 100 pixels, quality 95",
                               "1 larger image was kept: only JPEGs are shrunk",
                               "1 JPEG was rewritten losslessly to be seekable"]
    stored = [harness.decoded(tf, record)
              for record in harness.read_by_tensorflow(tf, harness.shards(out, "x"))]
    assert [(r["image/width"][0], r["image/height"][0]) for r in stored] == [
        (133, 100), (100, 167), (100, 100), (90, 120), (300, 300)]
    images = [Image.open(io.BytesIO(r["image/encoded"][0])) for r in stored]
    assert [(image.mode, image.size) for image in images] == [
        ("RGB", (133, 100)), ("L", (100, 167)), ("RGB", (100, 100)), ("RGB", (90, 120)),
        ("RGB", (300, 300))]
    assert images[0].getexif()[0x0112] == 6
    # Compared in gray, because chroma has half the resolution.
    expected = Image.open(tmp_path / "in/c/1.jpg").resize((133, 100), Image.Resampling.BOX)
    gray, expected = (numpy.asarray(i.convert("L"), numpy.int32) for i in (images[0], expected))
    assert numpy.abs(gray - expected).mean() < 4
    made_by = json.loads((out / ".shardfeed/x.manifest.json").read_text())["made_by"]
    assert made_by["options"] == "--jpeg seekable --resize-shorter 100 --quality 95"


def test_options_of_shrinking_are_checked(tmp_path, out):
    for options in (["--resize-shorter", 0], ["--quality", 90],
                    ["--resize-shorter", 9, "--quality", 101]):
        assert harness.run("convert", "images", tmp_path, out / "x@1",
                           *options).status == harness.USAGE

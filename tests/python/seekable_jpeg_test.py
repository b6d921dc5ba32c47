"""JPEGs that convert has rewritten: other decoders see the same pixels, and all that was beside
them."""

import io
import json
import random
import shutil

import harness
import numpy
import pytest
from harness import TESTDATA, convert

Image = pytest.importorskip("PIL.Image")
ImageCms = pytest.importorskip("PIL.ImageCms")

SIZES = [(1, 1), (7, 9), (16, 16), (33, 65), (177, 121), (500, 47)]


def picture(mode, size, seed):
    """Gradients, noise in some places."""
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
def pictures(tmp_path_factory):
    """A folder of all kinds of JPEG that Pillow writes; by name, the bytes."""
    folder = tmp_path_factory.mktemp("jpegs")
    files = {}
    for i, size in enumerate(SIZES):
        for mode in ("L", "RGB", "CMYK"):
            for subsampling in ("4:4:4", "4:2:2", "4:2:0") if mode == "RGB" else ("4:4:4",):
                for kind, options in (("baseline", {}), ("optimized", {"optimize": True}),
                                      ("progressive", {"progressive": True}),
                                      ("restarts", {"restart_marker_rows": 1})):
                    name = f"{mode}-{subsampling.replace(':', '')}-{kind}-{size[0]}x{size[1]}.jpg"
                    files[name] = saved(picture(mode, size, i), subsampling=subsampling,
                                        quality=random.Random(name).choice([30, 75, 95]), **options)
    (folder / "all").mkdir()
    for name, data in files.items():
        (folder / "all" / name).write_bytes(data)
    return folder, files


@pytest.fixture(scope="module")
def converted(tf, pictures, tmp_path_factory):
    """What convert stored of them, by name."""
    folder, files = pictures
    out = tmp_path_factory.mktemp("converted")
    convert("imagefolder", folder, out / "p@2")
    stored = {}
    for record in harness.read_by_tensorflow(tf, harness.shards(out, "p")):
        features = harness.decoded(tf, record)
        stored[features["image/filename"][0].decode().removeprefix("all/")] = \
            features["image/encoded"][0]
    assert set(stored) == set(files)
    return stored, out


@pytest.mark.parametrize("method", ["INTEGER_FAST", "INTEGER_ACCURATE"])
def test_tensorflow_sees_the_same_pixels(tf, pictures, converted, method):
    for name, data in pictures[1].items():
        if name.startswith("CMYK"):
            continue  # which TensorFlow refuses
        for fancy in (True, False):
            expected, found = (tf.io.decode_jpeg(jpeg, dct_method=method, fancy_upscaling=fancy)
                               for jpeg in (data, converted[0][name]))
            assert numpy.array_equal(expected, found), name


def test_tensorflow_crops_the_same_pixels(tf, pictures, converted):
    for name, data in pictures[1].items():
        if not name.startswith("CMYK") and "177x121" in name:
            expected, found = (tf.io.decode_and_crop_jpeg(jpeg, [31, 40, 60, 90])
                               for jpeg in (data, converted[0][name]))
            assert numpy.array_equal(expected, found), name


def test_pillow_sees_the_same_pixels(pictures, converted):
    for name, data in pictures[1].items():
        expected, found = (Image.open(io.BytesIO(jpeg)) for jpeg in (data, converted[0][name]))
        assert expected.mode == found.mode
        assert expected.tobytes() == found.tobytes(), name
        assert not found.info.get("progressive")


def test_the_report_counts_them(pictures, converted):
    manifest = json.loads((converted[1] / ".shardfeed/p.manifest.json").read_text())
    assert manifest["made_by"]["jpeg"] == "seekable"
    counts = {note.split(" ", 1)[1]: int(note.split()[0]) for note in manifest["notes"]}
    assert sum(counts.values()) == len(pictures[1])
    assert set(counts) <= {"JPEGs were rewritten losslessly to be seekable",
                           "JPEGs were kept: seekable already"}


def test_exif_profiles_and_comments_are_kept(tf, tmp_path, out):
    image = picture("RGB", (60, 40), 1)
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


def test_keep_stores_the_files(tf, pictures, out):
    folder, files = pictures
    report = harness.succeed("convert", "imagefolder", folder, out / "p@1", "--jpeg", "keep",
                             "--json").json
    assert report["notes"] == []
    for record in harness.read_by_tensorflow(tf, harness.shards(out, "p")):
        features = harness.decoded(tf, record)
        name = features["image/filename"][0].decode().removeprefix("all/")
        assert features["image/encoded"][0] == files[name]


def test_what_was_rewritten_is_kept_the_next_time(tf, converted, tmp_path, out):
    stored, _ = converted
    (tmp_path / "in/c").mkdir(parents=True)
    for name, data in stored.items():
        (tmp_path / "in/c" / name).write_bytes(data)
    report = harness.succeed("convert", "imagefolder", tmp_path / "in", out / "p@1", "--json").json
    assert report["notes"] == [f"{len(stored)} JPEGs were kept: seekable already"]


def segments(jpeg):
    """(marker, offset, payload) up to the first scan, and where its data begins."""
    at, found = 2, []
    while True:
        size = int.from_bytes(jpeg[at + 2:at + 4], "big")
        found.append((jpeg[at + 1], at, jpeg[at + 4:at + 2 + size]))
        at += 2 + size
        if found[-1][0] == 0xda:
            return found, at


def small_picture(jpeg, box):
    """A reader by docs/seekable_jpeg.md, the plain way: a JPEG of the intervals under the box, and
    where it begins in the picture."""
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
            small, (x, y) = small_picture(jpeg, box)
            found = Image.open(io.BytesIO(small))
            inside = (box[0] - x, box[1] - y, box[2] - x, box[3] - y)
            assert found.crop(inside).tobytes() == whole.crop(box).tobytes(), (name, box)
            tried += found.size != whole.size
    assert tried > 100


@pytest.mark.parametrize("jobs", [1, 4])
def test_damaged_pictures_are_kept_and_named(tf, tmp_path, out, jobs):
    shutil.copytree(TESTDATA / "pictures", tmp_path / "in")
    data = (TESTDATA / "pictures/circles/0.jpg").read_bytes()
    (tmp_path / "in/stripes/cut.jpg").write_bytes(data[:2000])
    (tmp_path / "in/circles/hole.jpg").write_bytes(data[:1500] + data[2500:])
    report = harness.succeed("convert", "imagefolder", tmp_path / "in", out / "p@3", "--json", "-j",
                             jobs).json
    damaged, = (note for note in report["notes"] if "damaged" in note)
    assert damaged.startswith(f"2 damaged JPEGs were kept: {tmp_path}/in/circles/hole.jpg (JPEG is "
                              "damaged: ")
    assert damaged.endswith(f"{tmp_path}/in/stripes/cut.jpg (JPEG is cut off: the file ends after "
                            "2000 bytes, before its picture)")
    manifest = json.loads((out / ".shardfeed/p.manifest.json").read_text())
    assert manifest["notes"] == report["notes"]
    stored = {features["image/filename"][0]: features["image/encoded"][0] for features in (
        harness.decoded(tf, r) for r in harness.read_by_tensorflow(tf, harness.shards(out, "p")))}
    assert stored[b"stripes/cut.jpg"] == data[:2000]


def test_jpeg_takes_seekable_or_keep(out):
    result = harness.run("convert", "imagefolder", TESTDATA / "pictures", out / "x@1", "--jpeg",
                         "fast")
    assert result.status == harness.USAGE
    assert "--jpeg" in result.err and "seekable" in result.err

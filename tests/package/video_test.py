"""convert video: frames of files that OpenCV writes and reads, in order, with their numbers, times and pixels."""

import os
import subprocess
import sys

import numpy as np
import pytest
from harness import DEFECTS, IO_FAILED, REPOSITORY, USAGE

sys.path.insert(0, str(REPOSITORY / "python"))
sf = pytest.importorskip("shardfeed", reason="the package is not built: python/build_package.py")
with pytest.MonkeyPatch.context() as patch:
    # The import changes it for all that tests in this process start, such as a build by Bazel.
    patch.setenv("LD_LIBRARY_PATH", os.environ.get("LD_LIBRARY_PATH", ""))
    cv2 = pytest.importorskip("cv2", reason="OpenCV is not installed")

WIDTH, HEIGHT, RATE = 64, 48, 25


def frame_of(number):
    """A frame that shows its number as eight stripes, under a blue bar, in BGR."""
    frame = np.zeros((HEIGHT, WIDTH, 3), np.uint8)
    for bit in range(8):
        frame[:, bit * 8:(bit + 1) * 8] = 255 * (number >> bit & 1)
    frame[:8] = (255, 0, 0)
    return frame


def number_in(rgb):
    """The number that a frame shows; its bar must be blue."""
    assert rgb[3, 30, 2] > 200 and rgb[3, 30, 0] < 60
    return sum(int(rgb[30, bit * 8 + 4].mean() > 128) << bit for bit in range(8))


def write(path, frames, codec, first=0):
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter_fourcc(*codec), RATE, (WIDTH, HEIGHT))
    assert writer.isOpened()
    for i in range(frames):
        writer.write(frame_of(first + i))
    writer.release()


@pytest.fixture(autouse=True)
def videos(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write("a.avi", 50, "MJPG")
    write("b 100%d.mp4", 30, "mp4v", first=100)  # the name is no pattern


def rows_of(spec):
    ds = sf.read(spec).parse({"image/encoded": sf.bytes, "image/height": sf.int64, "image/width": sf.int64,
                              "video": sf.bytes, "frame": sf.int64, "time": sf.float32})
    return [{name: value[0] for name, value in batch.items()} for batch in ds.batch(1)]


def run(*arguments):
    done = subprocess.run([sys.executable, "-m", "shardfeed", "convert", "video", *map(str, arguments)], text=True,
                          capture_output=True, env={**os.environ, "PYTHONPATH": str(REPOSITORY / "python")})
    assert "Traceback" not in done.stderr
    return done


@pytest.mark.parametrize("format", ["jpeg", "png"])
@pytest.mark.parametrize("every", [1, 7])
def test_frames_are_records_in_their_order(format, every):
    report = sf.convert("video", ["a.avi", "b 100%d.mp4"], "out/d@3", format=format, every=every)
    rows = rows_of("out/d@3")
    wanted = [("a.avi", i, i) for i in range(0, 50, every)] + [("b 100%d.mp4", i, 100 + i) for i in range(0, 30, every)]
    assert report["records"] == len(rows) == len(wanted)
    for row, (name, frame, number) in zip(rows, wanted):
        assert (row["video"].decode(), row["frame"]) == (name, frame)
        assert row["time"] == pytest.approx(frame / RATE, abs=1e-3)
        assert (row["image/height"], row["image/width"]) == (HEIGHT, WIDTH)
        assert row["image/encoded"].startswith(b"\xff\xd8" if format == "jpeg" else b"\x89PNG")
        pixels = cv2.imdecode(np.frombuffer(row["image/encoded"], np.uint8), cv2.IMREAD_COLOR)[:, :, ::-1]
        assert number_in(pixels) == number
    assert any("JPEGs of quality 95" in note for note in report["notes"]) == (format == "jpeg")
    # As training decodes them.
    batch = next(iter(sf.read("out/d@3").decode_image("image/encoded", (HEIGHT, WIDTH)).batch(4)))
    assert [number_in(image) for image in batch["image"]] == [number for _, _, number in wanted[:4]]


def test_png_has_the_pixels_that_opencv_decodes():
    sf.convert("video", "b 100%d.mp4", "out/d@1", format="png")
    capture = cv2.VideoCapture(os.path.abspath("b 100%d.mp4"), cv2.CAP_FFMPEG)
    for row in rows_of("out/d@1"):
        found, frame = capture.read()
        assert found
        np.testing.assert_array_equal(cv2.imdecode(np.frombuffer(row["image/encoded"], np.uint8), cv2.IMREAD_COLOR), frame)
    assert not capture.read()[0]
    capture.release()


def test_chosen_columns_and_a_dry_run():
    report = sf.convert("video", "a.avi", "out/d@1", columns="frame,time")
    assert report["records"] == 50 and not report["notes"]
    assert next(iter(sf.read("out/d@1").parse().batch(50))).keys() == {"frame", "time"}
    shown = sf.convert("video", "a.avi", "out/e@1", every=20, dry_run=True)
    assert shown["records"] == 3 and [row["frame"] for row in shown["first"]] == [0, 20, 40]
    assert not os.path.exists("out/e-00000-of-00001")


def test_equal_input_gives_equal_shards_and_a_run_is_resumed():
    for name in ("a", "b"):
        sf.convert("video", ["a.avi", "b 100%d.mp4"], f"out/{name}@4", resume=name == "b")
    for shard in range(4):
        with open(f"out/a-{shard:05}-of-00004", "rb") as one, open(f"out/b-{shard:05}-of-00004", "rb") as other:
            assert one.read() == other.read()


def test_a_video_that_is_cut_off_is_taken_as_far_as_it_goes():
    with open("a.avi", "rb") as file:
        data = file.read()
    with open("cut.avi", "wb") as file:
        file.write(data[:len(data) * 2 // 3])
    done = run("cut.avi", "out/d@1")
    assert done.returncode == 0 and done.stderr == ""
    records = len(rows_of("out/d@1"))
    assert 20 < records < 50
    assert f"note: it announces 50 frames, of which {records} can be decoded; it may be cut off" in done.stdout


@pytest.mark.parametrize("content, message", [
    (b"", "it is empty"), (b"no video\0", "not a video that OpenCV can read"),
    (b"ffconcat version 1.0\nfile a.avi\n", "not a video, but text"),
    (b"#EXTM3U\n#EXTINF:1,\na.avi\n#EXT-X-ENDLIST\n", "not a video, but text")])
def test_what_is_no_video_is_told(content, message):
    with open("bad.mp4", "wb") as file:
        file.write(content)
    done = run("a.avi", "bad.mp4", "out/d@1")
    assert done.returncode == DEFECTS and done.stderr.startswith(f"shardfeed: bad.mp4: {message}")
    assert done.stderr.count("\n") == 1 and not os.path.exists("out")


def test_what_is_no_file_is_told():
    os.mkfifo("pipe.mp4")
    os.mkdir("folder.mp4")
    for name in ("pipe.mp4", "/dev/zero"):
        done = run(name, "out/d@1")
        assert (done.returncode, done.stderr) == (DEFECTS, f"shardfeed: {name}: not a regular file\n")
    done = run("folder.mp4", "out/d@1")
    assert (done.returncode, done.stderr) == (
        USAGE, "shardfeed: folder.mp4: it is a folder, and video is read from files; name them, as in 'folder.mp4/*'\n")


def test_names_are_only_names():
    with open("a.avi", "rb") as file:
        data = file.read()
    for i in range(2):
        cv2.imwrite(f"f{i}.png", frame_of(i))
    names = [b"f%d.png", b"http:x", b"-x", "\u00fc \"'\n.avi".encode()]
    for number, name in enumerate(names):
        with open(name, "wb") as file:
            file.write(data)
        sf.convert("video", f"./{os.fsdecode(name)}", f"out/d{number}@1", every=10)
        rows = rows_of(f"out/d{number}@1")
        assert [row["frame"] for row in rows] == [0, 10, 20, 30, 40] and rows[0]["video"] == b"./" + name


@pytest.mark.parametrize("before", [None, "/some/folder"])
def test_programs_started_later_get_the_library_path_of_the_caller(before):
    environment = {name: value for name, value in os.environ.items() if name != "LD_LIBRARY_PATH"}
    if before is not None:
        environment["LD_LIBRARY_PATH"] = before
    code = ("import os, sys\n"
            "import shardfeed as sf\n"
            "sf.convert('video', 'a.avi', 'out/d@1', every=50)\n"
            "assert 'cv2' in sys.modules\n"
            "print(os.environ.get('LD_LIBRARY_PATH'))\n")
    done = subprocess.run([sys.executable, "-c", code], env={**environment, "PYTHONPATH": str(REPOSITORY / "python")},
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{before}\n"


def test_opencvs_settings_are_left_as_they_were(monkeypatch):
    monkeypatch.delenv("OPENCV_FFMPEG_LOGLEVEL", raising=False)
    level = cv2.utils.logging.getLogLevel()
    sf.convert("video", "a.avi", "out/d@1", every=50)
    assert cv2.utils.logging.getLogLevel() == level and "OPENCV_FFMPEG_LOGLEVEL" not in os.environ


@pytest.mark.parametrize("arguments, status, message", [
    (["none.mp4", "out/d@1"], IO_FAILED, "none.mp4: cannot open: No such file or directory"),
    (["a.avi", "out/d@1", "--every", "0"], USAGE, "'0' is not an integer of at least 1"),
    (["a.avi", "out/d@1", "--format", "gif"], USAGE, "video: --format: gif not in {jpeg,png}"),
    (["a.avi", "out/d@1", "--columns", "x"], USAGE, "column 'x' does not exist; the columns are 'image/encoded'"),
    (["-", "out/d@1"], USAGE, "each record has the name of its file"),
])
def test_wrong_use_is_told(arguments, status, message):
    done = run(*arguments)
    assert done.returncode == status and message in done.stderr


def test_what_is_missing_is_named(tmp_path):
    (tmp_path / "cv2.py").write_text("raise ImportError('it is not here')")
    done = run("a.avi", "out/d@1")
    assert done.returncode == IO_FAILED
    assert ("convert video takes cv2, which cannot be imported (it is not here); install it: pip install "
            "opencv-python-headless, or with all that such kinds take: pip install 'shardfeed[video]'") in done.stderr

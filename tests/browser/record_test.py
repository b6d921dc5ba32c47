"""What the page shows of odd records, of searches and of several datasets, in headless Chromium."""

import pathlib
import re

import numpy as np
import pytest
from browser import JPEGS, REPOSITORY, npy, page, report, viewed  # noqa: F401
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select

import shardfeed as sf


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("browsed")


@pytest.fixture(scope="module")
def odd(folder):
    """Long records that are no Examples, a damaged one, which is the first, and images after these."""
    spec = str(folder / "odd@1")
    with sf.write(spec) as writer:
        writer.write({"x": 0, "text": "to be damaged"})
        for i in range(1, 300):
            if i % 3:
                writer.write(f"line {i}, no Example, ".encode() + b"long " * 60)
            else:
                writer.write({"image/encoded": JPEGS[i % len(JPEGS)].read_bytes(), "x": i, "text": "t" * (1 + i)})
    flip(spec, 0)
    return spec


def flip(spec, number):
    """Changes a byte of a record."""
    path, _, offset = sf.read(spec).place(number)
    data = bytearray(pathlib.Path(path).read_bytes())
    data[offset + 20] ^= 1
    pathlib.Path(path).write_bytes(data)


@pytest.fixture(scope="module")
def features(folder):
    """Raw images with a box, a feature without a name, arrays, texts of all lengths."""
    spec = str(folder / "features@1")
    with sf.write(spec) as writer:
        for i in range(100):
            writer.write({
                "image/raw": bytes(3 * 40 * 60), "image/height": 40, "image/width": 60, "image/channels": 3,
                "image/object/bbox/xmin": [0.1], "image/object/bbox/xmax": [0.4], "image/object/bbox/ymin": [0.2],
                "image/object/bbox/ymax": [0.6], "image/class/label": i % 3, "": f"unnamed {i}", "curve": npy(np.arange(5.0)),
                "text": "y" * 2 ** (i % 18), "walk": np.arange(1 + i % 20)})
    return spec


@pytest.fixture(scope="module")
def url(odd, features, folder):
    with sf.write(str(folder / "third@1")) as writer:
        writer.write({"image/class/label": 2, "text": "third"})
    with viewed(odd, features, folder / "third@1") as url:
        yield url


ROWS = "return [...document.querySelectorAll('.scroller .row')].map(row => row.firstChild?.textContent)"


@pytest.mark.parametrize("width, height", [(1200, 800), (500, 900)])
def test_rows_of_any_width_stay(page, url, width, height):
    page.driver.set_window_size(width, height)
    try:
        page.open(url + "#tab=Records&layout=list")
        page.wait(".row .bad", "CRC")
        page.wait(".row .whole", "line 1, no Example")
        page.script("window.gone = 0; new MutationObserver(all => all.forEach(m => gone += m.removedNodes.length))"
                    ".observe(document.querySelector('.scroller .space'), {childList: true})")
        page.driver.set_window_size(width, height - 40)
        page.driver.set_window_size(width - 20, height - 40)
        page.until(lambda: len(page.script(ROWS)) > 5 and all(page.script(ROWS)), "filled rows")
        widths = page.script("return [...document.querySelectorAll('.scroller .row')].map(row => row.scrollWidth - row.clientWidth)")
        assert max(widths) <= 0  # none is wider than the table
        assert page.script("return gone") <= 2  # those of the window's lower edge
    finally:
        page.driver.set_window_size(1200, 800)


def test_images_after_other_records_are_seen(page, url):
    page.open(url + "#tab=Records")
    page.wait(".tools button", "images")
    page.until(lambda: page.all(".cell img"), "images")
    page.wait(".cell .bad", "CRC")


def test_a_search_counts_what_it_could_not_read(page, url):
    page.open(url + "#tab=Records&layout=list")
    page.wait(".row .whole", "line 1")
    page.wait("#find-text").send_keys("line 299", Keys.ENTER)
    page.wait("#found", "1 found")
    page.wait("#found .bad", "1 record could not be read")


def test_a_record_that_is_opened_by_its_url_has_class_names(page, tmp_path):
    sf.convert("imagefolder", REPOSITORY / "testdata/images", tmp_path / "images@1", limit=8)
    with viewed(tmp_path / "images@1") as url:
        page.open(url + "#tab=Verify&n=7")

        def name():
            row = next(row for row in page.all("dialog .features tr") if row.text.startswith("image/class/label"))
            return "circles" in row.text or "gradients" in row.text or "stripes" in row.text or "triangles" in row.text
        page.until(name, "the name of the class")
        page.driver.refresh()
        page.until(name, "the name of the class")
        assert page.errors() == []


def test_a_record_of_raw_pixels_has_its_boxes_and_all_of_its_values(page, url):
    page.open(url + "#tab=Records&d=1&n=17")
    page.wait("dialog figcaption", "image/raw, 60 × 40")
    assert len(page.all("dialog svg rect")) == 1
    page.wait("dialog .values", "float64 [5]: 0.0, 1.0, 2.0, 3.0, 4.0")
    page.wait("dialog .dim", "128 KiB, the last 64 KiB of it are left out here")
    assert page.script("return [...document.querySelectorAll('dialog .values')].some(v => v.textContent === 'y'.repeat(65536))")
    page.wait("dialog .name", '""')


def test_a_feature_without_a_name_is_searched(page, url):
    page.open(url + "#tab=Records&d=1&layout=list")
    page.wait(".row", "0")
    select = Select(page.wait("#find-feature"))
    assert [option.text for option in select.options][:2] == ["any bytes", '""']
    select.select_by_index(1)
    page.wait("#find-text").send_keys("unnamed 77", Keys.ENTER)
    page.wait("#found", "1 found")
    assert Select(page.wait("#find-feature")).first_selected_option.text == '""'
    assert page.wait(".head").text.split("\n")[:2] == ["record", '""']


def test_the_summary_draws_sizes_and_lengths(page, url, odd, tmp_path):
    page.open(url + "#d=1")
    page.wait(".cards", "sizes of records")
    page.wait(".features .dim", "values a record: 1 to 20")
    spec = str(tmp_path / "jpegs@1")
    with sf.write(spec) as writer:
        for path in JPEGS[:9]:
            writer.write({"image/encoded": path.read_bytes()})
    with viewed(spec) as other:
        page.open(other)
        page.wait(".features .dim", "9 jpeg, ")
    page.open(report(spec, tmp_path / "r.html"))
    assert re.search(r"9 jpeg, .* × .* pixels", page.wait(".features .dim", "9 jpeg, ").text)
    assert page.errors() == []


def test_any_two_datasets_are_compared(page, url):
    page.open(url + "#tab=Compare&d=1")
    page.wait("main p", "features@1")
    page.wait("main p", "third@1")
    Select(page.wait("#compare-with")).select_by_index(0)
    page.wait("main .bad", "odd@1")  # whose first record is damaged
    Select(page.wait("#compare-with")).select_by_index(1)
    page.wait("main p", "third@1")
    page.wait("#compare-record").send_keys("0", Keys.ENTER)
    page.wait(".sides h3", "record 0 of ")
    assert [side.text.split("\n")[0].split("/")[-1] for side in page.all(".sides > section")] == ["features@1", "third@1"]
    page.wait(".sides .values", "third")


def test_a_report_says_what_it_does_not_have(page, tmp_path):
    noise = np.random.default_rng(1).integers(0, 256, (400, 500, 3)).astype(np.uint8)
    from shardfeed.viewer import media
    spec = str(tmp_path / "t@1")
    with sf.write(spec) as writer:
        for _ in range(3):
            writer.write({"photo": media.png(noise), "scan": b"II*\0 broken", "song": b"ID3" + bytes(300_000),
                          "beep": b"RIFF\x24\0\0\0WAVEfmt "})
    file = report(spec, tmp_path / "r.html", "--records", "2")
    page.open(file + "#tab=Records&n=0")
    page.wait("dialog figcaption", "photo, reduced for this report to 256 × 205")
    page.wait("dialog figure", "cannot be shown in a report")
    page.wait("dialog td", "too large for a report")
    assert len(page.all("dialog audio")) == 1
    page.open(file + "#n=2")
    page.wait("dialog .bad", "record 2 is not in this report, which has 2 records")
    page.open(report(spec, tmp_path / "none.html", "--records", "0") + "#tab=Records")
    page.wait("main", "This report was written without records.")


def test_an_image_that_cannot_be_decoded_says_why(page, tmp_path):
    spec = str(tmp_path / "t@1")
    with sf.write(spec) as writer:
        writer.write({"scan": b"II*\0 broken"})
    with viewed(spec) as other:
        page.open(other + "#tab=Records&n=0")
        page.wait("dialog .bad", "TIFF ends before its size")

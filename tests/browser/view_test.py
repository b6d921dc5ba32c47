"""The page of `shardfeed view` and the file of `shardfeed report`, clicked through in headless Chromium.

    scripts/test --browser
"""

import numpy as np
import pytest
from browser import JPEGS, npy, page, report, viewed  # noqa: F401
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select

import shardfeed as sf


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("browsed")


@pytest.fixture(scope="module")
def images(folder):
    """Images with two boxes, a mask and a text that would like to be HTML."""
    mask = npy(np.arange(64, dtype=np.uint8).reshape(8, 8) % 5)
    spec = str(folder / "images@1")
    with sf.write(spec) as writer:
        for i in range(300):
            writer.write({
                "image/encoded": JPEGS[i % len(JPEGS)].read_bytes(), "image/class/label": i % 7, "mask": mask,
                "image/object/bbox/xmin": [0.1, 0.5], "image/object/bbox/xmax": [0.4, 0.9],
                "image/object/bbox/ymin": [0.2, 0.3], "image/object/bbox/ymax": [0.6, 0.9],
                "image/object/class/text": ["cat", "<b>dog</b>"], "text": f"<img src=x onerror=alert(1)> {i}"})
    return spec


@pytest.fixture(scope="module")
def table(folder):
    """So many rows that their height is more than a browser allows."""
    spec = str(folder / "table@1")
    with sf.write(spec) as writer:
        for first in range(0, 500_000, 100_000):
            writer.write_batch({"x": np.arange(first, first + 100_000)})
    return spec


@pytest.fixture(scope="module")
def url(images, table):
    with viewed(images, table) as url:
        yield url


def test_the_summary_has_the_statistics(page, url):
    page.open(url)
    page.wait(".cards b", "300")
    label = next(row for row in page.all(".features tbody tr") if "image/class/label" in row.text)
    page.wait(".features td", "7 different values")
    assert "int64" in label.text
    assert page.errors() == []


# Answers to the first two questions about the schema that a run of the program which takes long would get.
SLOW = """
const fetched = window.fetch;
let asked = 0;
window.fetch = (path, ...rest) => !String(path).includes("api/overview") || asked++ > 1 ? fetched(path, ...rest)
  : Promise.resolve(new Response(JSON.stringify({state: "running", seconds: 1, OUTLINE})));
"""


@pytest.mark.parametrize("outline", ["", 'outline: {records: 300, shards: 1, bytes: 1, features: {early: {kind: "int64"}}}'])
def test_a_schema_that_takes_long_is_shown_in_the_end(page, url, outline):
    made = page.driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": SLOW.replace("OUTLINE", outline) + """
        window.seen = [];
        new MutationObserver(() => seen.push(document.getElementById("main")?.innerText))
          .observe(document, {childList: true, subtree: true});"""})
    try:
        page.open(url)
        page.wait(".cards b", "300")
        page.wait(".features .name", "image/class/label")
        seen = page.script("return seen.filter((text) => text?.includes('Reading the schema'))")
        assert seen and any("early" in text for text in seen) == bool(outline)
        assert "Reading the schema" not in page.wait("main").text
        assert page.errors() == []
    finally:
        page.driver.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", made)


def test_an_error_takes_the_place_of_what_was_known_before(page, url):
    outline = 'outline: {records: 300, shards: 1, bytes: 1, features: {early: {kind: "int64"}}}'
    made = page.driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": SLOW.replace("OUTLINE", outline) + """
        const slow = window.fetch;
        window.fetch = (path, ...rest) => !String(path).includes("api/overview") || asked <= 1 ? slow(path, ...rest)
          : Promise.resolve(new Response('{"error": "the dataset was replaced"}', {status: 404}));"""})
    try:
        page.open(url)
        page.wait("main .bad", "the dataset was replaced")
        assert page.all(".features") == [] and page.all(".cards") == []
        assert page.errors() == []
    finally:
        page.driver.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", made)


def test_the_summary_shows_many_features(page, url):
    page.open(url)
    page.wait(".cards b", "300")
    assert page.script("""
        const features = Object.fromEntries(Array.from({length: 300000}, (_, i) => ["f" + i, {kind: "int64"}]));
        return featureTable({records: 1, features}).rows.length;""") == 300_001


def test_a_record_opens_with_its_boxes(page, url):
    page.open(url + "#tab=Records")
    page.cell(0).click()
    page.wait("dialog .bar", "record 0")
    page.wait("dialog .tag", "<b>dog</b>")
    assert len(page.all("dialog svg rect")) == 2 and page.all("dialog b") == []
    page.wait("dialog figcaption", "mask, 8 × 8")
    page.wait("dialog .values", "<img src=x onerror=alert(1)> 0")
    assert page.script("return [...document.images].every(i => !i.src.endsWith('/x'))")
    assert page.errors() == []


def test_keys_move_between_records(page, url):
    page.open(url + "#tab=Records")
    page.cell(0).click()
    page.wait("dialog .bar", "record 0")
    page.press(Keys.ARROW_RIGHT)
    page.wait("dialog .bar", "record 1")
    page.press("j")
    page.wait("dialog .bar", "record 2")
    page.press("k")
    page.wait("dialog .bar", "record 1")
    page.press(Keys.ESCAPE)
    page.wait("dialog[open]", present=False)
    page.press("4")
    page.wait("main", "Reads every byte")
    page.press("g")
    page.press("299", Keys.ENTER)
    page.wait("dialog .bar", "record 299")
    assert page.all("dialog .bar button")[1].get_attribute("disabled")
    page.driver.back()
    page.wait("dialog[open]", present=False)


def test_a_search_finds_values(page, url):
    page.open(url + "#tab=Records&layout=list")
    page.wait(".row", "0")
    page.press("/")
    page.wait("#find-text")
    Select(page.wait("#find-feature")).select_by_value("text")
    page.wait("#find-text").send_keys(" 29", Keys.ENTER)
    page.wait("#found", "11 found")
    expected = ["29", *map(str, range(290, 300))]
    page.until(lambda: [row.text.split("\n")[0] for row in page.all(".row")] == expected, "the rows that were found")
    page.wait("form button", "Show all").click()
    page.wait(".row", "onerror=alert(1)> 1")
    Select(page.wait("#find-feature")).select_by_value("image/class/label")
    page.wait("#find-text").send_keys("six", Keys.ENTER)
    page.wait("#found", "'six' is not a number")


def test_every_row_of_a_long_table_is_reached(page, url):
    page.open(url + "#tab=Records&d=1")
    page.wait(".row", "0")
    scroll = "document.querySelector('.scroller')."
    page.script(scroll + "scrollTop = 1e9")
    page.wait(".row", "499,999")
    page.script(scroll + "scrollTop = 0")
    page.wait(".row", "0\n0")
    page.script(scroll + "scrollTop = 6e6")
    page.wait(".row", "250,0")
    first = int(page.all(".row")[2].text.split("\n")[0].replace(",", ""))
    page.script(scroll + "scrollBy(0, 90)")  # three rows, not three of many
    page.wait(".row", f"{first + 12:,}")
    assert abs(int(page.all(".row")[2].text.split("\n")[0].replace(",", "")) - first - 3) <= 1


def test_the_order_verify_and_compare(page, url):
    page.open(url + "#tab=Order")
    page.wait("#order-shuffle").send_keys("1")
    page.wait("form button", "Show").click()
    page.wait("main p", "16 records from 1 shard")
    assert len(page.all(".sheet .cell img")) == 16
    page.wait("#order-batch").send_keys("x", Keys.ENTER)
    page.wait(".bad", "--batch")
    page.tab("Verify")
    page.wait("main button", "Verify").click()
    page.wait(".good", "All is well: 300 records")
    page.tab("Compare")
    page.wait(".bad", "'x'")


def test_another_dataset_is_chosen(page, url):
    page.open(url)
    page.wait(".cards b", "300")
    Select(page.wait("#dataset")).select_by_index(1)
    page.wait(".cards b", "500,000")
    assert page.errors() == []


def test_a_phone_shows_all_without_scrolling_sideways(page, url, folder):
    long_names = str(folder / "long@1")
    with sf.write(long_names) as writer:
        writer.write({"image/encoded": JPEGS[0].read_bytes(), "a name " * 30: 1, **{
            f"image/object/bbox/{side}": [0.9] for side in ("xmin", "xmax", "ymin", "ymax")},
            "image/object/class/text": ["a label " * 30]})
    page.driver.set_window_size(500, 900)
    try:
        for tab in ("Summary", "Records", "Order", "Verify"):
            page.open(f"{url}#tab={tab}")
            page.wait("main *")
            assert page.script("return document.documentElement.scrollWidth <= window.innerWidth"), tab
        with viewed(long_names) as other:
            page.open(f"{other}#tab=Records&n=0")
            page.wait("dialog .tag", "a label")
            assert page.script("const d = document.querySelector('dialog'); return d.scrollWidth <= d.clientWidth")
            page.press(Keys.ESCAPE)
            page.wait("dialog[open]", present=False)
            assert page.wait("#find-feature").rect["width"] <= 500 * 0.8
    finally:
        page.driver.set_window_size(1200, 800)


def test_a_report_works_from_its_file(page, images, tmp_path):
    page.open(report(images, tmp_path / "r.html"))
    page.wait(".features td", "7 different values")
    page.tab("Records")
    page.cell(0).click()
    page.wait("dialog .tag", "<b>dog</b>")
    page.press(Keys.ARROW_RIGHT)
    page.wait("dialog .bar", "record 6")  # 48 of 300
    assert page.errors() == []


def test_batches_are_seen_as_training_gets_them(page, images, folder):
    recipe = folder / "recipe.py"
    recipe.write_text(f"""
import shardfeed as sf
train = (sf.read({images!r}).shuffle(seed=1).parse({{"image/encoded": sf.bytes, "image/class/label": sf.int64}})
         .decode_image("image/encoded", 32, crop="random", flip=0.5).batch(8))
labels = sf.read({images!r}).parse({{"image/class/label": sf.int64}}).batch(100)
""")
    for name, shown in (("train", ".batch-row img"), ("labels", ".features td")):
        with viewed(images, "--chain", f"{recipe}:{name}") as url:
            page.open(url)
            page.tab("Training")
            page.wait("#trained", "batch 0 of epoch 0")
            page.wait("#training-after").click()
            page.wait("#trained", "batch 1 of epoch 0: " + ("8 rows" if name == "train" else "100 rows, of which the first 64"))
            assert len(page.all(shown)) == (8 if name == "train" else 64)
            loaded = "return [...document.querySelectorAll('.batch-row img')].every(i => i.complete && i.naturalWidth === 32)"
            page.until(lambda: page.script(loaded), "images of 32 pixels")
            page.wait("#training-batch").send_keys("99", Keys.ENTER)
            page.wait("#trained .bad", "epoch 0 has")
            page.wait("#training-before")
            # The answer "not found" is told by the browser as well.
            assert [one for one in page.errors() if "404" not in one] == []

"""A headless browser, and what the tests do in it."""

import contextlib
import io
import json
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY / "python"))
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(REPOSITORY / "python")}
JPEGS = sorted((REPOSITORY / "testdata/images").rglob("*.jpg"))


def npy(array):
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


@contextlib.contextmanager
def viewed(*arguments):
    """The URL of a server of datasets."""
    process = subprocess.Popen([sys.executable, "-m", "shardfeed", "view", "--json", *map(str, arguments)], env=ENVIRONMENT,
                               stdout=subprocess.PIPE, text=True)
    try:
        yield json.loads(process.stdout.readline())["url"]
    finally:
        process.terminate()
        assert process.wait(60) == 0


def report(spec, path, *options):
    """Writes a report, and returns its URL."""
    subprocess.run([sys.executable, "-m", "shardfeed", "report", spec, path, *options], env=ENVIRONMENT, check=True,
                   stdout=subprocess.DEVNULL)
    return path.as_uri()


class Page:
    """A browser, and what the tests do in it."""

    def __init__(self):
        options = webdriver.ChromeOptions()
        for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1200,800"):
            options.add_argument(argument)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        self.driver = webdriver.Chrome(options=options, service=webdriver.ChromeService("/usr/bin/chromedriver"))

    def open(self, url):
        self.driver.get("about:blank")
        self.driver.get_log("browser")
        self.driver.get(url)

    def all(self, selector):
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def wait(self, selector, text="", present=True):
        """Waits until the selector finds elements one of which has the text, and returns that; or until it does not."""
        def found():
            hits = [element for element in self.all(selector) if text in element.text]
            return (hits[0] if hits else False) if present else not hits
        return self.until(found, f"{selector} {text!r}")

    def until(self, holds, what):
        """Waits until holds() is true, and returns what it returned."""
        return WebDriverWait(self.driver, 60, ignored_exceptions=[Exception]).until(lambda _: holds(), what)

    def cell(self, number):
        """Waits until the image of a record is there, and returns its cell."""
        def found():
            return next((cell for cell in self.all(".cell") if cell.text.split("\n")[-1] == str(number)), False)
        return self.until(found, f"the cell of record {number}")

    def tab(self, name):
        self.wait("#tabs button", name).click()

    def press(self, *keys):
        self.driver.switch_to.active_element.send_keys(*keys)

    def script(self, text):
        return self.driver.execute_script(text)

    def errors(self):
        return [line["message"] for line in self.driver.get_log("browser") if line["level"] == "SEVERE"]


@pytest.fixture(scope="module")
def page():
    made = Page()
    yield made
    made.driver.quit()

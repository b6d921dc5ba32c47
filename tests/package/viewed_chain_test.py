"""`shardfeed view --chain`: batches as training gets them."""

import http.client
import json
import os
import socket
import subprocess
import sys
import signal
import time
import threading
import urllib.parse

import pytest
from harness import REPOSITORY, TESTDATA, USAGE
from package_data import sf

from shardfeed.viewer import media
from shardfeed.viewer.dataset import Missing, ViewedDataset
from shardfeed.viewer.server import Server
from shardfeed.viewer.training import BadChain, ViewedChain, load_chain

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(REPOSITORY / "python")}

RECIPE = """
import shardfeed as sf

def rows(table):
    return sf.read(table).shuffle(seed=1).parse({"x": sf.int64, "text": sf.bytes, "half": sf.ragged("float32")})

train = rows(TABLE).batch(100)
one_by_one = rows(TABLE)
number = 7

def made():
    return rows(TABLE).batch(10)

def broken():
    return rows(TABLE).nothing()
"""


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    spec = str(tmp_path_factory.mktemp("viewed") / "table@1")
    with sf.write(spec) as writer:
        for i in range(1000):
            writer.write({"x": i, "text": f"row {i}", "half": [i / 2, -1.5]})
    return spec


@pytest.fixture
def recipe(table, tmp_path):
    path = tmp_path / "recipe.py"
    path.write_text(RECIPE.replace("TABLE", repr(table)))
    return str(path)


def test_batches_are_those_of_the_chain(recipe):
    chain = load_chain(recipe + ":train")
    viewed = ViewedChain("train", chain)
    batches = list(chain.start(epoch=2))
    for number in (0, 3, 9, 1, 2):  # also backwards
        found = viewed.batch(2, number)
        assert (found["epoch"], found["batch"], found["rows"]) == (2, number, 100)
        assert [one["name"] for one in found["columns"]] == list(batches[number])
        assert len(found["shown"]) == 64
        x = [one["name"] for one in found["columns"]].index("x")
        assert [row[x]["text"] for row in found["shown"]] == [str(x) for x in batches[number]["x"][:64]]
    with pytest.raises(Missing, match="epoch 2 has 10 batches"):
        viewed.batch(2, 10)
    assert viewed.batch(2, 9)["rows"] == 100
    assert viewed.batch(0, 0)["shown"] != viewed.batch(1, 0)["shown"]


def test_rows_that_are_not_batched(recipe):
    found = ViewedChain("rows", load_chain(recipe + ":one_by_one")).batch(0, 5)
    assert found["rows"] == 1 and len(found["shown"]) == 1
    assert [one["name"] for one in found["columns"]] == ["x", "text", "half"]
    number = found["shown"][0][0]["text"]
    assert found["shown"][0][1]["text"] == f"row {number}"
    assert found["shown"][0][2]["text"] == f"{int(number) / 2}, -1.5"


def test_images_are_shown_as_training_gets_them(tmp_path):
    spec = tmp_path / "images@1"
    with sf.write(spec) as writer:
        writer.write({"image/encoded": next(iter(sorted((TESTDATA / "images").rglob("*.jpg")))).read_bytes()})
    chain = sf.read(spec).parse({"image/encoded": sf.bytes}).decode_image("image/encoded", 24).batch(1)
    viewed = ViewedChain("images", chain)
    found = viewed.batch(0, 0)
    name = found["columns"][0]["name"]
    assert found["shown"][0][0] == {"image": [24, 24, 3], "text": "uint8 [24, 24, 3]"}
    pixels = next(iter(chain))[name][0]
    assert viewed.image(0, 0, 0, 0) == media.png(pixels)
    for row, column in ((1, 0), (0, 1)):
        with pytest.raises(Missing, match="has no image"):
            viewed.image(0, 0, row, column)


def test_steps_that_raise_name_the_batch():
    def bad(row):
        if row["value"] == 3:
            raise RuntimeError("no such row")
        return row

    viewed = ViewedChain("bad", sf.range(10).map(bad).batch(2))
    assert viewed.batch(0, 0)["rows"] == 2
    with pytest.raises(Missing, match="batch 1: RuntimeError: .*no such row"):
        viewed.batch(0, 1)
    assert viewed.batch(0, 0)["rows"] == 2


def test_sys_exit_of_a_step_is_shown(recipe, table):
    path = os.path.join(os.path.dirname(recipe), "exits.py")
    with open(path, "w") as file:
        file.write("import sys\nimport shardfeed as sf\ndef stop(row):\n    if row['value'] == 1:\n        sys.exit('no labels')\n"
                   "    return row\nchain = sf.range(4).map(stop).batch(2)\ndef made():\n    sys.exit(3)\n")
    with pytest.raises(BadChain, match="exits.py:9: SystemExit: 3"):
        load_chain(path + ":made")
    with Server([ViewedDataset(table)], chain=ViewedChain("chain", load_chain(path + ":chain"))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        url = urllib.parse.urlsplit(server.url)
        connection = http.client.HTTPConnection(url.hostname, url.port, timeout=60)
        connection.request("GET", url.path + "api/training")
        response = connection.getresponse()
        assert response.status == 404
        assert json.load(response)["error"].startswith("batch 0: SystemExit: no labels")
        server.shutdown()
        thread.join()


def test_a_chain_that_is_made_by_a_function(recipe):
    assert ViewedChain("made", load_chain(recipe + ":made")).batch(0, 0)["rows"] == 10


@pytest.mark.parametrize("place, message", [
    ("recipe.py", "expected FILE.py:NAME"), ("recipe.py:", "expected FILE.py:NAME"), ("recipe.py:a.b", "expected FILE.py:NAME"),
    ("nothing.py:train", "nothing.py: no such file"), ("recipe.py:trian", "trian does not exist; its chains are one_by_one, train"),
    ("recipe.py:number", "number is of type int, not a Dataset"), ("recipe.py:broken", r"recipe.py:15: AttributeError: "),
    ("text:train", "its name must end with .py")])
def test_files_without_the_chain(recipe, place, message):
    folder = os.path.dirname(recipe)
    open(os.path.join(folder, "text"), "w").close()
    with pytest.raises(BadChain, match=message):
        load_chain(os.path.join(folder, place))


def test_the_program_serves_the_chain(recipe, table):
    process = subprocess.Popen([sys.executable, "-m", "shardfeed", "view", "--json", table, "--chain", recipe + ":train"],
                               env=ENVIRONMENT, stdout=subprocess.PIPE, text=True)
    try:
        url = urllib.parse.urlsplit(json.loads(process.stdout.readline())["url"])
        connection = http.client.HTTPConnection(url.hostname, url.port, timeout=60)

        def get(path):
            connection.request("GET", url.path + path)
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())

        status, about = get("api/chain")
        assert status == 200 and about["batched"] and about["name"] == recipe + ":train"
        assert get("api/training?epoch=0&batch=2")[1]["batch"] == 2
        assert get("api/training?epoch=0&batch=99") == (404, {"error": "epoch 0 has 10 batches"})
        assert get("api/training?batch=x")[0] == 404
    finally:
        process.terminate()
        assert process.wait(60) == 0


def test_a_step_that_does_not_return_does_not_keep_the_viewer(table, tmp_path):
    (tmp_path / "slow.py").write_text("import time, shardfeed as sf\n"
                                      "train = sf.range(9).map(lambda row: min(row.values()) > 5 and time.sleep(600) or row).batch(2)\n")
    process = subprocess.Popen([sys.executable, "-m", "shardfeed", "view", "--json", table, "--chain", f"{tmp_path}/slow.py:train"],
                               env=ENVIRONMENT, stdout=subprocess.PIPE, text=True)
    try:
        url = urllib.parse.urlsplit(json.loads(process.stdout.readline())["url"])
        connection = http.client.HTTPConnection(url.hostname, url.port, timeout=60)
        connection.request("GET", url.path + "api/training?epoch=0&batch=4")
        time.sleep(1)
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0
        connection.close()
    finally:
        process.kill()
        process.wait()


def test_requests_without_a_path_are_answered(table):
    server = Server([ViewedDataset(table)])
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        for target in ("foo", "*", "http://["):
            with socket.create_connection(server.server_address) as connection:
                connection.sendall(f"GET {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
                assert connection.recv(100).startswith(b"HTTP/1.1 404 ")
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_the_program_refuses_other_values(recipe, table):
    done = subprocess.run([sys.executable, "-m", "shardfeed", "view", table, "--chain", recipe + ":number"],
                          env=ENVIRONMENT, capture_output=True, text=True, timeout=120)
    assert done.returncode == USAGE and "not a Dataset" in done.stderr

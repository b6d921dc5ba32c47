"""flight_recorder=: a file for each time that training has starved."""

import itertools
import json
import os
import time

import pytest
from package_data import sf  # noqa: F401


def stalling(folder):
    """A chain whose first row comes once the folder has a file."""
    calls = itertools.count()

    def wait(row):
        until = time.monotonic() + 60
        # The first call finds out what the function returns.
        while next(calls) > 0 and not os.listdir(folder) and time.monotonic() < until:
            time.sleep(0.01)
        return row

    return sf.range(4).map(wait)


def test_a_stall_leaves_a_file_while_it_lasts(tmp_path):
    ds = stalling(tmp_path).with_options(flight_recorder=tmp_path, starved_seconds=0.5)
    with ds.start(epoch=3) as it:
        assert next(it) == {"value": 0}
        path, = tmp_path.iterdir()
        record = json.loads(path.read_text())
        assert it.stats()["wait_seconds"] >= 0.5
    assert path.name.startswith("flight-") and path.name.endswith(f"-{os.getpid()}-{record['number']}.json")
    assert record["format"] == "shardfeed flight 1"
    assert record["epoch"] == 3 and "range(" in record["chain"]
    assert record["waiting_seconds"] >= 0.5
    assert record["seconds"][-1]["recent"] == record["recent"]


def test_the_folder_is_made_and_stays_empty_without_a_stall(tmp_path):
    folder = tmp_path / "runs/flight"
    assert len(list(sf.range(3).start(flight_recorder=folder))) == 3
    assert list(folder.iterdir()) == []


def test_wrong_arguments(tmp_path):
    for seconds in (0, -1):
        with pytest.raises(ValueError, match="starved_seconds is .*, but must be above 0"):
            sf.range(3).start(flight_recorder=tmp_path, starved_seconds=seconds)
    with pytest.raises(ValueError, match="starved_seconds: it is an option of flight_recorder, which names no folder"):
        next(iter(sf.range(3).with_options(starved_seconds=5)))
    with pytest.raises(ValueError, match="starved_seconds must be a finite number"):
        sf.range(3).start(flight_recorder=tmp_path, starved_seconds=float("nan"))
    with pytest.raises(ValueError, match="writes to a folder, not to a store"):
        sf.range(3).start(flight_recorder="s3://bucket/flight")
    with pytest.raises(TypeError):
        sf.range(3).start(flight_recorder=7)
    (tmp_path / "file").write_text("")
    with pytest.raises(RuntimeError, match="file: cannot create the folder: Not a directory"):
        sf.range(3).start(flight_recorder=tmp_path / "file")

"""Some of the cases of kill_points.py; scripts/kills runs all of them."""

import pathlib

import pytest

pytest.importorskip("ray")
import kill_points  # noqa: E402
import shardfeed as sf  # noqa: E402


@pytest.mark.parametrize("engine, share", [
    ("messages", (1, 1)), ("dask", (1, 6)), ("ray", (1, 10)), ("spark", (1, 9)), ("beam", (1, 5))])
def test_whole_or_not_there_after_every_fault(engine, share, tmp_path):
    tried, wrong = kill_points.run_all(tmp_path, [engine], share=share)
    assert wrong == []
    assert tried >= 3


def test_there_are_enough_cases():
    cases = [repr(case) for engine in kill_points.ENGINES for case in kill_points.cases_of(engine, 1)]
    assert len(cases) >= 200


class Wrong(kill_points.Messages):
    """Writes the records that `change` makes of the right ones, and a file that it leaves."""

    def __init__(self, change, leaves=()):
        self.change, self.leaves = change, leaves

    def write(self, case, source, spec, parts, overwrite, fault):
        with sf.write(spec, overwrite=overwrite) as writer:
            for record in self.change(list(sf.read(source))):
                writer.write(record)
        for name in self.leaves:
            pathlib.Path(spec).with_name(name).write_text("left")


@pytest.mark.parametrize("wrong, told", [
    (Wrong(lambda rows: rows[1:]), "neither old nor new: 239 records, where new is expected"),
    (Wrong(lambda rows: [*rows, rows[0]]), "neither old nor new: 241 records"),
    (Wrong(lambda rows: rows[::-1], ["new-temporary"]), "leaves [")])
def test_the_checks_can_fail(wrong, told, tmp_path, monkeypatch):
    monkeypatch.setattr(kill_points, "SETTLE", 0)
    library = kill_points.fault_points.build_library(tmp_path)
    (tmp_path / "run").mkdir()
    run = kill_points.Run("messages", tmp_path / "run", library, 1)
    for case in kill_points.cases_of("messages", 1)[:3]:
        assert told in run.check(wrong, case)

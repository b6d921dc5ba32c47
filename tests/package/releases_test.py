"""What earlier versions wrote is read as docs/stability.md promises: testdata/releases has it, by version."""

import json
import shutil
import sys

import pytest
from harness import TESTDATA
from package_data import sf

RELEASES = TESTDATA / "releases"
sys.path.insert(0, str(RELEASES))
from chains import DATASETS, PARSED, RECORDS, chains, plain, rest_of, row  # noqa: E402

VERSIONS = sorted(path.name for path in RELEASES.iterdir() if (path / "expected.json").exists())
CHAINS = [(version, name) for version in VERSIONS
          for name in json.loads((RELEASES / version / "expected.json").read_text())]
every_version = pytest.mark.parametrize("version", VERSIONS)


@pytest.fixture
def release(version, tmp_path):
    """A copy of the data of a version, at another place than where it was written."""
    return shutil.copytree(RELEASES / version, tmp_path / "release")


def minor_of(version):
    return version.split(".")[:2]


def test_this_version_has_its_data():
    assert sf.__version__ in VERSIONS


@every_version
@pytest.mark.parametrize("name", DATASETS)
class TestDatasets:
    def test_are_intact_with_their_indexes_and_manifests(self, release, name):
        report = sf.verify(release / name, level="examples")
        assert report and report.records == RECORDS, report

    def test_have_every_record(self, release, name):
        rows = list(sf.read(release / name).parse(PARSED))
        assert sorted((plain(one) for one in rows), key=lambda one: one["id"]) == [
            plain(row(i)) for i in range(RECORDS)]

    def test_declare_their_features(self, release, name):
        parsed = sf.read(release / name).parse()
        assert {feature: of[0] for feature, of in parsed.element_spec.items()} == {
            "id": "int64", "x": "float32", "tokens": "int64", "text": "bytes"}

    def test_have_indexes_that_lead_to_each_record(self, release, name):
        ds = sf.read(release / name).parse(PARSED)
        rows = list(ds)
        for i in reversed(range(RECORDS)):
            assert plain(ds[i]) == plain(rows[i])


@every_version
def test_an_interrupted_commit_is_finished(release):
    rows = list(sf.read(release / "committing/d@2").parse(PARSED))
    assert sorted((plain(one) for one in rows), key=lambda one: one["id"]) == [plain(row(i)) for i in range(RECORDS)]
    assert sf.verify(release / "committing/d@2")
    assert not list((release / "committing/.shardfeed").glob("*commit*"))


@pytest.mark.parametrize("version, name", CHAINS)
def test_a_run_goes_on_from_a_state(release, version, name):
    if minor_of(version) != minor_of(sf.__version__):
        pytest.skip("states are valid within a minor version")
    expected = json.loads((release / "expected.json").read_text())[name]
    with chains(release)[name].start() as it:
        it.load_state_dict(expected["state"])
        assert rest_of(it) == expected["rest"]


@pytest.mark.parametrize("version, name", CHAINS)
def test_the_order_is_the_same(release, version, name):
    if minor_of(version) != minor_of(sf.__version__):
        pytest.skip("the order is the same within a minor version")
    expected = json.loads((release / "expected.json").read_text())[name]
    with chains(release)[name].start(epoch=1) as it:
        assert rest_of(it) == expected["before"] + expected["rest"]


@every_version
def test_a_snapshot_is_used(release):
    file = (release / "raw.snapshot").stat().st_ino  # another one if it is rewritten
    assert len(list(chains(release)["snapshot"])) == 15
    assert (release / "raw.snapshot").stat().st_ino == file

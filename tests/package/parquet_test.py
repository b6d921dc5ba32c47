"""Chains of files of Parquet."""

import numpy as np
import pytest
from package_data import sf

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
pq = pytest.importorskip("pyarrow.parquet")


@pytest.fixture
def files(tmp_path):
    for i in range(2):
        pq.write_table(pa.table({"n": range(3 * i, 3 * i + 3), "x": [0.5, None, 1.5], "l": [[1], [], [2, 3]]}),
                       tmp_path / f"{i}.parquet", row_group_size=2)
    return sorted(tmp_path.glob("*.parquet"))


def test_a_chain_has_the_rows_of_all_files(files):
    batch = next(iter(sf.from_parquet(files, defaults={"x": -1.0}).batch(6)))
    assert batch["n"].tolist() == list(range(6))
    assert batch["x"].tolist() == [0.5, -1, 1.5] * 2
    assert [row.tolist() for row in batch["l"]] == [[1], [], [2, 3]] * 2
    chain = sf.from_parquet(files[0], columns=["n"]).shuffle(seed=1, window=3)
    assert sorted(int(row["n"]) for row in chain) == [0, 1, 2]
    assert list(next(iter(sf.from_parquet(files, columns=["l", "n"]).batch(2)))) == ["l", "n"]


def test_what_is_wrong_is_named(files, tmp_path):
    with pytest.raises(ValueError, match="column 'x': row 1 has no value"):
        sf.from_parquet(files)
    with pytest.raises(ValueError, match="0.parquet: column 'y' does not exist; the columns are n, x, l"):
        sf.from_parquet(files, columns=["y"])
    with pytest.raises(ValueError, match="at least one path"):
        sf.from_parquet([])
    with pytest.raises(FileNotFoundError):
        sf.from_parquet(tmp_path / "none")
    pq.write_table(pa.table({"n": np.zeros(2)}), tmp_path / "other.parquet")
    with pytest.raises(sf.DataLossError, match="other.parquet: its columns are not those of"):
        sf.from_parquet([files[0], tmp_path / "other.parquet"])
    (tmp_path / "bad.parquet").write_bytes(b"PAR1")
    with pytest.raises(sf.DataLossError, match="bad.parquet: not a file of Parquet, or cut off"):
        sf.from_parquet(tmp_path / "bad.parquet")

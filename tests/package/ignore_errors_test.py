"""Elements that fail and are dropped: which, how many, and what is reported about them."""

import io

import numpy as np
import pytest
from elements import goes_on, plain, sf, theirs, values
from PIL import Image


def inverse(row):
    if row["value"] % 100 == 3:
        raise ArithmeticError(f"no inverse of {row['value']}")
    return {"value": row["value"], "inverse": np.float64(1 / (row["value"] % 100 - 3))}


def test_ignore_errors(tf):
    checked = tf.data.Dataset.from_tensor_slices(tf.range(300.0)).map(
        lambda x: tf.debugging.check_numerics(1 / (x % 100 - 3), "no inverse"))
    if hasattr(checked, "ignore_errors"):
        expected = checked.ignore_errors()
    else:
        expected = checked.apply(tf.data.experimental.ignore_errors())
    ds = sf.range(300).map(inverse, output={"value": sf.int64, "inverse": sf.float64})
    ds = ds.ignore_errors()
    assert np.allclose(values(ds, "inverse"), theirs(expected))
    with ds.start(epoch=0) as it:
        assert sum(1 for _ in it) == 297
        stats = it.stats()
    assert stats["ignored"] == 3
    assert stats["first_ignored"] == [
        f"element {n} of epoch 0: ArithmeticError: no inverse of {n}" for n in (3, 103, 203)]
    goes_on(ds.repeat(2).batch(20))


def test_ignore_errors_of_parsing_and_decoding(tmp_path):
    with sf.write(str(tmp_path / "x@1")) as writer:
        for n in range(60):
            writer.write({"n": n, "text": b"\xff" if n % 7 == 5 else b"ok"} if n % 6 else
                         {"text": b"ok"})
    ds = sf.read(str(tmp_path / "x@1")).parse({"n": sf.int64, "text": sf.bytes})
    with pytest.raises(ValueError, match="'n' is missing"):
        list(ds)
    ds = ds.decode_text("text").map(lambda row: {"n": row["n"], "r": [1] * (row["n"] % 3)},
                                    output={"n": sf.int64, "r": sf.ragged(sf.int64)})
    ds = ds.ignore_errors(max_ignored="50%")
    wanted = [n for n in range(60) if n % 6 and n % 7 != 5]
    found = [plain(e) for e in ds.batch(8)]
    assert [n for e in found for n in e["n"]] == wanted
    assert [r for e in found for r in e["r"]] == [[1] * (n % 3) for n in wanted]
    with ds.start() as it:
        list(it)
        stats = it.stats()
        first, second = stats["first_ignored"][:2]
        assert stats["ignored"] == 60 - len(wanted) and "record 0 at byte 0: " in first
        assert "record 5 at byte " in second and "the text is not UTF-8" in second


def test_ignore_errors_has_a_ceiling():
    ds = sf.range(1000).map(inverse, output={"value": sf.int64, "inverse": sf.float64})
    for ceiling, message in [
            (2, r"ignore_errors: 3 of the first 204 rows failed, but at most 2 may be dropped "
                r"\(max_ignored\); the last one is element 203 of epoch 0: ArithmeticError: no "
                r"inverse of 203; the first one was element 3 of epoch 0"),
            ("0", "1 of the first 4 rows failed, but at most 0 may be dropped")]:
        with pytest.raises(sf.DataLossError, match=message):
            list(ds.ignore_errors(ceiling))
    for ceiling in (None, 10, "5%", "0%"):
        assert len(list(ds.ignore_errors(ceiling))) == 990
    with pytest.raises(sf.DataLossError, match="11 of the first"):
        never = sf.range(20).map(lambda row: {"x": 1 // 0}, output={"x": sf.int64})
        list(never.ignore_errors("50%"))


def test_ignore_errors_does_not_ignore_all():
    def leaves(row):
        if row["value"] == 5:
            raise SystemExit("enough")
        return row if row["value"] % 7 else 1 / 0

    ds = sf.range(20).map(leaves, output={"value": sf.int64}).ignore_errors()
    with ds.start(threads=1) as it:
        assert [next(it)["value"] for _ in range(4)] == [1, 2, 3, 4]
        with pytest.raises(SystemExit, match="enough"):
            next(it)
    fails = sf.range(20).map(lambda row: 1 / 0, output={"value": sf.int64})
    with pytest.raises(ZeroDivisionError):
        list(sf.range(20).map(dict).ignore_errors().concatenate(fails))


def test_ignore_errors_of_images(tmp_path):
    file = io.BytesIO()
    Image.fromarray(np.full((8, 8, 3), 7, np.uint8)).save(file, "png")
    image = file.getvalue()
    with sf.write(str(tmp_path / "p@1")) as writer:
        for n in range(40):
            writer.write({"image/encoded": b"none" if n % 9 == 4 else image, "n": n})
    ds = sf.read(str(tmp_path / "p@1")).decode_image(size=8, crop="none")
    ds = ds.augment("image", [sf.augment.RandomInvert(p=1)]).ignore_errors()
    found = list(ds.batch(7))
    assert [n for e in found for n in e["n"].tolist()] == [n for n in range(40) if n % 9 != 4]
    # Steps that work in place are not repeated.
    assert all((e["image"] == 248).all() for e in found)


def test_ignore_errors_beside_damaged_records(tmp_path):
    with sf.write(str(tmp_path / "x@1")) as writer:
        for n in range(30):
            writer.write({"n": n, "s": b"x" * 20})
    shard = tmp_path / "x-00000-of-00001"
    data = bytearray(shard.read_bytes())
    _, _, at = sf.read(str(tmp_path / "x@1")).place(11)
    data[at + 20] ^= 255
    shard.write_bytes(data)
    (tmp_path / "x-00000-of-00001.sfidx").unlink(missing_ok=True)
    ds = sf.read(str(tmp_path / "x@1"), skip_damaged=True).parse({"n": sf.int64})
    ds = ds.map(fails_at_20, output={"n": sf.int64}).ignore_errors()
    assert values(ds, "n") == [n for n in range(30) if n not in (11, 20)]
    with ds.start() as it:
        list(it)
        assert it.stats()["ignored"] == 1


def fails_at_20(row):
    if row["n"] == 20:
        raise ValueError("20")
    return {"n": row["n"]}


def test_ignore_errors_tells_what_is_wrong():
    rows = sf.range(9).map(lambda row: row)
    with pytest.raises(ValueError, match="'range' is not one of them"):
        sf.range(9).ignore_errors()
    with pytest.raises(ValueError, match="'flat_map' is not one of them"):
        rows.flat_map(lambda row: [row]).ignore_errors()
    with pytest.raises(ValueError, match="'batch' is not one of them"):
        rows.batch(2).ignore_errors()
    for wrong in ("many", "101%", "nan%", ""):
        with pytest.raises(ValueError, match="max_ignored"):
            rows.ignore_errors(wrong)
    with pytest.raises(ValueError, match="max_ignored must be at least 0"):
        rows.ignore_errors(-1)
    with pytest.raises(TypeError, match="ignore_errors drops elements"):
        len(rows.ignore_errors())

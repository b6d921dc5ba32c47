"""Batches on the stand-in for CUDA's driver: their values, states and errors, and the processes around them."""

import gc
import os
import subprocess
import sys
import threading

import numpy as np
import pytest
from cuda_data import ROWS, driver, ds, rows, same, sf
from harness import REPOSITORY


def test_batches_equal_those_on_the_host(driver, ds):
    view = ds.cuda()
    assert len(view) == len(ds) and repr(view) == f"{ds!r}.cuda(0)"
    count = 0
    for found, wanted in zip(view, ds):
        same(found, wanted)
        image = found["image"]
        assert image.shape == (len(wanted["label"]), 8, 6, 3) and image.dtype == "uint8"
        assert image.nbytes == wanted["image"].nbytes and len(image) == len(wanted["label"])
        assert image.device == 0 and image.lam == 1 and "cuda:0" in repr(image)
        count += 1
    assert count == len(ds)


def test_padding_and_damaged_rows_are_told(driver, tmp_path):
    with sf.write(tmp_path / "a@1") as writer:
        for i in range(20):
            writer.write({"n": i})
    path = tmp_path / "a-00000-of-00001"
    data = bytearray(path.read_bytes())
    data[len(data) // 20 * 6 + 14] ^= 1  # of record 6
    path.write_bytes(data)
    records = sf.read(str(tmp_path / "a@1"), end="pad", skip_damaged=True)
    told = []
    for rank in range(3):
        ds = records.shard(rank, 3).parse({"n": sf.int64}).batch(4)
        with iter(ds) as host, iter(ds.cuda()) as it:
            for _, _ in zip(it, host):
                assert (it.padded, it.damaged) == (host.padded, host.damaged)
                told.append((it.padded, len(it.damaged)))
    assert [sum(numbers) for numbers in zip(*told)] == [1, 1]


def test_several_devices(driver, ds):
    for a, b in zip(ds.cuda(0), ds.cuda(1)):
        assert b["label"].__dlpack_device__() == (2, 1)
        same(a, b)


@pytest.mark.parametrize("dtype, near", [("float32", 1e-5), (np.float16, 2e-2), ("bfloat16", 0)])
def test_images_are_normalized_on_the_device(driver, ds, dtype, near):
    mean, std = (0.4, 0.5, 0.6), (0.1, 0.2, 0.3)
    view = ds.cuda(normalize={"image": sf.Normalize(mean, std, dtype)})
    for found, wanted in zip(view, ds):
        pixels = ((wanted["image"] / 255 - mean) / std).transpose(0, 3, 1, 2)
        image = found["image"].numpy()
        assert image.shape == pixels.shape
        if near:
            assert np.allclose(image, pixels, atol=near)
        else:  # bits
            assert np.allclose((image.astype(np.uint32) << 16).view(np.float32), pixels, atol=0.1)
    plain = next(iter(ds.cuda(normalize={"image": {"layout": "NHWC", "dtype": "float32"}})))
    assert np.allclose(plain["image"].numpy(), next(iter(ds))["image"] / 255)
    one = sf.Normalize(np.float32(0.5), np.array([0.25]), "float32", "NHWC")
    half = next(iter(ds.cuda(normalize={"image": one})))["image"].numpy()
    assert np.allclose(half, (next(iter(ds))["image"] / 255 - 0.5) / 0.25, atol=1e-5)


def test_images_are_mirrored_and_mixed_on_the_device(driver, ds):
    options = {"dtype": "float32", "layout": "NHWC", "seed": 3}
    for found, wanted in zip(ds.cuda(normalize={"image": {**options, "flip": 1}}), ds):
        assert np.allclose(found["image"].numpy(), wanted["image"][:, :, ::-1] / 255)
    for found, wanted in zip(ds.cuda(normalize={"image": {**options, "mixing": "mixup"}}), ds):
        lam, image = found["image"].lam, wanted["image"] / 255
        assert 0 <= lam <= 1
        assert np.allclose(found["image"].numpy(), lam * image + (1 - lam) * np.roll(image, 1, 0),
                           atol=1e-5)


def test_states_count_delivered_batches(driver, ds):
    ds = ds.repeat(2)
    wanted = list(ds)
    with iter(ds.cuda()) as it:
        for _ in range(5):
            next(it)
        state = it.state_dict()
        next(it)
        it.load_state_dict(state)
        same(next(it), wanted[5])
    # Runs on the host and on the device resume from each other's states.
    host = iter(ds)
    host.load_state_dict(state)
    same(next(host), wanted[5])
    with iter(ds.cuda()) as it:
        it.load_state_dict(host.state_dict())
        found = list(it)
        assert len(found) == len(wanted) - 6
        same(found[-1], wanted[-1])
    with pytest.raises(ValueError, match="expected a result of state_dict"):
        iter(ds.cuda()).load_state_dict({})
    with pytest.raises(RuntimeError, match="another chain"):
        iter(ds.cuda()).load_state_dict(iter(rows(3).batch(2)).state_dict())


def test_statistics(driver, ds):
    with iter(ds.cuda()) as it:
        assert len(list(it)) == 7
        stats = it.stats()
        assert stats["batches"] == 7 and stats["rows"] == ROWS and stats["bytes"] > 0
        assert stats["pipeline"]["rows"] == ROWS and "limit" in stats["verdict"]
        assert "7 batches" in repr(it)
    assert it.closed and "closed" in repr(it)
    with pytest.raises(ValueError, match="closed"):
        next(it)


def test_structures(driver, ds):
    pairs = ds.map(lambda b: (b["image"], b["label"]), batched=True)
    for found, (image, label) in zip(pairs.cuda(), pairs):
        assert isinstance(found, tuple)
        assert np.array_equal(found[0].numpy(), image) and np.array_equal(found[1].numpy(), label)
    labels = ds.map(lambda b: b["label"], batched=True)
    assert next(iter(labels.cuda())).shape == (8,)


def test_the_share_of_a_mixed_image(driver, ds):
    with ds.cuda(normalize={"image": {"mixing": "mixup", "seed": 3}}).start() as it:
        assert it.lam == {}
        batch = next(it)
        assert it.lam == {"image": batch["image"].lam} and 0 <= it.lam["image"] <= 1


def test_bytes_are_readable_in_a_child_after_fork(driver, ds):
    batch = next(iter(ds.cuda()))
    child = os.fork()
    if child == 0:
        os._exit(7 if batch["name"].tolist()[7] == b"row 7" else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def test_arrays_outlive_their_iterator(driver, ds):
    it = iter(ds.cuda())
    batch = next(it)
    it.close()
    del it
    gc.collect()
    same(batch, next(iter(ds)))


def test_many_batches_can_be_kept(driver, ds):
    batches = list(ds.cuda())
    for found, wanted in zip(batches, ds):
        same(found, wanted)


def test_threads_take_turns(driver, ds):
    it = iter(ds.cuda())
    found = []

    def take():
        for batch in it:
            found.append(len(batch["label"]))

    threads = [threading.Thread(target=take) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(found) == ROWS


def test_invalid_arguments(driver, ds):
    for make, message in [
            (lambda: rows().cuda(), "elements here are rows"), (lambda: ds.cuda(7), "no CUDA device 7"),
            (lambda: iter(ds.cuda(depth=0)), "depth must be at least 1, not 0"),
            (lambda: iter(ds.cuda(normalize={"photo": {}})), "no column 'photo'"),
            (lambda: iter(ds.cuda(normalize={"label": {}})), "normalize 'label'"),
            (lambda: iter(ds.cuda(normalize={"image": {"layout": "CHWN"}})), "layout must be one of"),
            (lambda: iter(ds.cuda(normalize={"image": {"mean": [1, 2]}})), "normalize 'image'.*mean"),
            (lambda: iter(ds.cuda(normalize={"image": {"flip": 2}})), "normalize 'image'.*flip")]:
        with pytest.raises(ValueError, match=message):
            make()
    for how, message in [
            ({"average": 1}, "got an unexpected keyword argument 'average'"),
            ({"men": 1}, "got an unexpected keyword argument 'men'; did you mean 'mean'[?]"),
            (None, "expected sf.Normalize or a dict of its arguments, not None"),
            (sf.Normalize(mean="a"), "mean must be a number or a list, each a finite number or None, not 'a'"),
            ({"std": np.array(["a"])}, "std must be a number or a list, each a finite number or None, not array"),
            ({"flip": "x"}, "flip must be a number, not 'x'"), ({"layout": 3}, "layout must be a str, not 3")]:
        with pytest.raises(TypeError, match=f"^normalize 'image': {message}"):
            ds.cuda(normalize={"image": how})
    with pytest.raises(ValueError, match="^normalize 'image': type 'half' does not exist"):
        ds.cuda(normalize={"image": {"dtype": "half"}})


def test_errors_of_functions_are_raised(driver):
    def broken(row):
        return {"value": 1 // (row["value"] - 5)}

    ds = sf.range(10).map(broken, output={"value": sf.int64}).batch(2)
    with pytest.raises(ZeroDivisionError):
        list(ds.cuda())


def test_without_a_gpu(ds, monkeypatch):
    monkeypatch.setenv("SHARDFEED_CUDA_DRIVER", "/nowhere/libcuda.so")
    with pytest.raises(OSError, match="no CUDA driver: SHARDFEED_CUDA_DRIVER names "
                                      "'/nowhere/libcuda.so'"):
        ds.cuda()
    assert len(list(ds)) == len(ds)


def test_the_comparison_with_peers_says_why_it_is_skipped(tmp_path):
    (tmp_path / "torch.py").write_text("raise ImportError('none here')")
    done = subprocess.run([sys.executable, REPOSITORY / "benchmarks/cuda_peers.py"], text=True,
                          capture_output=True, env={**os.environ, "PYTHONPATH": str(tmp_path)})
    assert done.returncode == 0, done.stderr
    assert '"skipped": "torch is not installed: none here"' in done.stdout


PROGRAM = """
import os, sys, threading, time, signal
import shardfeed as sf
def slow(row):
    time.sleep(30)
    return row
"""


@pytest.mark.parametrize("rest, out", [
    ("""
threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
it = iter(sf.range(9).map(slow, output={"value": sf.int64}).batch(2).cuda())
began = time.monotonic()
try:
    next(it)
except KeyboardInterrupt:
    print("interrupted", time.monotonic() - began < 5, flush=True)
os._exit(0)
""", "interrupted True"),
    ("""
it = iter(sf.range(1000).map(lambda r: {"v": r["value"]}).batch(2).cuda())
batch = next(it)
print("end")
""", "end"),
    ("""
it = iter(sf.range(1000).batch(2).cuda())
next(it)
sys.stdout.flush()
if os.fork() == 0:
    try:
        next(it)
    except RuntimeError as error:
        print("fork" in str(error), flush=True)
    del it
    sys.exit(0)
os.wait()
next(it)
""", "True"),
    ("""
it = iter(sf.range(1000).batch(2).cuda())
batch = next(it)
capsule = batch["value"].__dlpack__()
if os.fork() == 0:
    array = batch["value"]
    for use in (array.numpy, array.__dlpack__, lambda: array.__cuda_array_interface__):
        try:
            use()
        except RuntimeError as error:
            print("before a fork" in str(error), end=" ", flush=True)
    del batch, array, capsule
    sys.exit(0)
print(os.wait()[1], batch["value"].numpy().tolist())
""", "True True True 0 [0, 1]"),
    ("""
ds = sf.range(1000).batch(2)
def child(use):
    sys.stdout.flush()
    if os.fork() == 0:
        try:
            print(use(), end=" ", flush=True)
        except RuntimeError as error:
            print("which does not work in the child" in str(error), end=" ", flush=True)
        sys.exit(0)
    assert os.wait()[1] == 0
child(lambda: next(iter(ds.cuda()))["value"].numpy().tolist())  # before the parent has used CUDA
view = ds.cuda()
print(next(iter(view))["value"].numpy().tolist(), end=" ")
child(lambda: next(iter(view)))
child(ds.cuda)
child(lambda: next(iter(ds))["value"].tolist())
""", "[0, 1] [0, 1] True True [0, 1]"),
])
def test_processes_end(driver, rest, out):
    done = subprocess.run([sys.executable, "-c", PROGRAM + rest], capture_output=True, text=True,
                          timeout=60, env={**os.environ, "PYTHONPATH": str(REPOSITORY / "python")})
    assert (done.returncode, done.stdout.strip()) == (0, out), done.stderr

"""Batches on a GPU by the package: on the stand-in for CUDA's driver of tests/cuda, which tells of
misuse, and with torch on this machine's GPU where there is one."""

import contextlib
import ctypes
import gc
import os
import pathlib
import subprocess
import sys
import threading
import types

import numpy as np
import pytest
from harness import REPOSITORY

sys.path.insert(0, str(REPOSITORY / "python"))
sf = pytest.importorskip("shardfeed", reason="the package is not built: python/build_package.py")

STAND_IN = pathlib.Path(os.environ.get(
    "SHARDFEED_STAND_IN", REPOSITORY / "bazel-bin/tests/cuda/libcuda_stand_in.so")).resolve()
ROWS = 50


@pytest.fixture
def driver(monkeypatch):
    """The stand-in, which must have nothing to tell of at the end."""
    if not STAND_IN.exists():
        pytest.skip(f"{STAND_IN} is missing: bazel build --config=opt "
                    "//tests/cuda:libcuda_stand_in.so")
    monkeypatch.setenv("SHARDFEED_CUDA_DRIVER", str(STAND_IN))
    library = ctypes.CDLL(str(STAND_IN))
    library.StandInTakeMisuses.restype = ctypes.c_char_p
    library.StandInSetSpeed.argtypes = [ctypes.c_double, ctypes.c_double]
    library.StandInSetSpeed(1e9, 1e-4)
    library.StandInTakeMisuses()
    yield library
    gc.collect()
    assert library.StandInTakeMisuses() == b""


def rows(n=ROWS):
    rng = np.random.default_rng(1)
    lengths = np.arange(n) % 4
    return sf.from_arrays({
        "image": rng.integers(0, 256, (n, 8, 6, 3), np.uint8), "label": np.arange(n) % 5,
        "name": ["row %d" % i for i in range(n)],
        "some": sf.Ragged(np.arange(lengths.sum()), np.concatenate([[0], np.cumsum(lengths)]))})


@pytest.fixture
def ds():
    return rows().batch(8)  # the same in each epoch


def on_host(value):
    if isinstance(value, sf.Ragged):
        return on_host(value.values), on_host(value.row_splits)
    if isinstance(value, sf.BytesArray):
        return value.tolist()
    return value.numpy() if isinstance(value, sf.DeviceArray) else np.asarray(value)


def same(found, wanted):
    assert found.keys() == wanted.keys()
    for name in found:
        np.testing.assert_equal(on_host(found[name]), on_host(wanted[name]))


def test_batches_are_those_of_the_host(driver, ds):
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


def test_devices_are_many(driver, ds):
    for a, b in zip(ds.cuda(0), ds.cuda(1)):
        assert b["label"].__dlpack_device__() == (2, 1)
        same(a, b)


@pytest.mark.parametrize("dtype, near", [("float32", 1e-5), (np.float16, 2e-2), ("bfloat16", 0)])
def test_images_are_normalised_there(driver, ds, dtype, near):
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


def test_images_are_mirrored_and_mixed_there(driver, ds):
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
    # The host's runs and the device's go on from each other's.
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


def test_the_array_interface(driver, ds):
    batch = next(iter(ds.cuda()))
    interface = batch["label"].__cuda_array_interface__
    assert interface["version"] == 3 and interface["typestr"] == "<i8"
    assert interface["shape"] == (8,) and interface["strides"] is None and interface["stream"] == 1
    assert interface["data"][0] != 0 and interface["data"][1] is False
    assert batch["image"].__cuda_array_interface__["typestr"] == "|u1"


def test_the_array_interface_of_nothing(driver):
    empty = sf.Ragged(np.zeros(0, np.int64), np.zeros(5, np.int64))
    batch = next(iter(sf.from_arrays({"some": empty}).batch(4).cuda()))
    assert batch["some"].values.shape == (0,)
    assert batch["some"].values.__cuda_array_interface__["data"] == (0, False)
    assert batch["some"].values.numpy().shape == (0,)
    assert batch["some"].row_splits.numpy().tolist() == [0] * 5


def test_the_per_thread_stream_from_other_threads(driver, ds):
    driver.StandInSetSpeed(1e6, 1e-3)  # so slow that nothing is there by itself
    batch = next(iter(ds.cuda(stream=2)))
    found = []
    thread = threading.Thread(target=lambda: found.append(batch["label"].numpy()))
    thread.start()
    thread.join()
    assert np.array_equal(found[0], next(iter(ds))["label"])
    assert batch["label"].__cuda_array_interface__["stream"] == 1


class DLTensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32),
                ("device_id", ctypes.c_int32), ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8),
                ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]


class ManagedTensor(ctypes.Structure):
    pass


ManagedTensor._fields_ = [("tensor", DLTensor), ("context", ctypes.c_void_p),
                          ("deleter", ctypes.CFUNCTYPE(None, ctypes.POINTER(ManagedTensor)))]


class Consumer:
    """What a framework makes of an array: it takes the capsule, and gives it back by `drop`."""

    def __init__(self, array, stream):
        capsule = array.__dlpack__(stream=stream)
        pointer = ctypes.pythonapi.PyCapsule_GetPointer
        pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
        rename = ctypes.pythonapi.PyCapsule_SetName
        rename.argtypes = [ctypes.py_object, ctypes.c_char_p]
        self.managed = ctypes.cast(pointer(capsule, b"dltensor"), ctypes.POINTER(ManagedTensor))
        rename(capsule, b"used_dltensor")
        self.tensor = self.managed.contents.tensor

    def drop(self):
        self.managed.contents.deleter(self.managed)


class Stream:
    """A stream of device 0, as a framework has its own."""

    def __init__(self, driver):
        self.driver = driver
        context, stream = ctypes.c_void_p(), ctypes.c_void_p()
        assert driver.cuInit(0) == 0
        assert driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
        assert driver.cuCtxPushCurrent_v2(context) == 0
        assert driver.cuStreamCreate(ctypes.byref(stream), 1) == 0
        self.stream = stream
        self.cuda_stream = stream.value
        self.kept = []  # what copies that may be under way write to

    def read(self, tensor):
        shape = [tensor.shape[i] for i in range(tensor.ndim)]
        out = np.empty(shape, {(0, 64): np.int64, (1, 8): np.uint8}[tensor.code, tensor.bits])
        assert self.driver.cuMemcpyDtoHAsync_v2(
            out.ctypes.data_as(ctypes.c_void_p), ctypes.c_uint64(tensor.data),
            ctypes.c_size_t(out.nbytes), self.stream) == 0
        self.kept.append(out)
        return out

    def close(self):
        assert self.driver.cuStreamSynchronize(self.stream) == 0
        assert self.driver.cuStreamDestroy_v2(self.stream) == 0
        context = ctypes.c_void_p()
        assert self.driver.cuCtxPopCurrent_v2(ctypes.byref(context)) == 0
        assert self.driver.cuDevicePrimaryCtxRelease_v2(0) == 0


@pytest.fixture
def stream(driver):
    made = Stream(driver)
    yield made
    made.close()


def test_consumers_streams_wait(driver, stream, ds):
    driver.StandInSetSpeed(1e6, 1e-3)  # so slow that nothing is there by itself
    taken = []
    with iter(ds.cuda()) as it:
        for batch in it:
            consumer = Consumer(batch["label"], stream.cuda_stream)
            assert (consumer.tensor.device_type, consumer.tensor.ndim) == (2, 1)
            taken.append(stream.read(consumer.tensor))
            del batch
            consumer.drop()
    stream.driver.cuStreamSynchronize(stream.stream)
    wanted = [batch["label"] for batch in ds]
    assert all(np.array_equal(a, b) for a, b in zip(taken, wanted, strict=True))


def test_a_stream_that_does_not_wait_is_seen(driver, stream, ds):
    driver.StandInSetSpeed(5e4, 1e-3)
    with iter(ds.cuda()) as it:
        consumer = Consumer(next(it)["label"], -1)
        stream.read(consumer.tensor)
        stream.driver.cuStreamSynchronize(stream.stream)
        consumer.drop()
    assert driver.StandInTakeMisuses() != b""


def test_the_iterators_own_stream(driver, stream, ds):
    for given in (stream, stream.cuda_stream):
        batch = next(iter(ds.cuda(stream=given)))
        assert batch["label"].__cuda_array_interface__["stream"] == stream.cuda_stream
        assert np.array_equal(batch["label"].numpy(), next(iter(ds))["label"])
        del batch
        gc.collect()


def test_capsules_that_nobody_takes(driver, ds):
    batch = next(iter(ds.cuda()))
    assert "dltensor" in repr(batch["image"].__dlpack__())
    batch["image"].__dlpack__(stream=2, max_version=(1, 0), dl_device=(2, 0), copy=False)
    for options, error in [({"stream": 0}, ValueError), ({"stream": -2}, ValueError),
                           ({"stream": "x"}, ValueError), ({"stream": 2**70}, ValueError),
                           ({"copy": True}, BufferError), ({"dl_device": (1, 0)}, BufferError)]:
        with pytest.raises(error):
            batch["image"].__dlpack__(**options)


class View:
    """An array of a framework in the iterator's memory, which it gives back when it is dropped."""

    def __init__(self, array, stream):
        self.consumer = Consumer(array, stream.cuda_stream)

    def __del__(self):
        self.consumer.drop()


class Tensor:
    """A tensor of torch in its own memory."""

    def __init__(self, values):
        self.values, self.shape, self.dtype = values, values.shape, values.dtype

    def copy_(self, view, non_blocking):
        assert non_blocking
        copied = view.clone()
        view.stream.driver.cuStreamSynchronize(view.stream.stream)
        self.values[...] = copied.values
        return self


class TensorView(View):
    """One in the iterator's memory, copied on `stream`, where the values are once it is done."""

    def __init__(self, array, stream):
        super().__init__(array, stream)
        tensor = self.consumer.tensor
        self.stream, self.shape = stream, tuple(tensor.shape[i] for i in range(tensor.ndim))
        self.dtype = np.dtype(array.dtype)

    def clone(self):
        return Tensor(self.stream.read(self.consumer.tensor))


@pytest.fixture
def torch(stream, monkeypatch):
    """torch as far as it matters here, with `stream` as its current one."""
    made = types.ModuleType("torch")
    made.cuda = types.SimpleNamespace(
        Stream=Stream, current_stream=lambda device: stream,
        stream=lambda given: contextlib.nullcontext(made.entered.append(given)),
        ExternalStream=lambda handle, device: (handle, device))
    made.entered = []
    made.utils = types.ModuleType("torch.utils")
    made.utils.dlpack = types.SimpleNamespace(from_dlpack=lambda array: TensorView(array, stream))
    monkeypatch.setitem(sys.modules, "torch", made)
    monkeypatch.setitem(sys.modules, "torch.utils", made.utils)
    return made


def test_torch_gets_tensors_of_its_own(driver, stream, ds, torch):
    driver.StandInSetSpeed(1e6, 1e-3)  # so slow that nothing is there by itself
    with ds.cuda().torch().start() as it:
        found = list(it)  # all are kept, and the iterator needs no more than its buffers
        assert it.stats()["buffers"] <= 3
    driver.cuStreamSynchronize(stream.stream)
    for batch, wanted in zip(found, ds, strict=True):
        assert np.array_equal(batch["label"].values, wanted["label"])
        assert np.array_equal(batch["some"].row_splits.values, wanted["some"].row_splits)
        assert batch["name"].tolist() == wanted["name"].tolist()
    assert torch.entered == []
    list(ds.take(1).cuda(stream=stream).torch())
    assert torch.entered[0] is stream
    with pytest.raises(TypeError, match="expected a CUDA stream"):
        ds.cuda(stream="mine")


def test_torch_tensors_to_copy_to(driver, stream, ds, torch):
    out = [{"label": Tensor(np.zeros(8, np.int64))} for _ in range(2)]
    places = []
    for found, wanted in zip(ds.take(5).cuda().torch(out=out), ds):
        assert np.array_equal(found["label"].values, wanted["label"])
        driver.cuStreamSynchronize(stream.stream)
        assert np.array_equal(found["image"].values, wanted["image"])  # a new tensor
        places.append(found["label"])
    assert places == [out[i % 2]["label"] for i in range(5)]
    with pytest.raises(ValueError, match=r"out\['label'\]: expected a tensor \(2,\) of int64, "
                                         r"got \(8,\).*drop_remainder"):
        list(ds.cuda().torch(out=out[0]))
    for wrong, error, message in [
            ({"label": Tensor(np.zeros(8))}, ValueError, "of float64"),
            ({"price": out[0]}, ValueError, "column 'price' of out does not exist; the columns are"),
            ({"some": out[0]}, TypeError, "the column is Ragged"),
            ([3], TypeError, "not int")]:
        with pytest.raises(error, match=message):
            list(ds.cuda().torch(out=wrong))
    labels = ds.map(lambda b: b["label"], batched=True)
    with pytest.raises(TypeError, match="no dicts"):
        list(labels.cuda().torch(out=out))
    driver.cuStreamSynchronize(stream.stream)


class Jax:
    """JAX as far as arrays on a GPU go: it has the values in place on one stream, computes on a
    second one behind that, and tells nobody of it."""

    def __init__(self, driver, external, compute):
        self.driver, self.external, self.compute = driver, external, compute
        self.dlpack = self.numpy = self
        self.events = []

    def event(self, stream):
        event = ctypes.c_void_p()
        assert self.driver.cuEventCreate(ctypes.byref(event), 0) == 0
        assert self.driver.cuEventRecord(event, stream.stream) == 0
        self.events.append(event)
        return event

    def from_dlpack(self, array):
        view = View(array, self.external)
        assert self.driver.cuStreamWaitEvent(self.compute.stream, self.event(self.external), 0) == 0
        return view

    def copy(self, view):
        copied = self.compute.read(view.consumer.tensor)
        event = self.event(self.compute)
        driver = self.driver

        class Array:
            values = copied

            def is_ready(self):
                return driver.cuEventQuery(event) == 0

            def block_until_ready(self):
                assert driver.cuEventSynchronize(event) == 0

        return Array()

    def close(self):
        for event in self.events:
            assert self.driver.cuEventDestroy_v2(event) == 0


@pytest.mark.parametrize("depth", [1, 2, 4])
def test_jax_computes_on_a_stream_that_nobody_knows(driver, stream, ds, monkeypatch, depth):
    compute = Stream(driver)
    jax = Jax(driver, stream, compute)
    monkeypatch.setitem(sys.modules, "jax", jax)
    driver.StandInSetSpeed(1e6, 1e-3)
    found = []
    for _ in range(2):  # to the end, and left behind
        for batch in ds.cuda(depth=depth).jax():
            found.append(batch)
            if len(found) == 11:
                break
        del batch
        gc.collect()
    driver.cuStreamSynchronize(compute.stream)
    wanted = [*ds, *ds][:11]
    for batch, host in zip(found, wanted, strict=True):
        assert np.array_equal(batch["label"].values, host["label"])
        assert np.array_equal(batch["some"].values.values, host["some"].values)
    assert driver.StandInTakeMisuses() == b""
    jax.close()
    compute.close()


def test_a_stream_behind_the_one_that_is_known_must_be_named(driver, stream, ds):
    second = Stream(driver)
    jax = Jax(driver, stream, second)
    for named in (False, True):
        driver.StandInSetSpeed(1e6, 1e-3)
        with iter(ds.cuda()) as it:
            for batch in it:
                if named:
                    batch["label"].use(second)
                view = jax.from_dlpack(batch["label"])
                second.read(view.consumer.tensor)
                del batch, view
        driver.cuStreamSynchronize(second.stream)
        assert (driver.StandInTakeMisuses() == b"") == named
    jax.close()
    second.close()


class HandleOnly:
    def __init__(self, handle):
        self.handle = ctypes.c_void_p(handle)


class Protocol:
    def __init__(self, handle):
        self.pair = (0, handle)

    def __cuda_stream__(self):
        return self.pair


def test_streams_of_anyone(driver, stream, ds):
    batch = next(iter(ds.cuda()))
    for given in (stream, stream.cuda_stream, Protocol(stream.cuda_stream),
                  HandleOnly(stream.cuda_stream), None, 1):
        batch["label"].use(given)
    for wrong in ("stream", 1.5, object(), [1]):
        with pytest.raises(TypeError, match="expected a CUDA stream"):
            batch["label"].use(wrong)
        with pytest.raises(TypeError, match="expected a CUDA stream"):
            ds.cuda(stream=wrong)


def test_the_share_of_a_mixed_image(driver, ds):
    with ds.cuda(normalize={"image": {"mixing": "mixup", "seed": 3}}).start() as it:
        assert it.lam == {}
        batch = next(it)
        assert it.lam == {"image": batch["image"].lam} and 0 <= it.lam["image"] <= 1


def test_bytes_are_there_in_a_child_after_fork(driver, ds):
    batch = next(iter(ds.cuda()))
    child = os.fork()
    if child == 0:
        os._exit(7 if batch["name"].tolist()[7] == b"row 7" else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def test_torch_on_a_gpu(ds):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    if not torch.cuda.is_available():
        pytest.skip("there is no GPU that torch sees")
    for found, wanted in zip(ds.cuda().torch(), ds):
        assert found["image"].is_cuda
        assert np.array_equal(found["image"].cpu().numpy(), wanted["image"])


def test_torch_captures_a_graph_beside_on_a_gpu():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    if not torch.cuda.is_available():
        pytest.skip("there is no GPU that torch sees")
    ds = rows(400).batch(8)
    image = torch.zeros(8, 8, 6, 3, dtype=torch.uint8, device="cuda")
    with ds.cuda().torch(out={"image": image}).start() as it:
        next(it)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):  # while the iterator's thread is at work
            total = image.long().sum()
        for found, wanted in zip(it, list(ds)[1:]):
            graph.replay()
            assert total.item() == wanted["image"].astype(np.int64).sum()


def test_jax_on_a_gpu(ds):
    jax = pytest.importorskip("jax", reason="jax is not installed")
    if jax.default_backend() != "gpu":
        pytest.skip("there is no GPU that JAX sees")
    step = jax.jit(lambda x: x.astype("int32").sum())
    sums = [step(batch["image"]) for batch in ds.cuda().jax()]
    for found, wanted in zip(sums, ds, strict=True):
        assert int(found) == wanted["image"].astype(np.int64).sum()


def test_arrays_outlive_their_iterator(driver, ds):
    it = iter(ds.cuda())
    batch = next(it)
    it.close()
    del it
    gc.collect()
    same(batch, next(iter(ds)))


def test_many_batches_are_kept(driver, ds):
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


def test_what_cannot_be(driver, ds):
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
    with pytest.raises(TypeError):
        ds.cuda(normalize={"image": {"average": 1}})


def test_functions_errors_come_through(driver):
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


def test_the_comparison_with_peers_tells_why_it_is_skipped(tmp_path):
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
])
def test_processes_end(driver, rest, out):
    done = subprocess.run([sys.executable, "-c", PROGRAM + rest], capture_output=True, text=True,
                          timeout=60, env={**os.environ, "PYTHONPATH": str(REPOSITORY / "python")})
    assert (done.returncode, done.stdout.strip()) == (0, out), done.stderr

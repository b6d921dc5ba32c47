"""Arrays on the stand-in for CUDA's driver that frameworks use on streams of their own."""

import contextlib
import ctypes
import gc
import sys
import threading
import types

import numpy as np
import pytest
from cuda_data import driver, ds, sf


def test_the_array_interface(driver, ds):
    batch = next(iter(ds.cuda()))
    interface = batch["label"].__cuda_array_interface__
    assert interface["version"] == 3 and interface["typestr"] == "<i8"
    assert interface["shape"] == (8,) and interface["strides"] is None and interface["stream"] == 1
    assert interface["data"][0] != 0 and interface["data"][1] is False
    assert batch["image"].__cuda_array_interface__["typestr"] == "|u1"


def test_the_array_interface_of_an_empty_array(driver):
    empty = sf.Ragged(np.zeros(0, np.int64), np.zeros(5, np.int64))
    batch = next(iter(sf.from_arrays({"some": empty}).batch(4).cuda()))
    assert batch["some"].values.shape == (0,)
    assert batch["some"].values.__cuda_array_interface__["data"] == (0, False)
    assert batch["some"].values.numpy().shape == (0,)
    assert batch["some"].row_splits.numpy().tolist() == [0] * 5


def test_the_per_thread_stream_from_other_threads(driver, ds):
    driver.StandInSetSpeed(1e6, 1e-3)  # so slow that values are in place only after a wait
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
    """A framework's view of an array: takes the capsule, and releases it in `drop`."""

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
    """A stream of device 0, such as a framework's own."""

    def __init__(self, driver):
        self.driver = driver
        context, stream = ctypes.c_void_p(), ctypes.c_void_p()
        assert driver.cuInit(0) == 0
        assert driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
        assert driver.cuCtxPushCurrent_v2(context) == 0
        assert driver.cuStreamCreate(ctypes.byref(stream), 1) == 0
        self.stream = stream
        self.cuda_stream = stream.value
        self.kept = []  # destinations of copies that may be in progress

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
    driver.StandInSetSpeed(1e6, 1e-3)  # so slow that values are in place only after a wait
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


def test_a_stream_that_does_not_wait_is_a_misuse(driver, stream, ds):
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


def test_capsules_that_are_not_consumed(driver, ds):
    batch = next(iter(ds.cuda()))
    assert "dltensor" in repr(batch["image"].__dlpack__())
    batch["image"].__dlpack__(stream=2, max_version=(1, 0), dl_device=(2, 0), copy=False)
    for options, error in [({"stream": 0}, ValueError), ({"stream": -2}, ValueError),
                           ({"stream": "x"}, ValueError), ({"stream": 2**70}, ValueError),
                           ({"copy": True}, BufferError), ({"dl_device": (1, 0)}, BufferError)]:
        with pytest.raises(error):
            batch["image"].__dlpack__(**options)


class View:
    """A framework's array in the iterator's memory, which is released with it."""

    def __init__(self, array, stream):
        self.consumer = Consumer(array, stream.cuda_stream)

    def __del__(self):
        self.consumer.drop()


class Tensor:
    """A torch tensor in memory of its own."""

    def __init__(self, values):
        self.values, self.shape, self.dtype = values, values.shape, values.dtype

    def copy_(self, view, non_blocking):
        assert non_blocking
        copied = view.clone()
        view.stream.driver.cuStreamSynchronize(view.stream.stream)
        self.values[...] = copied.values
        return self


class TensorView(View):
    """A torch tensor in the iterator's memory; copies run on `stream`."""

    def __init__(self, array, stream):
        super().__init__(array, stream)
        tensor = self.consumer.tensor
        self.stream, self.shape = stream, tuple(tensor.shape[i] for i in range(tensor.ndim))
        self.dtype = np.dtype(array.dtype)

    def clone(self):
        return Tensor(self.stream.read(self.consumer.tensor))


@pytest.fixture
def torch(stream, monkeypatch):
    """The parts of torch that are used, with `stream` as its current stream."""
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
    driver.StandInSetSpeed(1e6, 1e-3)  # so slow that values are in place only after a wait
    with ds.cuda().torch().start() as it:
        found = list(it)  # keeps all, though the iterator needs only its buffers
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
            ({"some": out[0]}, TypeError, "the column is a Ragged"),
            ([3], TypeError, "not int")]:
        with pytest.raises(error, match=message):
            list(ds.cuda().torch(out=wrong))
    labels = ds.map(lambda b: b["label"], batched=True)
    with pytest.raises(TypeError, match="are not dicts"):
        list(labels.cuda().torch(out=out))
    driver.cuStreamSynchronize(stream.stream)


class Jax:
    """The parts of JAX that handle arrays on a GPU: values are in place on one stream, but it computes
    on a second one that waits for the first, which shardfeed cannot know."""

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
def test_jax_computes_on_an_unknown_stream(driver, stream, ds, monkeypatch, depth):
    compute = Stream(driver)
    jax = Jax(driver, stream, compute)
    monkeypatch.setitem(sys.modules, "jax", jax)
    driver.StandInSetSpeed(1e6, 1e-3)
    found = []
    for _ in range(2):  # to the end, and abandoned in the middle
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


def test_a_stream_that_waits_for_a_known_one_must_be_named(driver, stream, ds):
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


def test_streams_of_all_kinds(driver, stream, ds):
    batch = next(iter(ds.cuda()))
    for given in (stream, stream.cuda_stream, Protocol(stream.cuda_stream),
                  HandleOnly(stream.cuda_stream), None, 1):
        batch["label"].use(given)
    for wrong in ("stream", 1.5, object(), [1]):
        with pytest.raises(TypeError, match="expected a CUDA stream"):
            batch["label"].use(wrong)
        with pytest.raises(TypeError, match="expected a CUDA stream"):
            ds.cuda(stream=wrong)

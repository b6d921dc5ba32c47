"""Batches on this machine's GPU, as PyTorch, JAX, CuPy and Numba take them. Each test is skipped where its
framework is not installed or sees no GPU; scripts/gpu_check takes this file to a machine that has one."""

import gc
import os
import threading

import numpy as np
import pytest

sf = pytest.importorskip("shardfeed", reason="the package is not built: python/build_package.py")

ROWS = 400
CYCLES = 20_000_000  # of a kernel that does nothing: about 10 ms


def rows(n=ROWS, size=64):
    rng = np.random.default_rng(1)
    lengths = np.arange(n) % 4
    return sf.from_arrays({
        "image": rng.integers(0, 256, (n, size, size, 3), np.uint8), "label": np.arange(n) % 5,
        "weight": rng.random(n, np.float32), "name": ["row %d" % i for i in range(n)],
        "some": sf.Ragged(np.arange(lengths.sum()), np.concatenate([[0], np.cumsum(lengths)]))})


@pytest.fixture
def ds():
    return rows().batch(32)  # the same in each epoch


@pytest.fixture
def torch():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    if not torch.cuda.is_available():
        pytest.skip("torch sees no GPU")
    return torch


@pytest.fixture
def jax():
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    jax = pytest.importorskip("jax", reason="JAX is not installed")
    if jax.default_backend() != "gpu":
        pytest.skip("JAX sees no GPU")
    jax.config.update("jax_enable_x64", True)
    return jax


@pytest.fixture
def cupy():
    cupy = pytest.importorskip("cupy", reason="CuPy is not installed")
    try:
        cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        pytest.skip(f"CuPy sees no GPU: {error}")
    return cupy


def check(found, wanted):
    """Compares a batch of torch's or JAX's arrays with the batch on the host."""
    def on_host(value):
        return value.cpu().numpy() if hasattr(value, "cpu") else np.asarray(value)

    assert found.keys() == wanted.keys()
    for name in ("image", "label", "weight"):
        np.testing.assert_array_equal(on_host(found[name]), wanted[name])
    np.testing.assert_array_equal(on_host(found["some"].values), wanted["some"].values)
    np.testing.assert_array_equal(on_host(found["some"].row_splits), wanted["some"].row_splits)
    assert found["name"].tolist() == wanted["name"].tolist()


def sums(dataset):
    return [batch["image"].astype(np.int64).sum() for batch in dataset]


@pytest.mark.parametrize("depth", [1, 2, 4])
def test_torch_gets_all_columns(torch, ds, depth):
    kept = []
    for found, wanted in zip(ds.cuda(depth=depth).torch(), ds, strict=True):
        assert found["image"].is_cuda
        check(found, wanted)
        kept.append(found)
    for found, wanted in zip(kept, ds, strict=True):  # of torch's allocator, not the iterator's
        check(found, wanted)


def test_a_slow_consumer_never_sees_a_later_batch(torch, ds):
    found = []
    with ds.repeat(3).cuda().torch().start() as it:
        for batch in it:
            torch.cuda._sleep(CYCLES)
            found.append(batch["image"].long().sum())
            del batch
    assert [total.item() for total in found] == sums(ds) * 3


def test_record_stream_on_a_second_stream(torch, ds):
    second = torch.cuda.Stream()
    found = []
    for batch in ds.repeat(3).cuda().torch():
        image = batch["image"]
        second.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(second):
            torch.cuda._sleep(CYCLES)
            found.append(image.long().sum())
        image.record_stream(second)
        del batch, image
    second.synchronize()
    assert [total.item() for total in found] == sums(ds) * 3


def test_a_stream_of_torch_for_the_iterator(torch, ds):
    stream = torch.cuda.Stream()
    found = []
    for batch in ds.cuda(stream=stream).torch():
        with torch.cuda.stream(stream):
            torch.cuda._sleep(CYCLES)
            found.append(batch["image"].long().sum())
    stream.synchronize()
    assert [total.item() for total in found] == sums(ds)


@pytest.mark.parametrize("mode", ["global", "thread_local", "relaxed"])
def test_a_graph_is_captured_meanwhile(torch, mode):
    ds = rows().batch(32, drop_remainder=True)
    image = torch.zeros(32, 64, 64, 3, dtype=torch.uint8, device="cuda")
    with ds.repeat(4).cuda().torch(out={"image": image}).start() as it:
        next(it)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, capture_error_mode=mode):  # while the iterator's thread works
            total = image.long().sum()
        found = []
        for _ in it:
            graph.replay()
            found.append(total.clone())
    assert [one.item() for one in found] == (sums(ds) * 4)[1:]


def test_a_batch_cannot_be_taken_within_a_capture(torch, ds):
    with ds.cuda().torch().start() as it:
        next(it)
        graph = torch.cuda.CUDAGraph()
        with pytest.raises(RuntimeError, match="captur"):
            with torch.cuda.graph(graph):
                next(it)
        torch.cuda.synchronize()
        check(next(it), list(ds)[1])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_normalized_images_equal_torchs(torch, ds, dtype, layout):
    mean, std = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
    view = ds.cuda(normalize={"image": sf.Normalize(mean, std, dtype, layout)}).torch()
    near = {"float16": 2e-3, "bfloat16": 2e-2, "float32": 2e-6}[dtype]
    for found, wanted in zip(view, ds, strict=True):
        pixels = (wanted["image"].astype(np.float64) / 255 - mean) / std
        pixels = pixels.transpose(0, 3, 1, 2) if layout == "NCHW" else pixels
        assert found["image"].dtype == getattr(torch, dtype)
        np.testing.assert_allclose(found["image"].double().cpu().numpy(), pixels, atol=near)


def test_flips_and_mixing_equal_the_definition(torch, ds):
    options = {"dtype": "float32", "layout": "NHWC", "seed": 3}
    for found, wanted in zip(ds.cuda(normalize={"image": {**options, "flip": 1}}).torch(), ds):
        np.testing.assert_allclose(found["image"].cpu().numpy(), wanted["image"][:, :, ::-1] / 255,
                                   atol=1e-6)
    with ds.cuda(normalize={"image": {**options, "mixing": "mixup"}}).torch().start() as it:
        for found, wanted in zip(it, ds):
            lam, image = it.lam["image"], wanted["image"] / 255
            np.testing.assert_allclose(found["image"].cpu().numpy(),
                                       lam * image + (1 - lam) * np.roll(image, 1, 0), atol=1e-5)


def test_iterators_of_several_threads(torch, ds):
    wanted = sums(ds) * 5
    found = {}

    def work(number):
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            found[number] = [batch["image"].long().sum().item() for batch in
                             ds.repeat(5).cuda().torch()]

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [found.get(i) for i in range(4)] == [wanted] * 4


def test_a_resumed_run_goes_on_where_it_was(torch, ds):
    with ds.cuda().torch().start() as it:
        for _ in range(5):
            next(it)
        state = it.state_dict()
    with ds.cuda().torch().start() as it:
        it.load_state_dict(state)
        for found, wanted in zip(it, list(ds)[5:], strict=True):
            check(found, wanted)


def test_the_memory_is_returned(torch, ds):
    def free():
        gc.collect()
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        return torch.cuda.mem_get_info()[0]

    list(ds.cuda())
    before = free()
    for i in range(20):  # to the end, and abandoned
        with ds.cuda().torch().start() as it:
            for batch in it:
                if i % 2:
                    break
        del batch
    assert free() >= before - (8 << 20)


def test_what_the_pipeline_makes_is_pinned(torch, tmp_path):
    with sf.write(tmp_path / "a@2") as writer:
        for i in range(ROWS):
            writer.write({"x": np.full(4096, i, np.float32)})
    ds = sf.read(str(tmp_path / "a@2")).parse({"x": sf.fixed((4096,), "float32")}).batch(32)
    with ds.repeat(3).cuda().torch().start() as it:
        for _, wanted in zip(it, ds.repeat(3)):
            pass
        stats = it.stats()
    assert stats["pinned"]["bytes"] > 0 and stats["staged_bytes"] == 0
    with rows().batch(32).cuda().torch().start() as it:  # a view of the caller's arrays
        for _ in it:
            pass
        stats = it.stats()
    assert stats["staged_bytes"] == stats["bytes"]


def test_a_full_device_is_told_and_survived(torch):
    ds = rows(64, 512).batch(64)  # 50 MB
    with ds.cuda().torch().start() as it:
        next(it)  # whatever the first batch of a process takes is there
    gc.collect()
    torch.cuda.empty_cache()
    free = torch.cuda.mem_get_info()[0]
    hogs = []
    while True:  # until only 24 MiB are free
        size = torch.cuda.mem_get_info()[0] - (24 << 20)
        if size <= 0:
            break
        try:
            hogs.append(torch.empty(size, dtype=torch.uint8, device="cuda"))
        except torch.OutOfMemoryError:
            break
    it = ds.cuda().start()
    state = it.state_dict()
    try:
        with pytest.raises(OSError, match="cannot allocate a buffer of 52428800 bytes on device 0 .*"
                                          "cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY.*smaller batches"):
            next(it)
    finally:
        hogs.clear()
        torch.cuda.empty_cache()
    assert torch.cuda.mem_get_info()[0] > free // 2
    it.load_state_dict(state)
    np.testing.assert_array_equal(next(it)["image"].numpy(), next(iter(ds))["image"])


def test_a_child_after_fork_is_refused(torch, ds):
    with ds.cuda().torch().start() as it:
        batch = next(it)
        child = os.fork()
        if child == 0:
            try:
                next(it)
            except RuntimeError as error:
                os._exit(0 if "fork" in str(error) else 2)
            except BaseException:
                os._exit(3)
            os._exit(1)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 0
        host = list(ds)
        check(batch, host[0])
        for found, wanted in zip(it, host[1:], strict=True):
            check(found, wanted)


@pytest.mark.parametrize("depth", [1, 2, 4])
def test_jax_gets_all_columns(jax, ds, depth):
    step = jax.jit(lambda x: x.astype("int64").sum())
    found, kept = [], []
    for batch, wanted in zip(ds.repeat(2).cuda(depth=depth).jax(), ds.repeat(2), strict=True):
        check(batch, wanted)
        kept.append(batch["image"])
    for batch in ds.repeat(2).cuda(depth=depth).jax():
        found.append(step(batch["image"]))
        del batch
    assert [int(total) for total in found] == sums(ds) * 2
    assert [int(np.asarray(image, np.int64).sum()) for image in kept] == sums(ds) * 2


def test_jax_gets_global_arrays(jax):
    ds = rows().batch(32, drop_remainder=True).select("image", "label")
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:1]), ("data",))
    sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("data"))
    for view in (ds.jax(sharding=sharding), ds.cuda().jax(sharding=sharding)):
        for found, wanted in zip(view, ds, strict=True):
            assert found["image"].sharding == sharding
            np.testing.assert_array_equal(np.asarray(found["image"]), wanted["image"])
            np.testing.assert_array_equal(np.asarray(found["label"]), wanted["label"])


def test_cupy_reads_the_iterators_memory(cupy, ds):
    stream = cupy.cuda.Stream(non_blocking=True)
    found = []
    with stream:
        for batch in ds.repeat(3).cuda():
            array = cupy.from_dlpack(batch["image"])
            found.append(array.astype(cupy.int64).sum())
            del batch, array
    stream.synchronize()
    assert [int(total) for total in found] == sums(ds) * 3
    assert cupy.from_dlpack(next(iter(ds.cuda()))["label"]).dtype == np.int64


def test_numba_reads_the_iterators_memory(ds):
    cuda = pytest.importorskip("numba.cuda", reason="Numba is not installed")
    if not cuda.is_available():
        pytest.skip("Numba sees no GPU")
    for batch, wanted in zip(ds.cuda(), ds, strict=True):
        array = cuda.as_cuda_array(batch["image"])
        np.testing.assert_array_equal(array.copy_to_host(), wanted["image"])
        del array, batch

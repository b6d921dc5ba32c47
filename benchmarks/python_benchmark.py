"""Measures the cost of Python: iteration beside the C++ chain, raw records beside other readers, and memory.

    python benchmarks/python_benchmark.py [--quick] [PART...]

PART: import, batches, raw_images, images, webdataset, packing, mixtures, writing, tf_data, tfrecord, array_record, dali,
processes, iterators, soak; by default all. Runs in a Python that has the package (built by python/build_package.py); TensorFlow, tfrecord,
array_record and DALI are measured if they are installed. Each figure is a median over rounds that alternate with
its reference in one process; data comes from the page cache.
"""

import argparse
import gc
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "python"))
os.environ["CUDA_VISIBLE_DEVICES"] = ""
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import numpy as np

import shardfeed as sf


def same(batch):
    """Returns its argument; processes import it."""
    return batch


def seconds(run):
    began = time.perf_counter()
    result = run()
    return time.perf_counter() - began, result


def compare(what, rounds, **runs):
    """Alternates between the runs, which must all return the same. Prints the medians and their ratios to the last
    one, with the lowest and highest of the rounds."""
    taken = {name: [] for name in runs}
    results = {}
    for round in range(rounds + 1):  # the first warms up
        for name, run in runs.items():
            gc.collect()
            took, results[name] = seconds(run)
            if round:
                taken[name].append(took)
    reference = list(runs)[-1]
    assert len(set(map(repr, results.values()))) == 1, results
    for name in list(runs)[:-1]:
        ratios = sorted(r / t for t, r in zip(taken[name], taken[reference]))
        print(f"{what}: {name} is {statistics.median(ratios):.2f} ({ratios[0]:.2f} to "
              f"{ratios[-1]:.2f}) times as fast as {reference}; "
              f"{1e3 * statistics.median(taken[name]):.1f} and "
              f"{1e3 * statistics.median(taken[reference]):.1f} ms", flush=True)


def import_time(folder, quick):
    """Import time of the package, in addition to NumPy's."""
    code = ("import time, numpy; began = time.perf_counter(); import shardfeed; "
            "print(time.perf_counter() - began)")
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed package is compiled
    subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, env=environment)
    taken = [float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                                  check=True, env=environment).stdout) * 1e3
             for _ in range(5 if quick else 15)]
    print(f"import shardfeed, beyond NumPy: {statistics.median(taken):.1f} ms "
          f"({min(taken):.1f} to {max(taken):.1f}); promised below 30")


def write_small(folder, records):
    spec = f"{folder}/small@4"
    rng = np.random.default_rng(0)
    x = rng.normal(size=(records, 50)).astype(np.float32)
    with sf.write(spec, sync=False) as writer:
        for i in range(records):
            writer.write({"x": x[i], "y": i})
    return spec


def write_jpegs(folder, records):
    """Images of 256 x 256 pixels, encoded by Pillow."""
    import io

    from PIL import Image
    rng = np.random.default_rng(0)
    spec = f"{folder}/images@2"
    with sf.write(spec, sync=False) as writer:
        for _ in range(records):
            pixels = np.kron(rng.integers(0, 255, size=(32, 32, 3)), np.ones((8, 8, 1)))
            file = io.BytesIO()
            Image.fromarray(pixels.astype(np.uint8)).save(file, "JPEG", quality=90)
            writer.write({"image/encoded": file.getvalue(), "label": 1})
    return spec


def beside_the_chain(what, spec, chain, quick):
    """Runs the same chain with its batches delivered to Python, and in C++ alone. Epochs are repeated until a run
    takes a second, so that its start-up does not matter."""
    def run(ds):
        return sum(1 for _ in ds)

    def make(epochs):
        return chain(sf.read(spec).repeat(epochs)).with_options(
            threads=len(os.sched_getaffinity(0)))

    epochs, took = 1, 0.0
    while took < (0.2 if quick else 1):
        epochs *= 2
        took, _ = seconds(lambda: run(make(epochs)))
    ds = make(epochs)

    def cpp():
        # Batches are skipped at the end of the chain: they are made, but Python never sees them.
        last = len(ds) - 1
        return last + run(ds.skip(last))

    compare(f"{what}, {epochs} epochs", 3 if quick else 7, Python=lambda: run(ds),
            **{"the chain in C++": cpp})


def batches(folder, quick):
    beside_the_chain("parsed records of 230 B, batches of 1,024", write_small(folder, 200_000),
                     lambda ds: ds.parse({"x": sf.fixed(50), "y": sf.int64}).batch(1024), quick)


def raw_images(folder, quick):
    with sf.write(f"{folder}/raw@2", sync=False) as writer:
        for row in np.random.default_rng(0).integers(0, 255, size=(64, 224 * 224 * 3),
                                                     dtype=np.uint8):
            writer.write({"image": row.tobytes(), "label": 1})
    features = {"image": sf.fixed([224, 224, 3], "uint8", raw=True), "label": sf.int64}
    beside_the_chain("raw images, batches of 32", f"{folder}/raw@2",
                     lambda ds: ds.parse(features).batch(32), quick)


def images(folder, quick):
    beside_the_chain("JPEGs to crops of 224, batches of 32", write_jpegs(folder, 128),
                     lambda ds: ds.decode_image(size=224, crop="random").batch(32), quick)


def webdataset(folder, quick):
    """Tar archives in WebDataset's layout, read in place, beside our TFRecord shards of the same payloads: records and
    parsed columns, in order and exactly shuffled. Both indexes exist."""
    import io
    import tarfile
    for size, name in ((100 << 10, "large"), (2 << 10, "small")):
        rng = np.random.default_rng(0)
        payloads = [rng.bytes(size) for _ in range((128 << 20 if quick else 512 << 20) // (size + 1024))]
        with sf.write(f"{folder}/{name}@4", sync=False) as writer:
            for n, payload in enumerate(payloads):
                writer.write({"__key__": b"%08d" % n, "cls": b"%d" % (n % 1000), "jpg": payload})
        quarter = -(-len(payloads) // 4)
        for shard in range(4):
            with tarfile.open(f"{folder}/{name}-{shard}.tar", "w") as tar:
                for n, payload in enumerate(payloads[shard * quarter:(shard + 1) * quarter], shard * quarter):
                    for ending, content in (("cls", b"%d" % (n % 1000)), ("jpg", payload)):
                        info = tarfile.TarInfo(f"{n:08}.{ending}")
                        info.size = len(content)
                        tar.addfile(info, io.BytesIO(content))
        tars = f"{folder}/{name}-{{0..3}}.tar"
        sf.index(tars)
        features = {"jpg": sf.bytes, "cls": sf.bytes}

        def epoch(spec, window, features=features):
            ds = sf.read(spec)
            if window != 0:
                ds = ds.shuffle(seed=1, window=window)
            ds = ds.parse(features).batch(64)
            return lambda: sum(len(batch["jpg"]) for batch in ds)

        for order, window in (("in order", 0), ("exactly shuffled", None)):
            compare(f"{name} samples of {size >> 10} KiB, {order}", 5 if quick else 9,
                    **{"tar in place": epoch(tars, window), "TFRecord": epoch(f"{folder}/{name}@4", window)})


def packing(folder, quick):
    """Rows of 4,096 tokens from documents of 512 on average (2 KiB as int32): planned from the indexes, as they come,
    and the parsed documents alone. Then Grain's first-fit packing, if it is installed, of the same tokens in an
    ArrayRecord file."""
    rng = np.random.default_rng(0)
    documents = 40_000 if quick else 200_000
    lengths = np.clip(rng.lognormal(5.7, 1.0, documents).astype(int), 1, 4096)
    spec = f"{folder}/tokens@8"
    with sf.write(spec, sync=False) as writer:
        for length in lengths:
            writer.write({"tokens": rng.integers(0, 1 << 15, length)})
    sf.index(spec, lengths=["tokens"])
    total = int(lengths.sum())
    read = sf.read(spec).shuffle(seed=1).parse({"tokens": sf.var(sf.int64)})

    def planned(**options):
        ds = read.pack("tokens", 4096, lengths="tokens", **options).batch(16)
        return lambda: sum(int(np.count_nonzero(batch["tokens_segment_ids"])) for batch in ds)

    def as_they_come():
        return sum(int(np.count_nonzero(batch["tokens_segment_ids"])) for batch in read.pack("tokens", 4096).batch(16))

    def parsed():
        return sum(len(batch["tokens"].values) for batch in read.batch(128))

    for options in ({}, {"how": "concatenate"}):
        rows = len(read.pack("tokens", 4096, lengths="tokens", **options))
        print(f"packing by a plan{options or ''}: rows are {100 * total / rows / 4096:.1f} % full")
    rows = sum(1 for _ in read.pack("tokens", 4096))
    print(f"packing as documents come: rows are {100 * total / rows / 4096:.1f} % full")
    rounds = 3 if quick else 7
    compare(f"{documents} documents", rounds, **{"packing by a plan": planned(), "concatenating by a plan":
                                                planned(how="concatenate"), "packing as they come": as_they_come,
                                                "parsing alone": parsed})
    try:
        import grain.python as grain
        from array_record.python import array_record_module
        from grain import experimental
    except ImportError as error:
        print(f"packing: Grain is not installed: {error}")
        return
    path = f"{folder}/tokens.array_record"
    writer = array_record_module.ArrayRecordWriter(path, "group_size:1")
    for row in sf.read(spec).parse({"tokens": sf.var(sf.int64)}):
        writer.write(row["tokens"].astype(np.int32).tobytes())
    writer.close()

    def grains():
        source = (grain.MapDataset.source(grain.ArrayRecordDataSource(path)).shuffle(seed=1)
                  .map(lambda record: {"tokens": np.frombuffer(record, np.int32)}).to_iter_dataset())
        packed = experimental.FirstFitPackIterDataset(source, length_struct={"tokens": 4096}, num_packing_bins=16)
        return sum(int(np.count_nonzero(batch[0]["tokens_segment_ids"] if isinstance(batch, tuple) else
                                        batch["tokens_segment_ids"])) for batch in packed.batch(16))

    compare(f"{documents} documents", 1 if quick else 3, **{"packing by a plan": planned(), "Grain's packing": grains})


def mixtures(folder, quick):
    """Records of about 1 KB: fifty epochs of one dataset, of 20 mixed sources, and of 1,000, which have the same
    records and are opened before; and how long that and the first batch take. Then Grain's mix, if it is installed,
    of 20 sources of the same records in ArrayRecord files."""
    sources, records, epochs = 1000, 100 if quick else 200, 10 if quick else 50
    tokens = np.random.default_rng(0).integers(0, 1 << 15, 450)
    names = {f"s{i}": f"{folder}/s{i}/d@1" for i in range(sources)}
    with sf.write(f"{folder}/all@16", sync=False) as together:
        for i, spec in enumerate(names.values()):
            os.mkdir(os.path.dirname(spec))
            with sf.write(spec, sync=False) as writer:
                for j in range(records):
                    row = {"id": i * records + j, "tokens": tokens}
                    writer.write(row)
                    together.write(row)
    groups = {f"g{i}": list(names.values())[i * 50:(i + 1) * 50] for i in range(20)}
    features = {"id": sf.int64, "tokens": sf.var(sf.int64)}

    def summed(ds, window):
        ds = ds.shuffle(seed=1, window=window).repeat(epochs).parse(features).batch(128)
        return lambda: sum(len(batch["tokens"].values) for batch in ds)

    for window in (0, 20_000):
        compare(f"{sources * records} records, window {window or 'by default'}", 3 if quick else 5, **{
            "a mixture of 20": summed(sf.mix(groups, length=sources * records), window),
            "a mixture of 1,000": summed(sf.mix(names, length=sources * records), window),
            "one dataset": summed(sf.read(f"{folder}/all@16"), window)})
    firsts = []
    for _ in range(3 if quick else 7):
        began = time.perf_counter()
        next(iter(sf.mix(names, length=sources * records).shuffle(seed=1).parse(features).batch(128)))
        firsts.append(time.perf_counter() - began)
    print(f"first batch of a mixture of 1,000: {statistics.median(firsts):.2f} s ({min(firsts):.2f} to {max(firsts):.2f})")
    try:
        import grain.python as grain
        from array_record.python import array_record_module
    except ImportError as error:
        print(f"mixtures: Grain is not installed: {error}")
        return
    paths = [f"{folder}/{name}.array_record" for name in groups]
    for path, specs in zip(paths, groups.values()):
        writer = array_record_module.ArrayRecordWriter(path, "group_size:1")
        for record in sf.read(specs):
            writer.write(bytes(record))
        writer.close()

    def grains():
        each = [grain.MapDataset.source(grain.ArrayRecordDataSource(path)).shuffle(seed=1) for path in paths]
        return sum(1 for _ in grain.MapDataset.mix(each, [1] * len(each)).to_iter_dataset())

    mixed = sf.mix(groups, length=sources * records).shuffle(seed=1)
    compare(f"{sources * records} raw records of 20 sources", 1 if quick else 3, **{
        "a mixture": lambda: sum(len(block) for block in mixed.blocks()), "Grain's mix": grains})


def count_of(spec):
    """Two ways to read raw records, both of which return their number and bytes."""
    def blocks():
        count = size = 0
        for block in sf.read(spec).blocks():
            count += len(block)
            size += block.nbytes
        return count, size

    def records():
        count = size = 0
        for record in sf.read(spec):
            count += 1
            size += len(record)
        return count, size

    return blocks, records


def against(folder, quick, name, reader, small=1):
    """Raw records of 230 B beside another reader; reader(paths) iterates over them."""
    spec = write_small(folder, (50_000 if quick else 200_000) // small)
    paths = sorted(str(p) for p in pathlib.Path(folder).glob("small-0*"))
    blocks, records = count_of(spec)

    def theirs():
        count = size = 0
        for record in reader(paths):
            count += 1
            size += len(record)
        return count, size

    compare("raw records of 230 B", 3 if quick else 7, blocks=blocks, records=records,
            **{name: theirs})


def writing(folder, quick):
    """Small records from columns in memory: w.write_batch beside w.write, beside TensorFlow's usual script, and beside
    C++ that writes the same rows (records_benchmark, which $SHARDFEED_RECORDS_BENCHMARK names if it is not in bazel-bin)."""
    import json
    rows = 100_000 if quick else 400_000
    few = rows // 20
    x = np.random.default_rng(0).normal(size=(rows, 50)).astype(np.float32)
    y = np.arange(rows)
    threads = len(os.sched_getaffinity(0))

    def batch():
        with sf.write(f"{folder}/batch@4", overwrite=True, sync=False, threads=threads) as writer:
            writer.write_batch({"x": x, "y": y})
        return rows

    def by_row():
        with sf.write(f"{folder}/row@4", overwrite=True, sync=False, threads=threads) as writer:
            for i in range(few):
                writer.write({"x": x[i], "y": i})
        return few

    def tensorflow():
        with tf.io.TFRecordWriter(f"{folder}/tf.tfrecord") as writer:
            for i in range(few):
                example = tf.train.Example(features=tf.train.Features(feature={
                    "x": tf.train.Feature(float_list=tf.train.FloatList(value=x[i])),
                    "y": tf.train.Feature(int64_list=tf.train.Int64List(value=[i]))}))
                writer.write(example.SerializeToString())
        return few

    x.tofile(f"{folder}/x")
    program = os.environ.get("SHARDFEED_RECORDS_BENCHMARK", ROOT / "bazel-bin/benchmarks/records_benchmark")

    def cpp():
        """Its own time, without that of starting and of reading the rows."""
        found = json.loads(subprocess.run([program, "examples", f"{folder}/x", f"{folder}/cpp@4", str(threads)], check=True,
                                          capture_output=True).stdout)
        assert found["records"] == rows
        return found["seconds"]

    runs = {"write_batch": batch, "write": by_row}
    try:
        import tensorflow as tf
        runs["TFRecordWriter"] = tensorflow
    except ImportError:
        print("writing: TensorFlow is not installed")
    if os.path.exists(program):
        runs["C++"] = cpp
    else:
        print("writing: build //benchmarks:records_benchmark to compare with C++")
    taken = {name: [] for name in runs}
    for round in range(4 if quick else 8):  # the first warms up
        for name, run in runs.items():
            gc.collect()
            took, result = seconds(run)
            if round:
                taken[name].append(result / rows if name == "C++" else took / result)
    whole = next(iter(sf.read(f"{folder}/batch@4").parse().batch(rows)))
    order = np.argsort(whole["y"])
    assert np.array_equal(whole["x"][order], x) and np.array_equal(whole["y"][order], y)
    first = next(iter(sf.read(f"{folder}/row@4").parse().batch(few)))
    assert np.array_equal(np.sort(first["y"]), y[:few])
    if "C++" in runs:  # the same bytes
        for shard in range(4):
            names = [f"{folder}/{name}-0000{shard}-of-00004" for name in ("batch", "cpp")]
            assert pathlib.Path(names[0]).read_bytes() == pathlib.Path(names[1]).read_bytes(), names
    if "TFRecordWriter" in runs:
        theirs = next(iter(sf.read(f"{folder}/tf.tfrecord").parse({"x": sf.fixed(50), "y": sf.int64}).batch(few)))
        assert np.array_equal(theirs["x"], x[:few]) and np.array_equal(theirs["y"], y[:few])
    for name in runs:
        for reference in ("TFRecordWriter", "C++"):
            if name != reference and reference in runs and not (name == "TFRecordWriter" and reference == "C++"):
                ratios = sorted(r / t for t, r in zip(taken[name], taken[reference]))
                print(f"small records: {name} is {statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f}) "
                      f"times as fast as {reference}; {1e9 * statistics.median(taken[name]):.0f} and "
                      f"{1e9 * statistics.median(taken[reference]):.0f} ns a record", flush=True)


def tf_data(folder, quick):
    import tensorflow as tf

    def reader(paths):
        for record in tf.data.TFRecordDataset(paths, num_parallel_reads=2):
            yield record.numpy()

    against(folder, quick, "tf.data", reader, small=5)


def tfrecord(folder, quick):
    from tfrecord.reader import tfrecord_iterator

    def reader(paths):
        for path in paths:
            yield from tfrecord_iterator(path)

    against(folder, quick, "tfrecord", reader)


def array_record(folder, quick):
    from array_record.python import array_record_module
    path = f"{folder}/a.array_record"

    def reader(paths):
        if not os.path.exists(path):
            writer = array_record_module.ArrayRecordWriter(path, "group_size:1")
            for record in sf.read(f"{folder}/small@4"):
                writer.write(record)
            writer.close()
        source = array_record_module.ArrayRecordReader(path)
        total = source.num_records()
        for first in range(0, total, 1024):
            yield from source.read(first, min(first + 1024, total))
        source.close()

    against(folder, quick, "array_record", reader)


def dali(folder, quick):
    """DALI's reader delivers no records, only features: here the smallest one."""
    from nvidia.dali import fn, pipeline_def
    from nvidia.dali import tfrecord as features
    rows, spec = 1024, write_small(folder, 50_000 if quick else 200_000)
    paths = sorted(str(p) for p in pathlib.Path(folder).glob("small-0*"))
    sf.index(spec, export="dali")
    total = len(sf.read(spec))

    @pipeline_def(batch_size=rows, num_threads=len(os.sched_getaffinity(0)), device_id=None)
    def labels():
        return fn.readers.tfrecord(path=paths, index_path=[f"{p}.idx" for p in paths], features={
            "y": features.FixedLenFeature([1], features.int64, -1)})["y"]

    pipeline = labels()
    pipeline.build()

    def theirs():
        for _ in range(-(-total // rows)):
            pipeline.run()
        return total

    compare("raw records of 230 B", 3 if quick else 7,
            blocks=lambda: sum(map(len, sf.read(spec).blocks())), DALI=theirs)


def processes(folder, quick):
    """Batches of 9.6 MB to a process and back."""
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor

    from shardfeed.processes import ProcessFunction
    batch = {"image": np.ones((64, 224, 224, 3), np.uint8)}
    ours = ProcessFunction(same, 1)
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        compare("9.6 MB to a process and back", 5 if quick else 15,
                shardfeed=lambda: ours(batch)["image"].sum(),
                ProcessPoolExecutor=lambda: pool.submit(same, batch).result()["image"].sum())


def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2 ** 20


def iterators(folder, quick):
    """Iterators that are created, asked once, and dropped."""
    ds = sf.read(write_small(folder, 2000)).parse({"y": sf.int64}).batch(64)
    count = 1000 if quick else 10_000
    sizes = []
    for i in range(count):
        next(iter(ds))
        if i in (count // 10, count - 1):
            gc.collect()
            sizes.append(resident())
    print(f"{count} iterators created and dropped: {sizes[0]:.1f} MiB after a tenth, {sizes[1]:.1f} MiB "
          "after all")


def soak(folder, quick):
    """Many epochs of a small dataset: shuffled, parsed, mapped by Python, batched."""
    ds = (sf.read(write_small(folder, 20_000)).shuffle(seed=1).repeat()
          .parse({"x": sf.fixed(50), "y": sf.int64}).batch(256)
          .map(lambda b: {"x": b["x"] * 2, "y": b["y"]}, batched=True))
    sizes, rows, end = [], 0, time.monotonic() + (5 if quick else 35)
    next_look = time.monotonic() + 1
    with iter(ds) as it:
        for batch in it:
            rows += len(batch["y"])
            if time.monotonic() >= next_look:
                sizes.append(resident())
                next_look += 1
                if next_look > end:
                    break
    print(f"soak: {rows / 20_000:.0f} epochs; resident {sizes[0]:.1f} MiB after a second, "
          f"{sizes[len(sizes) // 2]:.1f} half way, {sizes[-1]:.1f} at the end, {max(sizes):.1f} at most")


PARTS = {"import": import_time, "batches": batches, "raw_images": raw_images, "images": images,
         "webdataset": webdataset, "packing": packing, "mixtures": mixtures, "writing": writing, "tf_data": tf_data, "tfrecord": tfrecord,
         "array_record": array_record, "dali": dali, "processes": processes, "iterators": iterators, "soak": soak}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="less data, fewer rounds")
    parser.add_argument("part", nargs="*", choices=[*PARTS, []], help="by default all")
    arguments = parser.parse_args()
    if len(arguments.part) == 1:
        with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
            try:
                PARTS[arguments.part[0]](folder, arguments.quick)
            except ImportError as error:
                print(f"{arguments.part[0]}: {error}")
        return
    # Each part runs in a process of its own, because not all of these libraries can be loaded
    # together.
    quick = ["--quick"] if arguments.quick else []
    for part in arguments.part or PARTS:
        subprocess.run([sys.executable, __file__, part, *quick], check=True)


if __name__ == "__main__":
    main()

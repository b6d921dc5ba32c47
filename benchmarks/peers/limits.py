"""Upper bounds for all peers: bare loops in C++, cp, fio and memcpy."""

import glob
import json
import os
import shutil
import statistics
import subprocess
import sys
import time

from peers import protocol

NAME = "bare loops"
INSTALL = ["numpy"]
CRC = False  # except variants that say so
UNCHECKED = True  # nothing is delivered


def prepare(run):
    """Links the data under the names that records_benchmark expects."""
    for kind in {"large", "small"} & set(run.kinds()):
        folder = run.folder(f"limits/{kind}")
        for path in run.shards(kind):
            link = f"{folder}/{os.path.basename(path).replace('train', 'data')}"
            if not os.path.lexists(link):
                os.symlink(os.path.abspath(path), link)


def benchmark(run, name, *arguments):
    return json.loads(subprocess.run([f"{run.binaries}/benchmarks/{name}", *map(str, arguments)],
                                     check=True, capture_output=True, text=True).stdout)


def crc_loop(run, kind):
    """Reads the shards, walks through the frames and computes both CRCs."""
    report = benchmark(run, "records_benchmark", "read", f"{run.data}/limits/{kind}",
                       "sequential", run.threads)
    run.result.update(done=report["records"], seconds=statistics.median(report["crc_loop"]))


def writer(run, kind):
    """shardfeed's writer in C++ with the records in memory, without the cost of a call from Python for each."""
    report = benchmark(run, "records_benchmark", "write", f"{run.data}/limits/{kind}",
                       run.folder("limits/written"))
    run.result.update(done=report["records"], seconds=statistics.median(report["write"]))


def chain(run):
    """shardfeed's parsing chain in C++, without Python."""
    report = benchmark(run, "pipeline_benchmark", "parse", f"{run.data}/limits/small", run.threads)
    run.result.update(done=report["records"], seconds=statistics.median(report["parse"]))


def image_loop(run):
    """The kernels of shardfeed's antialiased crops on each core, and nothing else."""
    report = benchmark(run, "image_benchmark", run.spec("large"), 512)
    run.result.update(done=statistics.median(report["loop"]["per_second"]), seconds=1.0)


def copy(run, kind):
    """cp of the shards."""
    target = run.folder("limits/copy")
    command = ["cp", *run.shards(kind), target]
    subprocess.run(command, check=True)
    run.until(lambda: subprocess.run(command, check=True), run.count(kind))
    shutil.rmtree(target)


def memcpy(run, kind):
    """Copies the payloads' bytes in memory on one thread."""
    import numpy as np
    size = sum(map(os.path.getsize, run.shards(kind)))
    source, target = np.ones(size, np.uint8), np.zeros(size, np.uint8)
    np.copyto(target, source)
    run.until(lambda: np.copyto(target, source), run.count(kind))


def fio_rate(paths, how, block):
    """Bytes/s of fio bypassing the page cache, 32 requests deep; None if it is not installed. Its options that reduce
    the kernel's work on each request make it twice as fast here."""
    if shutil.which("fio") is None:
        return None
    done = subprocess.run(["fio", "--name=read", f"--filename={':'.join(paths)}", f"--rw={how}", f"--bs={block}",
                           "--direct=1", "--ioengine=io_uring", "--iodepth=32", "--fixedbufs",
                           "--registerfiles", "--readonly", "--output-format=json"],
                          check=True, capture_output=True, text=True)
    return json.loads(done.stdout[done.stdout.index("{"):])["jobs"][0]["read"]["bw_bytes"]


def fio(run, kind, how, block):
    """Reads that bypass the page cache."""
    size = sum(map(os.path.getsize, run.shards(kind)))
    run.result.update(done=run.count(kind), seconds=size / fio_rate(run.shards(kind), how, block))


def untar(run):
    """tar x of the images, which reads and writes them."""
    folder = run.folder("limits/images")
    archive = f"{folder}/images.tar"
    if not os.path.exists(archive):
        subprocess.run(["tar", "cf", archive, "-C", f"{run.data}/images", "."], check=True)
    target = run.fresh_folder("limits/images/out")
    start = time.perf_counter()
    subprocess.run(["tar", "xf", archive, "-C", target], check=True)
    run.result.update(done=len(glob.glob(f"{target}/*/*")), seconds=time.perf_counter() - start)


def fio_variants(kind, how):
    """Variants of fio; none if it is not installed."""
    if shutil.which("fio") is None:
        return {}
    return {name: lambda run, wanted=wanted: fio(run, kind, *wanted) for name, wanted in how.items()}


WORKLOADS = {
    "read_large": {"read and CRC": lambda run: crc_loop(run, "large"),
                   "memcpy": lambda run: memcpy(run, "large")},
    "read_large_used": {},
    "read_large_1_thread": {"read and CRC": lambda run: crc_loop(run, "large")},
    "read_small": {"read and CRC": lambda run: crc_loop(run, "small"),
                   "memcpy": lambda run: memcpy(run, "small")},
    "read_small_1_thread": {"read and CRC": lambda run: crc_loop(run, "small")},
    "verify_large": {"read and CRC": lambda run: crc_loop(run, "large")},
    "verify_small": {"read and CRC": lambda run: crc_loop(run, "small")},
    "read_large_cold": fio_variants("large", {"fio, 1 MiB in order": ("read", "1m")}),
    "read_small_cold": fio_variants("small", {"fio, 1 MiB in order": ("read", "1m")}),
    "shuffle_large_cold": fio_variants("large", {"fio, 1 MiB at random": ("randread", "1m")}),
    "exact_large_cold": fio_variants("large", {"fio, 112 KiB at random": ("randread", "112k")}),
    "parse": {"read and CRC": lambda run: crc_loop(run, "small"), "shardfeed's chain": chain},
    "image_antialiased": {"kernels": image_loop},
    "write_large": {"cp": lambda run: copy(run, "large")},
    "write_small": {"cp": lambda run: copy(run, "small"),
                    "shardfeed's writer": lambda run: writer(run, "small")},
    "convert_images": {"tar x": untar},
}

if __name__ == "__main__":
    protocol.main(sys.modules["__main__"])

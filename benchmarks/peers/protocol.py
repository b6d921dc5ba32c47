"""The common part of all peers: one process measures one workload and prints one line of JSON.

    PYTHONPATH=benchmarks PYTHON -m peers.tf_data WORKLOAD --data FOLDER [--check] [--threads 2] [--seconds 2]

A peer is a module with NAME, INSTALL (requirements for pip), IMPORTS (modules to import before timing starts), CRC
(whether it checks the CRCs of records) and WORKLOADS: {workload: {variant: function of a Run}}, where "" is the only
or default variant. The measured library is imported within functions, so that the module can always be imported.

With --check, the process delivers the small data once and reports digests of it. Otherwise it runs for --seconds,
counted from the first element, and reports how much it delivered.
"""

import argparse
import glob
import importlib
import json
import os
import random
import re
import resource
import shutil
import sys
import time

from peers import frames
from peers.digests import ArrayDigest, RecordDigest

os.environ["CUDA_VISIBLE_DEVICES"] = ""
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

FEATURES = 50  # in a small record
BATCH = 1024  # small records
IMAGE_BATCH = 64
IMAGE_SIZE = 224
WINDOW = {"large": 1000, "small": 100_000}  # records among which a windowed shuffle mixes
GET = 256  # records requested at once by number
SIZES = ("10k", "1m", "100m")  # sizes of the datasets of numbers


def descendants():
    """The ids of this process and all its descendants."""
    children = {}
    for path in glob.glob("/proc/[0-9]*/stat"):
        try:
            with open(path) as file:
                fields = file.read().rpartition(")")[2].split()
        except OSError:
            continue
        children.setdefault(int(fields[1]), []).append(int(path.split("/")[2]))
    found = [os.getpid()]
    for process in found:
        found += children.get(process, [])
    return found


def cpu_seconds():
    """CPU time of this process and all its descendants, including ended ones."""
    ticks = 0
    for process in descendants():
        try:
            with open(f"/proc/{process}/stat") as file:
                ticks += sum(map(int, file.read().rpartition(")")[2].split()[11:15]))
        except OSError:
            pass  # the process has just ended
    return ticks / os.sysconf("SC_CLK_TCK")


def memory_bytes():
    """Memory of this process and all its descendants, without pages of files; shared memory counts once."""
    kib = 0
    for process in descendants():
        try:
            with open(f"/proc/{process}/smaps_rollup") as file:
                for line in file:
                    if line.startswith(("Pss_Anon:", "Pss_Shmem:")):
                        kib += int(line.split()[1])
        except OSError:
            pass
    return kib << 10


class Run:
    """One measurement of one workload."""

    def __init__(self, options):
        self.data = os.path.join(options.data, "check") if options.check else options.data
        self.checking = options.check
        self.threads = options.threads
        self.seconds = options.seconds
        self.rate = options.rate  # elements per second that the consumer takes; 0 is unlimited
        self.cold = options.cold
        self.used = options.used
        self.binaries = options.binaries
        self.batches_before_resume = 20 if options.check else 10_000
        self.result = {}

    def count(self, kind):
        """The number of records, images or rows of that kind."""
        with open(f"{self.data}/info.json") as file:
            return json.load(file)["counts"][kind]

    def kinds(self):
        """The kinds that have been made."""
        with open(f"{self.data}/info.json") as file:
            return list(json.load(file)["counts"])

    def shards(self, kind):
        return sorted(p for p in glob.glob(f"{self.data}/{kind}/train-*-of-*")
                      if not p.endswith(".idx") and not p.endswith(".tfindex"))

    def spec(self, kind):
        return f"{self.data}/{kind}/train@16"

    def folder(self, name):
        """A folder for this peer's own data."""
        path = f"{self.data}/{name}"
        os.makedirs(path, exist_ok=True)
        return path

    def fresh_folder(self, name):
        """The same folder, emptied outside of the timing of what a previous round has left."""
        shutil.rmtree(f"{self.data}/{name}", ignore_errors=True)
        return self.folder(name)

    def images(self):
        """[(path, label)] of the images in class folders."""
        paths = sorted(glob.glob(f"{self.data}/images/*/*"))
        labels = {c: i for i, c in enumerate(sorted({os.path.dirname(p) for p in paths}))}
        return [(p, labels[os.path.dirname(p)]) for p in paths]

    # ---- Three kinds of workloads

    def stream(self, make, count, digest, look, whole=False):
        """Delivers elements one after another. make(endless): an iterator over one epoch, or an endless one.
        count(element): the number of records or images in it. look(element): its values for digest.add. Seconds are
        counted from the first element, so start-up is not included. whole: times a whole second epoch, for peers that
        make elements in large pieces."""
        if self.checking:
            for element in make(False):
                digest.add(look(element))
            self.result["digest"] = digest.result()
            return
        if self.used:
            count = copying(count, look)
        if whole:
            for _ in make(False):
                pass
        if self.cold or whole:
            # One whole epoch, since repetitions would come from the page cache.
            self.job(lambda: self.result.update(done=sum(map(count, make(False)))))
            return
        before = memory_bytes()
        began = time.perf_counter()
        iterator = iter(make(True))
        next(iterator)
        start = time.perf_counter()
        cpu = cpu_seconds()
        done = 0
        now = start
        while now - start < self.seconds:
            done += count(next(iterator))
            now = time.perf_counter()
            if self.rate and start + done / self.rate > now:
                time.sleep(start + done / self.rate - now)
                now = time.perf_counter()
        self.result.update(done=done, seconds=now - start, cpu_seconds=cpu_seconds() - cpu,
                           first_seconds=start - began, memory_bytes=memory_bytes() - before)

    def records(self, make, count=lambda element: 1, look=lambda element: [element]):
        self.stream(make, count, RecordDigest(), look)

    def columns(self, make, count, look, whole=False):
        self.stream(make, count, ArrayDigest(), look, whole)

    def mix_memory(self, keys_of, windows, key=None):
        """The memory of a shuffle that mixes half as well as an exact one. keys_of(window): key(record) for the
        records of two epochs; windows: the candidates, smallest first."""
        key = key or record_key
        place = {key(record): i for i, record in enumerate(frames.payloads(self.shards("large")))}
        before = memory_bytes()
        for window in windows:
            epochs, most = [], 0
            iterator = iter(keys_of(window))
            for _ in range(2):
                epoch = {}
                for position in range(len(place)):
                    found = next(iterator, None)
                    if found is None:
                        break
                    epoch.setdefault(place[found], position)
                    if position % 100 == 0:
                        most = max(most, memory_bytes() - before)
                epochs.append(epoch)
            del iterator
            mixing = mixed(*epochs)
            if mixing >= 0.5:
                break
        else:
            sys.exit(f"it mixes only {mixing:.2f} times as well as an exact shuffle, even with the largest window")
        self.result.update(memory_bytes=most, mixing=mixing, window=window)

    def job(self, work, done=None, digest=None):
        """A job that ends: work() does it; done is its amount (None: work sets it); digest() is that of its output.
        Returns what work() returns, so that what follows a first batch is released after the time was taken."""
        before = memory_bytes()
        cpu = cpu_seconds()
        start = time.perf_counter()
        kept = work()
        self.result.update(seconds=time.perf_counter() - start, cpu_seconds=cpu_seconds() - cpu,
                           memory_bytes=memory_bytes() - before)
        if done is not None:
            self.result["done"] = done
        if self.checking and digest:
            self.result["digest"] = digest()
        return kept

    def until(self, work, each):
        """Repeats the same work, on `each` records."""
        cpu = cpu_seconds()
        start = now = time.perf_counter()
        done = 0
        while now - start < (0 if self.checking else self.seconds) or not done:
            work()
            done += each
            now = time.perf_counter()
        self.result.update(done=done, seconds=now - start, cpu_seconds=cpu_seconds() - cpu)


def copying(count, look):
    """A version of count(element) that also copies the records, as into a batch."""
    memory = memoryview(bytearray(16 << 20))

    def count_and_copy(element):
        for record in look(element):
            memory[:len(record)] = record
        return count(element)

    return count_and_copy


def record_key(record):
    """The number stored in a large record."""
    return int(re.search(rb"image/key\x12\x0c\x0a\x0a\x0a\x08(\d{8})", record)[1])


def mixed(first, second):
    """How well two epochs, each {place in the files: position}, are mixed. The lesser of two measures, which are 1 for
    exact shuffles: how far apart neighbors in the files are, and how far a record moves between the epochs."""
    third = len(first) / 3
    apart = [abs(first[i] - first[i + 1]) for i in first if i + 1 in first]
    moved = [abs(first[i] - second[i]) for i in first if i in second]
    return min(sum(apart) / len(apart), sum(moved) / len(moved)) / third


def windows(run):
    """Windows of a shuffle, each twice the previous one."""
    records = run.count("large")
    return [w for w in (125 << k for k in range(20)) if w < records] + [records]


def begin(elements):
    """Returns the first element and the iterator of the rest."""
    iterator = iter(elements)
    return next(iterator), iterator


def endless(make):
    """Epoch after epoch, for peers without repeat."""
    while True:
        yield from make()


def epochs(make):
    """Adapts such peers to Run.records and Run.columns: make() is one epoch."""
    return lambda without_end: endless(make) if without_end else iter(make())


def random_numbers(records, seed=0):
    """Lists of GET record numbers, without end."""
    rng = random.Random(seed)
    while True:
        yield [rng.randrange(records) for _ in range(GET)]


def get_by_number(run, records, get):
    """The workload of random access. get(numbers) returns the records as bytes or views."""
    if run.checking:
        digest = RecordDigest()
        for first in range(0, records, GET):
            digest.add(get(list(range(first, min(records, first + GET)))))
        run.result["digest"] = digest.result()
        return
    numbers = random_numbers(records)
    get(next(numbers))
    run.until(lambda: get(next(numbers)), GET)


def random_crop(width, height, rng):
    """(x, y, w, h) as torchvision's RandomResizedCrop draws it."""
    import math
    for _ in range(10):
        area = width * height * rng.uniform(0.08, 1)
        ratio = math.exp(rng.uniform(math.log(3 / 4), math.log(4 / 3)))
        w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < w <= width and 0 < h <= height:
            return rng.randint(0, width - w), rng.randint(0, height - h), w, h
    side = min(width, height)
    return (width - side) // 2, (height - side) // 2, side, side


def opencv_crop(image):
    """A random crop of OpenCV's image, mirrored or not, resized (INTER_LINEAR), as RGB."""
    import cv2
    height, width = image.shape[:2]
    x, y, w, h = random_crop(width, height, random)
    image = cv2.resize(image[y:y + h, x:x + w], (IMAGE_SIZE, IMAGE_SIZE))
    if random.random() < 0.5:
        image = cv2.flip(image, 1)
    return cv2.cvtColor(image, cv2.COLOR_BGR2RGB)


def opencv_load(path):
    """The same for a file, which is decoded whole."""
    import cv2
    cv2.setNumThreads(0)
    return opencv_crop(cv2.imread(path))


def opencv_record(record):
    """The same for the image in an Example."""
    import cv2
    import numpy as np
    cv2.setNumThreads(0)
    record = bytes(record)
    begin = record.index(b"\xff\xd8")
    return opencv_crop(cv2.imdecode(np.frombuffer(record, np.uint8, offset=begin), cv2.IMREAD_COLOR))


def main(module):
    parser = argparse.ArgumentParser(description=module.__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [f"{w}:{v}" if v else w for w, vs in module.WORKLOADS.items() for v in vs]
    parser.add_argument("workload", help=", ".join(names))
    parser.add_argument("--data", required=True, help="folder that make_data.py made")
    parser.add_argument("--binaries", help="folder with built binaries, such as bazel-bin")
    parser.add_argument("--check", action="store_true", help="deliver the small data once, for a digest")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--rate", type=float, default=0, help="elements per second that the consumer takes")
    parser.add_argument("--cold", action="store_true", help="measure one epoch from its start")
    parser.add_argument("--used", action="store_true", help="copy each record, as into a batch")
    options = parser.parse_args()
    if options.threads == 1:
        os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])
    for name in getattr(module, "IMPORTS", []):
        importlib.import_module(name)
    workload, _, variant = options.workload.partition(":")
    run = Run(options)
    module.WORKLOADS[workload][variant](run)
    run.result["peak_rss_bytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
    run.result["versions"] = versions(module.INSTALL)
    sys.stdout.flush()
    print(json.dumps(run.result), flush=True)
    os._exit(0)  # threads and workers of some peers do not end otherwise


def versions(packages):
    from importlib import metadata
    found = {}
    for package in packages:
        name = package.partition("==")[0].partition("[")[0]
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            pass
    return found

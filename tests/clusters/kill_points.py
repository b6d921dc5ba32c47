"""Kills tasks, workers, executors and drivers while they write datasets, and makes them fail.

    python3 tests/clusters/kill_points.py [--share 1/10] [--seed N] [--only TEXT] [ENGINE ...]

Engines are dask, ray, spark, beam and messages (the driver's alone). Each case writes a dataset and
meets a fault: SIGKILL or an exception at a point of a task (before, at any call on files, after), of the
rows' function or of the commit; a full disk; messages that come twice, late or never. After it, the
name must refer to the whole new dataset, with every record once, or to what was there before; and
after `shardfeed clean` the folder must hold nothing else.
"""

import argparse
import contextlib
import itertools
import json
import os
import pathlib
import pickle
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
HERE = pathlib.Path(__file__).resolve().parent
for folder in (REPOSITORY / "python", REPOSITORY / "tests/program", REPOSITORY / "tests", HERE):
    sys.path.insert(0, str(folder))
# Workers are processes of their own, which import these files, too.
os.environ["PYTHONPATH"] = os.pathsep.join([str(REPOSITORY / "python"), str(HERE)])

import shardfeed as sf  # noqa: E402
import fault_points  # noqa: E402
import faulty  # noqa: E402

ROWS = 240
STEM = "new"
SECONDS = 400  # that a case may take; a busy machine starts a driver of Spark in 100
SETTLE = 30    # that late tasks may take until `clean` leaves nothing
PROGRAM = REPOSITORY / "python/shardfeed/bin/shardfeed"


class Case:
    """A write and its fault. `number` is that of its engine's list."""

    def __init__(self, engine, number, seed, of="commit", point="call", what="kill", times=1,
                 driver=False, disk=False, actors=False):
        self.engine, self.number = engine, number
        self.draw = draw = random.Random(f"{engine} {number} {seed}")
        self.parts = draw.randint(1, 4)
        self.overwrite = draw.random() < 0.5
        self.of = str(draw.randrange(self.parts)) if of == "task" else of
        self.point, self.what, self.times = point, what, times
        self.driver, self.disk, self.actors = driver, disk, actors
        self.share = draw.random()  # of the calls, or of the bytes that fit on the disk

    def __repr__(self):
        where = "in the commit" if self.of == "commit" else (
            "in the rows' function" if self.of == "rows" else f"in task {self.of}")
        what = f"{self.what} {where} at {self.point}"
        if self.disk:
            what = f"a disk with room for {100 * self.share:.0f} %"
        return (f"{self.engine} {self.number}: {what}, {'always' if self.times == 0 else 'once'}, "
                f"{self.parts} parts{', overwrite' if self.overwrite else ''}"
                f"{', driver' if self.driver else ''}{', actors' if self.actors else ''}")

    def fault(self, calls, control):
        """`calls`: what faulty.probe has found."""
        names = calls[f"{self.parts} {self.overwrite}"]["commit" if self.of == "commit" else "task"]
        numbers = [i for i, name in enumerate(names, 1)
                   if self.what != "full" or name in fault_points.NEEDS_SPACE]
        if self.disk:  # a fault that never comes
            return faulty.Fault("none", "begin", "raise", 0, 1, str(control))
        return faulty.Fault(self.of, self.point, self.what, numbers[int(self.share * len(numbers))],
                            self.times, str(control))


def cases_of(engine, seed):
    """All cases of an engine, with those that differ most beside each other."""
    task = [("begin", "kill"), ("written", "kill"), ("closed", "kill"), ("begin", "raise"), ("written", "raise"),
            ("closed", "raise")]
    kinds = []

    def add(count, **options):
        kinds.append([options] * count)

    if engine in ("dask", "ray"):
        add(16, of="task")
        for point, what in task:
            add(2, of="task", point=point, what=what)
        add(2, of="task", point="call", what="raise")
        add(2, of="task", point="closed", what="raise", times=0)
        add(2, of="task", point="call", what="raise", times=0)
        add(4, of="task", what="full")
        add(4, of="task", disk=True, times=0)
        add(3, of="rows", point="begin")
        if engine == "ray":
            add(4, of="rows", point="begin", actors=True)
        add(10, driver=True)
        add(2, point="begin", driver=True)
        add(2, point="closed", driver=True)
    elif engine == "spark":
        add(10, of="task")
        add(4, of="task", what="executor")
        for point, what in task:
            add(1, of="task", point=point, what=what)
        add(1, of="task", point="written", what="executor")
        add(1, of="task", point="closed", what="executor")
        add(2, of="task", point="call", what="raise", times=0)
        add(1, of="task", point="closed", what="raise", times=0)
        add(2, of="task", what="full")
        add(4, of="task", disk=True, times=0)
        add(2, of="rows", point="begin")
        add(6)                                  # the process of the commit alone
        add(4, what="executor", driver=True)    # with the driver's JVM
        add(1, point="begin", what="executor", driver=True)
        add(1, point="closed", what="executor", driver=True)
    elif engine == "beam":
        add(4, of="task", driver=True)
        add(2, of="task", point="written", driver=True)
        add(2, of="task", point="closed", what="raise", times=0, driver=True)
        add(2, of="rows", point="begin", what="raise", driver=True)
        add(4, driver=True)
    elif engine == "messages":
        add(60, point="begin", what="messages")
    rounds = itertools.zip_longest(*kinds)
    flat = [options for one in rounds for options in one if options is not None]
    return [Case(engine, number, seed, **options) for number, options in enumerate(flat)]


ENGINES = ("messages", "dask", "ray", "spark", "beam")


class Dask:
    def __enter__(self):
        import dask
        import distributed
        dask.config.set({"distributed.scheduler.allowed-failures": 3})
        self.cluster = distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None,
                                                silence_logs=50)
        # A worker whose nanny gives up, as it does where starting takes too long, is replaced as well.
        self.cluster.adapt(minimum=2, maximum=2)
        self.client = distributed.Client(self.cluster)
        self.address = self.cluster.scheduler_address
        return self

    def __exit__(self, *_):
        self.client.close()
        self.cluster.close()

    def write(self, case, **arguments):
        faulty.write_with_dask(**arguments)


class Ray:
    def __enter__(self):
        import ray
        ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, configure_logging=False,
                 object_store_memory=200 << 20)
        ray.data.DataContext.get_current().enable_progress_bars = False
        self.address = ray.get_runtime_context().gcs_address
        return self

    def __exit__(self, *_):
        import ray
        ray.shutdown()

    def write(self, case, **arguments):
        faulty.write_with_ray(**arguments, actors=case.actors)


class Spark:
    address = ""

    def __enter__(self):
        self.session = faulty.spark_session("local-cluster[2,1,512]")
        return self

    def __exit__(self, *_):
        self.session.stop()

    def write(self, case, **arguments):
        faulty.write_with_spark(self.session, **arguments)


class OneProcess:
    """Beam's direct runner, which is a part of each driver."""
    address = ""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    write = None


class Messages:
    """A driver whose tasks are functions, called in a random order, and whose messages a random network
    carries: attempts are given up or come late, messages come twice, late or not at all."""
    address = ""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def write(self, case, source, spec, parts, overwrite, fault):
        draw = case.draw
        rows = list(sf.read(source))
        job = sf.write_job(spec, overwrite=overwrite)
        writers, messages = {}, []

        def step(part, attempt, what):
            key = (part, attempt)
            if what == "begin":
                writers[key] = pickle.loads(pickle.dumps(job)).shard(part, attempt)
            elif what == "rows":
                for row in rows[part::parts]:
                    writers[key].write(row)
            elif what == "give up":
                writers[key].abort()
            else:
                messages.append(writers[key].close())

        tasks = [[(part, attempt, what) for what in ("begin", "rows", end)]
                 for part in range(parts) for attempt in range(draw.randint(1, 3))
                 for end in ["close" if attempt == 0 or draw.random() < 0.6 else "give up"]]
        late = []
        while any(tasks):
            steps = draw.choice([t for t in tasks if t])
            if steps[0][1] > 0 and draw.random() < 0.2:  # further attempts may come too late
                late.append(steps[:])
                steps.clear()
            else:
                step(*steps.pop(0))
        draw.shuffle(messages)
        arrived = [m for m in messages for _ in range(draw.randint(1, 2))]
        lost = draw.random() < 0.3
        if lost:
            part = draw.randrange(parts)
            arrived = [m for m in arrived if json.loads(m)["part"] != part]
        foreign = draw.random() < 0.2
        if foreign:
            other = sf.write_job(os.path.join(os.path.dirname(spec), f"other@{parts}"))
            arrived.insert(draw.randrange(len(arrived) + 1), other.shard(0).close())
            other.abort()
        try:
            report = job.commit(arrived)
            assert not lost and not foreign, "a set of messages with a wrong one was committed"
            assert pickle.loads(pickle.dumps(job)).commit(arrived[::-1]) == report
        except ValueError:
            assert lost or foreign
            job.abort()
        for steps in late:
            try:
                for one in steps:
                    step(*one)
                assert steps[-1][2] == "give up", "a task that comes too late succeeds"
            except RuntimeError as error:
                assert "the folder of the job does not exist" in str(error), error
            finally:
                if steps[0][:2] in writers:
                    writers[steps[0][:2]].abort()
        if lost or foreign:
            raise faulty.Stopped


CLUSTERS = {"dask": Dask, "ray": Ray, "spark": Spark, "beam": OneProcess, "messages": Messages}


def tree(folder):
    """The files below a folder, without the files' locks, which have no content."""
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def names(folder):
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*"))


class Run:
    """The cases of one engine, on one cluster."""

    def __init__(self, engine, work, library, seed):
        self.engine, self.work, self.library, self.seed = engine, work, library, seed
        self.source = str(work / "train@4")
        draw = random.Random(1)
        with sf.write(self.source) as writer:
            for n in range(ROWS):
                writer.write({"n": n, "x": [float(n)] * 3, "text": draw.randbytes(draw.randrange(2000)),
                              **({"some": list(range(n % 4))} if n % 7 else {})})
        self.records = sorted(sf.read(self.source))
        probe = work / "probe"
        probe.mkdir()
        done = subprocess.run([sys.executable, HERE / "faulty.py", "probe", self.source, probe], check=True,
                              env={**os.environ, "LD_PRELOAD": str(library)}, stdout=subprocess.PIPE)
        self.calls = json.loads(done.stdout)
        # What each kind of dataset consists of: only names depend on the number of parts.
        self.wanted = {parts: [name.replace(f"probe{parts}", STEM) for name in names(probe)
                               if f"probe{parts}" in name] for parts in range(1, 5)}
        self.old = work / "old"
        with sf.write(self.old / f"{STEM}@3") as writer:
            for n in range(50):
                writer.write({"n": n})
        self.old_tree = tree(self.old)
        self.bytes = sum(map(len, self.records))

    @contextlib.contextmanager
    def folder_of(self, case):
        folder = self.work / f"case{case.number}"
        folder.mkdir()
        if case.disk:
            # Room for a part of what is written; on top of it, the old dataset.
            room = int((0.05 + 1.3 * case.share) * self.bytes) + (200 << 10 if case.overwrite else 0)
            subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={room}", "shardfeed", folder], check=True)
        try:
            if case.overwrite:
                shutil.copytree(self.old, folder, dirs_exist_ok=True)
            yield folder
        finally:
            if case.disk:
                subprocess.run(["umount", "-l", folder], check=True)
            shutil.rmtree(folder)

    def check(self, cluster, case):
        """Returns what is wrong after this case, or nothing."""
        with self.folder_of(case) as folder:
            control = self.work / f"control{case.number}"
            control.mkdir()
            fault = case.fault(self.calls, control)
            arguments = {"source": self.source, "spec": str(folder / f"{STEM}@{case.parts}"),
                         "parts": case.parts, "overwrite": case.overwrite}
            signal.alarm(SECONDS)
            try:
                why = None
                if case.driver:
                    why = self.drive(cluster, case, control, {**arguments, "fault": vars(fault)})
                else:
                    cluster.write(case, fault=fault, **arguments)
            except TimeoutError:
                return f"no end after {SECONDS} seconds"
            except AssertionError as error:
                return f"{error}"
            except Exception as error:
                why = f"{type(error).__name__}: {error}"
            finally:
                signal.alarm(0)
            happened = bool(list(control.iterdir())) or case.disk or case.engine == "messages"
            wrong = self.find_wrong(folder, case, why)
            if wrong is None and not happened:
                wrong = "the fault has not happened"
            if wrong is None and why is None and case.times == 0 and not case.disk:
                wrong = "the write succeeded, though all attempts failed"
            return wrong and f"{wrong} ({why or 'the write succeeded'})"

    def drive(self, cluster, case, control, arguments):
        text = control.with_suffix(".json")
        text.write_text(json.dumps(arguments))
        done = subprocess.run([sys.executable, HERE / "faulty.py", case.engine, cluster.address, text],
                              env={**os.environ, "LD_PRELOAD": str(self.library)}, capture_output=True,
                              text=True)
        return None if done.returncode == 0 else f"status {done.returncode}: {done.stderr[-600:]}"

    def there(self, folder, case):
        """What the name refers to: "new", "old", "nothing", or a description of what is wrong."""
        spec = folder / f"{STEM}@*"
        if not list(folder.glob(f"{STEM}-*")) and not list(folder.glob(f".shardfeed/{STEM}.commit")):
            return "nothing"
        try:
            found = sorted(sf.read(spec))
            sf.verify(spec)
        except Exception as error:
            return f"unreadable: {type(error).__name__}: {error}"
        if found == self.records:
            return "new"
        if case.overwrite and {n: d for n, d in tree(folder).items()
                               if ".incomplete" not in n and ".jobs" not in n} == self.old_tree:
            return "old"
        return f"neither old nor new: {len(found)} records"

    def find_wrong(self, folder, case, why):
        """`why` the write failed; None: it has not."""
        before = "old" if case.overwrite else "nothing"
        allowed = {"new"} if why is None else {before}
        if why is not None and (case.of == "commit" or case.disk) and case.engine != "messages":
            allowed.add("new")
        first = self.there(folder, case)
        if first not in allowed:
            return f"{first}, where {' or '.join(sorted(allowed))} is expected"
        deadline = time.monotonic() + SETTLE
        while True:
            cleaned = subprocess.run([PROGRAM, "clean", folder / STEM, "--older-than", "0s"],
                                     capture_output=True, text=True)
            left = names(folder)
            there = self.there(folder, case)
            wanted = {"new": self.wanted[case.parts], "old": names(self.old), "nothing": []}.get(there)
            # The folder of sidecars may remain, whatever became of the dataset.
            left = [name for name in left if name != ".shardfeed" or there == "nothing"]
            wanted = wanted and [name for name in wanted if name != ".shardfeed"]
            if left == wanted and cleaned.returncode == 0:
                break
            if time.monotonic() > deadline:
                return f"clean (status {cleaned.returncode}, {cleaned.stderr}) leaves {left}"
            time.sleep(0.2)  # a late task may still be at work
        if there not in allowed or (first == "new" and there != "new"):
            return f"after clean {there}, where {' or '.join(sorted(allowed))} is expected"
        return None


@contextlib.contextmanager
def quiet(path):
    """What engines print about tasks that fail goes to a file."""
    kept = os.dup(1), os.dup(2)
    try:
        with open(path, "wb") as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
        yield
    finally:
        for number, one in enumerate(kept, 1):
            os.dup2(one, number)
            os.close(one)


def run_all(work, engines=ENGINES, seed=1, share=(1, 1), only="", progress=lambda text: None):
    """Returns the number of cases tried, and what is wrong. Logs are in `work`."""
    def ring(*_):
        raise TimeoutError
    signal.signal(signal.SIGALRM, ring)
    tried, wrong = 0, []
    library = fault_points.build_library(work)
    may_mount = os.geteuid() == 0
    for engine in engines:
        cases = [case for case in cases_of(engine, seed)[share[0] - 1::share[1]] if only in repr(case)]
        if not may_mount:
            left_out = [case for case in cases if case.disk]
            cases = [case for case in cases if not case.disk]
            if left_out:
                progress(f"{engine}: {len(left_out)} cases are not run: mounting a small disk takes root")
        folder = work / engine
        folder.mkdir()
        run = Run(engine, folder, library, seed)
        begun = time.monotonic()
        # What the cluster starts has the library of faults, which waits until a task sets its variables.
        os.environ["LD_PRELOAD"] = str(library)
        with quiet(work / f"{engine}.log"), CLUSTERS[engine]() as cluster:
            os.environ.pop("LD_PRELOAD")
            started = time.monotonic()
            for case in cases:
                at = time.monotonic()
                what = run.check(cluster, case)
                progress(f"  {case}: {what or 'right'}, {time.monotonic() - at:.1f} s")
                tried += 1
                if what:
                    wrong.append(f"{case}: {what}")
        progress(f"{engine}: {len(cases)} cases in {time.monotonic() - started:.0f} s, and "
                 f"{started - begun:.0f} s to begin")
    return tried, wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("engines", nargs="*", help=f"{', '.join(ENGINES)}; all without any")
    parser.add_argument("--share", default="1/1", help="k/n: every nth case, from the kth on")
    parser.add_argument("--seed", type=int, default=1, help="of the points of the faults")
    parser.add_argument("--only", default="", help="only cases whose description contains this text")
    arguments = parser.parse_args()
    first, step = map(int, arguments.share.split("/"))
    out = os.fdopen(os.dup(1), "w")
    with tempfile.TemporaryDirectory() as work:
        tried, wrong = run_all(pathlib.Path(work), arguments.engines or ENGINES, arguments.seed, (first, step),
                               arguments.only, lambda text: print(text, flush=True, file=out))
    for what in wrong:
        print(what)
    print(f"{tried - len(wrong)} passed, {len(wrong)} failed")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

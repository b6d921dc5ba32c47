"""The environments of measured processes: the built binaries, and a virtual environment for each peer."""

import json
import os
import pathlib
import platform
import shutil
import subprocess
import sys
import sysconfig

ROOT = pathlib.Path(__file__).resolve().parent.parent
TARGETS = ["cli:shardfeed", "python:_core.so", "benchmarks:records_benchmark",
           "benchmarks:pipeline_benchmark", "benchmarks:image_benchmark"]


def build(targets):
    """Builds the targets and returns the folder with the binaries (bazel-bin)."""
    environment = {**os.environ}
    environment.setdefault("SHARDFEED_PYTHON", sys.executable)
    startup = os.environ.get("SHARDFEED_BAZEL_STARTUP", "").split()
    subprocess.run(["bazel", *startup, "build", "--config=opt", "--noshow_progress",
                    "--ui_event_filters=-info", *(f"//{target}" for target in targets)],
                   cwd=ROOT, check=True, env=environment)
    return subprocess.run(["bazel", *startup, "info", "--config=opt", "bazel-bin"], cwd=ROOT,
                          check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                          env=environment).stdout.strip()


def refuse_debug_build(binaries):
    """Exits if the binaries are a debug build, whose figures would mislead; returns the version."""
    program = f"{binaries}/cli/shardfeed"
    try:
        version = subprocess.run([program, "--version"], check=True, capture_output=True,
                                 text=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError) as e:
        sys.exit(f"{program}: {e}; build it with --config=opt, or name another --binaries")
    if "debug build" in version:
        sys.exit(f"{program}: a debug build; its figures would mislead: build with --config=opt")
    return version


def package(binaries, folder):
    """Assembles the Python package, with the built extension, in `folder`."""
    target = pathlib.Path(folder) / "shardfeed"
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(ROOT / "python/shardfeed", target,
                    ignore=shutil.ignore_patterns("_core.*.so", "bin", "__pycache__"))
    extension = pathlib.Path(binaries) / "python/_core.so"
    if extension.exists():
        shutil.copy(extension, target / f"_core{sysconfig.get_config_var('EXT_SUFFIX')}")
    return str(folder)


def environment(folder, name, requirements):
    """Returns (the Python of a virtual environment with these packages, None), or (None, reason) if pip fails."""
    path = pathlib.Path(folder) / name.replace(" ", "_")
    python = path / "bin/python"
    stamp = path / "installed.json"
    if stamp.exists() and json.loads(stamp.read_text()) == requirements:
        return str(python), None
    shutil.rmtree(path, ignore_errors=True)
    print(f"installing {name}: {' '.join(requirements)}", file=sys.stderr, flush=True)
    subprocess.run([sys.executable, "-m", "venv", str(path)], check=True)
    done = subprocess.run([str(python), "-m", "pip", "install", "--quiet",
                           "--disable-pip-version-check", *requirements],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        lines = [line for line in done.stdout.splitlines() if line.strip()]
        errors = [line for line in lines if line.lstrip().startswith(("ERROR", "error"))]
        return None, f"pip: {(errors or lines or ['failed'])[-1].strip()}"
    stamp.write_text(json.dumps(requirements))
    return str(python), None


def machine():
    found = {"system": platform.platform(), "python": platform.python_version(),
             "cpus": len(os.sched_getaffinity(0))}
    for path, key, name in (("/proc/cpuinfo", "model name", "cpu"),
                            ("/proc/meminfo", "MemTotal", "memory"),
                            ("/etc/os-release", "PRETTY_NAME", "os")):
        try:
            with open(path) as file:
                for line in file:
                    if line.startswith(key):
                        found[name] = line.split(":" if ":" in line else "=", 1)[1].strip().strip('"')
                        break
        except OSError:
            pass
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True,
                            text=True)
    found["commit"] = commit.stdout.strip()
    return found

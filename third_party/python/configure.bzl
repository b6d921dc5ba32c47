"""Finds a Python with its headers and nanobind: the repository @python for python/BUILD.

The interpreter is SHARDFEED_PYTHON, else .venv/bin/python as scripts/setup makes it, else python3.
Where something is missing the repository is made all the same, and building the extension tells: the
rest of the tree builds without.
"""

_PROBE = """
import json, sysconfig
try:
    import nanobind
    source = nanobind.include_dir()
except ImportError:
    source = ""
print(json.dumps({"include": sysconfig.get_path("include"),
                  "suffix": sysconfig.get_config_var("EXT_SUFFIX"),
                  "gil_off": bool(sysconfig.get_config_var("Py_GIL_DISABLED")),
                  "nanobind": source, "version": sysconfig.get_python_version()}))
"""

_BUILD = """
package(default_visibility = ["//visibility:public"])

cc_library(
    name = "nanobind",
    srcs = ["nanobind/src/nb_combined.cpp"],
    hdrs = glob(["nanobind/include/**/*.h"]),
    copts = ["-w", "-fno-strict-aliasing", "-fvisibility=hidden", "-DNDEBUG", "-Os"],
    defines = [%s],
    includes = ["include", "nanobind/include", "nanobind/ext/robin_map/include"],
    textual_hdrs = glob([
        "include/**/*.h",
        "nanobind/ext/**/*.h",
        "nanobind/src/*.cpp",
        "nanobind/src/*.h",
    ], exclude = ["nanobind/src/nb_combined.cpp"]),
)
"""

# The name of the extension's file, for the program that loads it.
_NAME = r"""
cc_library(
    name = "extension_name",
    defines = ['SHARDFEED_EXTENSION=\\"_core%s\\"'],
)
"""

_BUILD_WITHOUT = """
package(default_visibility = ["//visibility:public"])

genrule(
    name = "message",
    outs = ["message.h"],
    cmd = "echo '%s' >&2; exit 1",
)

cc_library(
    name = "nanobind",
    hdrs = [":message"],  # made before what includes nanobind is compiled
)

cc_library(
    name = "extension_name",
    hdrs = [":message"],
)
"""

def _configure(ctx):
    root = ctx.path(Label("//:WORKSPACE")).dirname
    # Looked at anew when what .venv holds may have changed. Source distributions have no tests.
    requirements = root.get_child("tests").get_child("python").get_child("requirements.txt")
    if requirements.exists:
        ctx.read(requirements)
    venv = root.get_child(".venv").get_child("bin").get_child("python")
    if "SHARDFEED_PYTHON" in ctx.os.environ:
        python = ctx.os.environ["SHARDFEED_PYTHON"]
    elif venv.exists:
        python = venv
    else:
        python = ctx.which("python3")
    problem = None
    if python == None:
        problem = "there is no python3"
    else:
        done = ctx.execute([python, "-c", _PROBE])
        if done.return_code != 0:
            problem = "%s does not run" % python
        else:
            found = json.decode(done.stdout)
            if not found["nanobind"]:
                problem = "%s has no nanobind; pip install nanobind==3.1.0" % python
            elif not ctx.path(found["include"]).get_child("Python.h").exists:
                problem = "%s has no Python.h in %s; install python3-dev" % (python, found["include"])
    if problem:
        ctx.file("BUILD", _BUILD_WITHOUT % ("shardfeed: " + problem + ", or set SHARDFEED_PYTHON"))
        return
    ctx.symlink(found["include"], "include")
    base = ctx.path(found["nanobind"]).dirname
    for name in ["include", "src", "ext"]:
        ctx.symlink(base.get_child(name), "nanobind/" + name)
    defines = []
    suffix = found["suffix"]
    if found["gil_off"]:
        defines = ['"NB_FREE_THREADED"']
    elif [int(n) for n in found["version"].split(".")] >= [3, 12]:
        # One extension for this and all later ones, see build_package.py.
        defines = ['"Py_LIMITED_API=0x030C0000"']
        suffix = ".abi3.so"
    ctx.file("BUILD", _BUILD % ", ".join(defines) + _NAME % suffix)

python_configure = repository_rule(
    implementation = _configure,
    configure = True,
    local = True,
    environ = ["PATH", "SHARDFEED_PYTHON", "PYENV_VERSION", "VIRTUAL_ENV"],
)

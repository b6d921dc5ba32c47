"""Finds the libcurl that third_party/curl/build makes: the repository @curl.

It is in SHARDFEED_CURL, else in shardfeed/curl of the cache folder, where scripts/setup builds it. Where it
is missing the repository is made all the same, and building what uses it tells.
"""

_BUILD = """
package(default_visibility = ["//visibility:public"])

cc_import(
    name = "library",
    static_library = "lib/libcurl.a",
)

cc_library(
    name = "curl",
    hdrs = glob(["include/curl/*.h"]),
    includes = ["include"],
    # Debian's archives: libssl of the process may be another one.
    linkopts = ["-l:libssl.a", "-l:libcrypto.a", "-lpthread", "-ldl"],
    deps = [":library"],
)
"""

_BUILD_WITHOUT = """
package(default_visibility = ["//visibility:public"])

genrule(
    name = "message",
    outs = ["message.h"],
    cmd = "echo 'shardfeed: there is no libcurl in %s; scripts/setup builds it' >&2; exit 1",
)

cc_library(
    name = "curl",
    hdrs = [":message"],  # made before what includes it is compiled
)
"""

def _configure(ctx):
    environ = ctx.os.environ
    folder = environ.get("SHARDFEED_CURL")
    if not folder:
        cache = environ.get("XDG_CACHE_HOME") or environ.get("HOME", "") + "/.cache"
        folder = cache + "/shardfeed/curl"
    base = ctx.path(folder)
    if not base.get_child("stamp").exists:
        ctx.file("BUILD", _BUILD_WITHOUT % folder)
        return
    ctx.read(base.get_child("stamp"))  # looked at anew when it changes
    ctx.symlink(base.get_child("include"), "include")
    ctx.symlink(base.get_child("lib"), "lib")
    ctx.file("BUILD", _BUILD)

curl_configure = repository_rule(
    implementation = _configure,
    configure = True,
    local = True,
    environ = ["HOME", "SHARDFEED_CURL", "XDG_CACHE_HOME"],
)

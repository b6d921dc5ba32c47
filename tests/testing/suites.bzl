"""Suites that run twice: over folders, and over a store."""

def suite_here_and_in_store(name, srcs, deps, tags = []):
    """A test NAME, and a test NAME_in_store of the same cases, whose folders are in a bucket.

    Cases of what only folders have skip themselves (SKIP_OVER_STORE). The second one is not run under
    the sanitizers (scripts/test): its requests take long there, and tests/net has the client under them.
    """
    native.cc_library(
        name = name + "_cases",
        testonly = True,
        srcs = srcs,
        alwayslink = True,
        deps = deps,
    )
    native.cc_test(
        name = name,
        tags = tags,
        deps = [":" + name + "_cases"],
    )
    native.cc_test(
        name = name + "_in_store",
        tags = ["opt_only"],
        deps = [
            ":" + name + "_cases",
            "//tests/testing:in_store",
        ],
    )

"""A fuzz target: for libFuzzer, and as a test over the kept corpus."""

def fuzz_target(name, deps, mutations = 1000):
    """Makes NAME_fuzz and NAME_fuzz_test from NAME_fuzz.cc.

    NAME_fuzz has libFuzzer's main and needs --config=fuzz: see scripts/fuzz.

    Args:
      name: of the target; its corpus is testdata/fuzz/NAME.
      deps: what it tests and compares with.
      mutations: of each file of the corpus, in the test.
    """
    native.cc_library(
        name = name + "_input",
        testonly = True,
        srcs = [name + "_fuzz.cc"],
        deps = deps + [":fuzz"],
        alwayslink = True,
    )
    native.cc_test(
        name = name + "_fuzz_test",
        srcs = ["replay_main.cc"],
        args = [str(mutations), "$(locations //testdata:fuzz_" + name + ")"],
        data = ["//testdata:fuzz_" + name],
        deps = [":" + name + "_input"],
    )
    native.cc_binary(
        name = name + "_fuzz",
        testonly = True,
        linkopts = ["-fsanitize=fuzzer"],
        tags = ["manual"],
        deps = [":" + name + "_input"],
    )

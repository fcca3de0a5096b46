"""library, unit_test and unit_tests, and their like with LibTorch: a library is name.h and name.cc, a test is name.cc.

BUILD files write only the differences. Targets whose files use LibTorch are a torch_library, torch_unit_test, torch_unit_tests or binary.
"""

load("@wheels//:site.bzl", "LIBTORCH_VERSION")

# g++ does not tell Bazel that a file needs the precompiled headers. The version in their name is a part of each command, so
# that another LibTorch compiles every file again.
LIBTORCH_HEADERS = "libtorch_" + LIBTORCH_VERSION.replace("+", "_")

def _with_libtorch(arguments):
    """Returns the arguments of a rule with LibTorch in deps, and with copts by which files start with its precompiled headers."""

    # g++ 12 does not know then which functions come from a system header, and shows its false warnings of std::string.
    false_warnings = ["-Wno-" + name for name in ["array-bounds", "restrict", "stringop-overflow", "stringop-overread"]]
    header_options = ["-include", "tools/bazel/%s.h" % LIBTORCH_HEADERS] + false_warnings
    arguments["deps"] = arguments.get("deps", []) + ["@wheels//:libtorch", "//tools/bazel:" + LIBTORCH_HEADERS]
    arguments["copts"] = arguments.get("copts", []) + header_options
    return arguments

def library(name, srcs = None, hdrs = None, **kwargs):
    """The cc_library of name.h and name.cc, unless srcs or hdrs are given. One of the two files may be missing."""
    if srcs == None and hdrs == None:
        srcs = native.glob([name + ".cc"])
        hdrs = native.glob([name + ".h"])
        if not srcs and not hdrs:
            fail("neither %s.h nor %s.cc is in this folder" % (name, name))
    native.cc_library(name = name, srcs = srcs, hdrs = hdrs, **kwargs)

def torch_library(**kwargs):
    library(**_with_libtorch(kwargs))

def binary(**kwargs):
    """The cc_binary of srcs, with LibTorch."""
    native.cc_binary(**_with_libtorch(kwargs))

def unit_test(name, srcs = None, deps = [], size = "small", **kwargs):
    """The GoogleTest program of name.cc, unless srcs are given."""
    native.cc_test(name = name, size = size, srcs = srcs or [name + ".cc"], deps = deps + ["//tests:gtest_main"], **kwargs)

def torch_unit_test(**kwargs):
    unit_test(**_with_libtorch(kwargs))

def unit_tests(name, tests = None, srcs = [], deps = [], size = "small", **kwargs):
    """One GoogleTest program of the cases of several files: name.cc of each of `tests`, and srcs.

    Without `tests` it has every *_test.cc of the folder that no target above it has, so it stands at the end of its BUILD file.
    It is linked once, and loads LibTorch once. The files are compiled apart, each with the headers of all deps. All cases
    run in one process, so a test that changes the process for others is a unit_test: variables of the environment,
    limits, handlers of signals, the number of threads.
    """
    if tests == None:
        others = [source for rule in native.existing_rules().values() for source in rule.get("srcs", [])]
        files = native.glob(["*_test.cc"], exclude = [source[1:] for source in others if source.startswith(":")])
    else:
        files = [test + ".cc" for test in tests]
    native.cc_test(name = name, size = size, srcs = files + srcs, deps = deps + ["//tests:gtest_main"], **kwargs)

def torch_unit_tests(**kwargs):
    unit_tests(**_with_libtorch(kwargs))

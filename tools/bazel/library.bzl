"""library, binary, unit_test and unit_tests: a library is name.h and name.cc, a test is name.cc. BUILD files write only the differences."""

load("@wheels//:site.bzl", "LIBTORCH_VERSION")

# g++ does not tell Bazel that a file needs the precompiled headers. The version in their name is a part of each command, so
# that another LibTorch compiles every file again.
LIBTORCH_HEADERS = "libtorch_" + LIBTORCH_VERSION.replace("+", "_")

def starts_with_libtorch(deps, copts):
    """Returns the deps and copts of files that start with the precompiled headers of LibTorch, if LibTorch is in `deps`."""
    if "@wheels//:libtorch" not in deps:
        return {"deps": deps, "copts": copts}

    # g++ 12 does not know then which functions come from a system header, and shows its false warnings of std::string.
    false_warnings = ["-Wno-" + name for name in ["array-bounds", "restrict", "stringop-overflow", "stringop-overread"]]
    header_options = ["-include", "tools/bazel/%s.h" % LIBTORCH_HEADERS] + false_warnings
    return {"deps": deps + ["//tools/bazel:" + LIBTORCH_HEADERS], "copts": copts + header_options}

def library(name, srcs = None, hdrs = None, deps = [], copts = [], **kwargs):
    """The cc_library of name.h and name.cc, unless srcs or hdrs are given. One of the two files may be missing."""
    if srcs == None and hdrs == None:
        srcs = native.glob([name + ".cc"])
        hdrs = native.glob([name + ".h"])
        if not srcs and not hdrs:
            fail("neither %s.h nor %s.cc is in this folder" % (name, name))
    kwargs.update(starts_with_libtorch(deps, copts))
    native.cc_library(name = name, srcs = srcs, hdrs = hdrs, **kwargs)

def binary(name, deps = [], copts = [], **kwargs):
    """The cc_binary of srcs."""
    kwargs.update(starts_with_libtorch(deps, copts))
    native.cc_binary(name = name, **kwargs)

def unit_test(name, srcs = None, deps = [], copts = [], size = "small", **kwargs):
    """The GoogleTest program of name.cc, unless srcs are given."""
    kwargs.update(starts_with_libtorch(deps + ["//tests:gtest_main"], copts))
    native.cc_test(name = name, size = size, srcs = srcs or [name + ".cc"], **kwargs)

def unit_tests(name, tests = None, srcs = [], deps = [], copts = [], size = "small", **kwargs):
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
    kwargs.update(starts_with_libtorch(deps + ["//tests:gtest_main"], copts))
    native.cc_test(
        name = name,
        size = size,
        srcs = files + srcs,
        **kwargs
    )

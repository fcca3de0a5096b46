"""mpi_test: a GoogleTest binary that runs under mpirun, once for each number of ranks."""

load("//tools/bazel:library.bzl", "binary")
load("//tools/bazel:program.bzl", "link")

def rank_tests(name, tests, deps):
    """One executable of name.cc of each of `tests`, for mpi_test(executable = ...). It is linked once, and a change repeats all of them."""
    binary(
        name = name,
        testonly = True,
        srcs = [test + ".cc" for test in tests],
        deps = deps + ["//tests/sharding:mpi_main", "@debian//:gtest"],
    )

def mpi_test(name, deps = [], executable = None, ranks = [1, 2, 3, 4], seconds = 50, size = "medium", tags = []):
    """The executable of name.cc, or a link to the executable of rank_tests; and one test `<name>_<n>` per number of ranks; `<name>` is the suite of them.

    A failure on any rank fails the test, its output names the rank, and after `seconds` all ranks are ended. The test
    reaches its RankSession by tests/sharding/mpi_main.h. With several ranks it takes two halves of a core (.bazelrc).
    """
    binary = name + "_ranks"
    if executable:
        link(name = binary, testonly = True, executable = executable)
    else:
        rank_tests(name = binary, tests = [name], deps = deps)
    for count in ranks:
        native.sh_test(
            name = "%s_%d" % (name, count),
            size = size,
            srcs = ["//tools/bazel:mpi_test.sh"],
            args = [str(seconds), str(count), "$(rootpath :%s)" % binary],
            data = [":" + binary],
            tags = tags + (["cpu:2"] if count > 1 else []),
        )
    native.test_suite(
        name = name,
        tests = [":%s_%d" % (name, count) for count in ranks],
    )

"""mpi_test: a GoogleTest binary that runs under mpirun, once for each number of ranks."""

load("//tools/bazel:library.bzl", "starts_with_libtorch")

def mpi_test(name, srcs, deps, ranks = [1, 2, 3, 4], seconds = 50, size = "medium", data = [], args = [], tags = [], copts = []):
    """A test binary, and one test `<name>_<n>` per number of ranks; `<name>` is the suite of them.

    A failure on any rank fails the test, its output names the rank, and after `seconds` all ranks are ended. The test
    reaches its Bootstrap by tests/sharding/mpi_main.h. With several ranks it takes two cores.
    """
    binary = name + "_ranks"
    native.cc_binary(
        name = binary,
        testonly = True,
        srcs = srcs,
        visibility = ["//tools:__pkg__"],
        **starts_with_libtorch(deps + ["//tests/sharding:mpi_main", "@debian//:gtest"], copts)
    )
    for count in ranks:
        native.sh_test(
            name = "%s_%d" % (name, count),
            size = size,
            srcs = ["//tools/bazel:mpi_test.sh"],
            args = [str(seconds), str(count), "$(rootpath :%s)" % binary] + args,
            data = [":" + binary] + data,
            tags = tags + (["cpu:2"] if count > 1 else []),
        )
    native.test_suite(
        name = name,
        tests = [":%s_%d" % (name, count) for count in ranks],
    )

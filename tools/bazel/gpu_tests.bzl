"""gpu_tests: files of GoogleTest cases that need one GPU. The files of all rooms are the executable //tests:gpu_tests, and each file is a link to it."""

load("//tools/bazel:library.bzl", "torch_library")
load("//tools/bazel:program.bzl", "LINK")

# The folders that have gpu_tests.
GPU_ROOMS = [
    "//tests/kernels/attention",
    "//tests/kernels/generation",
    "//tests/kernels/gpus",
    "//tests/kernels/quantize",
    "//tests/kernels/sparsity",
    "//tests/kernels",
    "//tests/sharding",
    "//tests/tools/bench",
    "//tests/tools/generation",
    "//tests/trainer/checkpoint",
    "//tests/trainer/memory",
]

_link_test = rule(test = True, **LINK)

def gpu_tests(tests, srcs = [], deps = [], **kwargs):
    """A test for each of `tests`, and the library gpu_tests of name.cc of each, and of srcs. The files have the headers of all deps.

    x_gpu_test without a file runs the cases of x.cc, which a library in deps has. A new test is named in
    tools/launcher/gpu_test.sh. The archive has the links of all rooms.
    """
    torch_library(
        name = "gpu_tests",
        testonly = True,
        srcs = native.glob([test + ".cc" for test in tests]) + srcs,
        hdrs = [],
        alwayslink = True,
        visibility = ["//tests:__pkg__"],
        deps = deps + ["@debian//:gtest"],
        **kwargs
    )
    for test in tests:
        _link_test(name = test, executable = "//tests:gpu_tests", tags = ["gpu"])
    native.filegroup(name = "gpu_links", testonly = True, srcs = tests, visibility = ["//tools:__pkg__"])

"""python_test: runs a unittest file with the Python of .venv, which has the wheels. Its cases are reported one by one."""

load("@wheels//:site.bzl", "PYTHON")

def python_test(name, srcs, data = [], args = [], size = "medium", **kwargs):
    """`srcs` is one file with unittest cases; paths of `data` are relative to the working directory of the test."""
    native.sh_test(
        name = name,
        size = size,
        srcs = ["//tools/bazel:python_test.sh"],
        args = [PYTHON, "$(location //tools/bazel:run_unittest.py)", "$(location %s)" % srcs[0]] + args,
        data = srcs + data + ["//tools/bazel:run_unittest.py"],
        **kwargs
    )

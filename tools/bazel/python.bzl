"""python_test: runs a unittest file with the Python of .venv, which has the wheels. Its cases are reported one by one."""

load("@wheels//:site.bzl", "PYTHON")

def python_test(name, data = [], args = [], size = "medium", **kwargs):
    """The unittest cases of name.py. Paths of `data` are relative to the working directory of the test."""
    source = name + ".py"
    native.sh_test(
        name = name,
        size = size,
        srcs = ["//tools/bazel:python_test.sh"],
        args = [PYTHON, "$(location //tools/bazel:run_unittest.py)", "$(location %s)" % source] + args,
        data = [source] + data + ["//tools/bazel:run_unittest.py"],
        **kwargs
    )

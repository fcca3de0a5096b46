"""triton_library: the kernels of a _triton.py file as cubins for Hopper, with a typed launcher each; no GPU is needed."""

load("@wheels//:site.bzl", "PYTHON")

def triton_library(name, src, data = [], **kwargs):
    """The cc_library `name` of `<src>_kernels.h`. `data` are the Python files that `src` imports. A cubin takes 0.1 s to 2 s."""
    base = src[:-len(".py")] + "_kernels"
    native.genrule(
        name = name + "_cubins",
        srcs = [src, "//kernels/runtime:triton_kernel.py"] + data,
        outs = [base + ".h", base + ".cc"],
        cmd = PYTHON + " $(location //tools:triton_compile.py) $(location " + src + ") $(location " + base + ".h) $(location " + base + ".cc)",
        tools = ["//tools:triton_compile.py"],
    )
    # Tests make a list of all kernels of it.
    native.filegroup(name = name + "_header", srcs = [base + ".h"], visibility = ["//tests/kernels:__pkg__"])
    native.cc_library(
        name = name,
        srcs = [base + ".cc"],
        hdrs = [base + ".h"],
        visibility = ["//kernels:__subpackages__", "//tests:__subpackages__"],
        deps = ["//kernels/runtime:triton_runtime", "@wheels//:libtorch"],
        **kwargs
    )

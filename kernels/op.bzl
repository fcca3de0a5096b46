"""op_library: one op's folder, with its `.py` definition embedded as text for the TorchScript level, its Triton kernels and its `.cu` file."""

load("//tools/bazel:cuda.bzl", "cuda_library")
load("//tools/bazel:triton.bzl", "triton_library")

# Every op.
OPS = [
    "//kernels/activation",
    "//kernels/adamw",
    "//kernels/attention",
    "//kernels/cross_entropy",
    "//kernels/dropout",
    "//kernels/embedding",
    "//kernels/global_norm",
    "//kernels/layer_norm",
    "//kernels/linear",
    "//kernels/linear_cross_entropy",
    "//kernels/neighbor_aggregate",
    "//kernels/rms_norm",
    "//kernels/rotary",
    "//kernels/swiglu",
]

def op_library(name, srcs = [], deps = [], triton = False, triton_data = [], cuda = False, **kwargs):
    """The cc_library `name` of name.h and name.cc; name.py becomes `name_formula.h` with the constant kFormula.

    With triton, the kernels of name_triton.py (which imports triton_data) and their tensors' side (name_triton.cc) belong
    to it; with cuda, the launchers of name.cu (name_cuda.h) and their tensors' side (name_cuda.cc).
    """
    if triton:
        triton_library(
            name = name + "_triton",
            src = name + "_triton.py",
            data = triton_data,
        )
        srcs = srcs + [name + "_triton.cc"]
        deps = deps + [":" + name + "_triton"]
    if cuda:
        cuda_library(
            name = name + "_cuda",
            srcs = [name + ".cu"],
            hdrs = [
                name + "_cuda.h",
                "//kernels:cuda_headers",
            ] + native.glob(["*.cuh"], allow_empty = True),
        )
        srcs = srcs + [name + "_cuda.cc"]
        deps = deps + [
            ":" + name + "_cuda",
            "//kernels:cuda_host",
            "//kernels:launch_check",
        ]
    native.filegroup(
        name = name + "_sources",
        srcs = native.glob(["*." + kind for kind in ["h", "cc", "cu", "cuh", "py"]]),
        visibility = ["//kernels:__pkg__"],
    )
    native.genrule(
        name = name + "_formula",
        srcs = [name + ".py"],
        outs = [name + "_formula.h"],
        cmd = "{ echo '#pragma once'; echo 'static constexpr char kFormula[] = R\"formula('; cat $<; echo ')formula\";'; } > $@",
    )
    # What level aot_inductor compiles.
    native.filegroup(
        name = "programs",
        srcs = native.glob([name + ".py", name + "_programs.py"]),
        visibility = [
            "//kernels:__pkg__",
            "//tests/kernels:__pkg__",
        ],
    )
    # The definition and level triton, for tests that run them in Python.
    native.filegroup(
        name = "python",
        srcs = native.glob(["*.py"]),
        visibility = ["//tests:__subpackages__"],
    )
    native.cc_library(
        name = name,
        srcs = [name + ".cc", name + "_formula.h"] + srcs,
        hdrs = [name + ".h"],
        visibility = ["//kernels:users"],
        deps = [
            "//kernels:aot_inductor_runtime",
            "//kernels:kernel_table",
            "//kernels:torchscript_runtime",
            "//kernels:weight_gradient",
            "@wheels//:libtorch",
        ] + deps,
        **kwargs
    )

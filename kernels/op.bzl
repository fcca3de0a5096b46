"""op_library: the targets of one op's folder: the op with its `.py` definition embedded as text, Triton and CUDA kernels."""

load("//tools/bazel:cuda.bzl", "cuda_library")
load("//tools/bazel:triton.bzl", "triton_library")

# All ops; each one is a folder here. Everything that covers all ops is generated from this list.
OP_NAMES = [
    "activation",
    "adamw",
    "attention",
    "cross_entropy",
    "dropout",
    "embedding",
    "global_norm",
    "layer_norm",
    "linear",
    "linear_cross_entropy",
    "neighbor_aggregate",
    "rms_norm",
    "rotary",
    "swiglu",
]

# Kinds of files that are hashed into the version of the kernels.
SOURCES = ["h", "cc", "cu", "cuh", "py"]

OPS = ["//kernels/" + name for name in OP_NAMES]

def op_library(name, srcs = [], deps = [], triton = False, triton_data = [], cuda = False, cuda_headers = [], **kwargs):
    """The cc_library `name` of name.h and name.cc; name.py becomes `name_formula.h` with the constant kFormula.

    With triton, it also has the kernels of name_triton.py, which may import triton_data, and name_triton.cc, which calls
    them with tensors. With cuda, it also has the launchers of name.cu, which are declared in name_cuda.h and may include
    cuda_headers, and name_cuda.cc, which calls them with tensors.
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
                "//kernels/cuda:cuda_headers",
            ] + cuda_headers + native.glob(["*.cuh"], allow_empty = True),
        )
        srcs = srcs + [name + "_cuda.cc"]
        deps = deps + [
            ":" + name + "_cuda",
            "//kernels/cuda:gradient_target",
            "//kernels/cuda:launch",
            "//kernels/cuda:launch_check",
        ]
    native.filegroup(
        name = name + "_sources",
        srcs = native.glob(["*." + kind for kind in SOURCES]),
        visibility = ["//kernels/runtime:__pkg__"],
    )
    native.genrule(
        name = name + "_formula",
        srcs = [name + ".py"],
        outs = [name + "_formula.h"],
        cmd = "{ echo '#pragma once'; echo 'static constexpr char kFormula[] = R\"formula('; cat $<; echo ')formula\";'; } > $@",
    )
    # Files that level aot_inductor compiles; none if the op does not have that level.
    programs = native.glob([name + "_programs.py"])
    native.filegroup(
        name = "programs",
        srcs = [name + ".py"] + programs if programs else [],
        visibility = [
            "//kernels:__pkg__",
            "//tests/kernels:__pkg__",
        ],
    )
    # The definition and the Triton kernels, for tests that run them in Python.
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
            "//kernels/runtime:aot_inductor_runtime",
            "//kernels/runtime:kernel_table",
            "//kernels/runtime:torchscript_runtime",
            "//kernels/runtime:traced",
            "//kernels/runtime:weight_gradient",
            "@wheels//:libtorch",
        ] + deps,
        **kwargs
    )

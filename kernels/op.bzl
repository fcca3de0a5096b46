"""op_library: one op's folder, with its `.py` definition embedded as text for the TorchScript level, and its `.cu` file."""

load("//tools/bazel:cuda.bzl", "cuda_library")

def op_library(name, srcs = [], deps = [], cuda = False, **kwargs):
    """The cc_library `name` of name.h and name.cc; name.py becomes `name_formula.h` with the constant kFormula.

    With cuda, the launchers of name.cu (name_cuda.h) and their tensors' side (name_cuda.cc) belong to it.
    """
    if cuda:
        cuda_library(
            name = name + "_cuda",
            srcs = [name + ".cu"],
            hdrs = [
                name + "_cuda.h",
                "//kernels:cuda_headers",
            ],
        )
        srcs = srcs + [name + "_cuda.cc"]
        deps = deps + [
            ":" + name + "_cuda",
            "//kernels:cuda_host",
            "//kernels:launch_check",
        ]
    native.genrule(
        name = name + "_formula",
        srcs = [name + ".py"],
        outs = [name + "_formula.h"],
        cmd = "{ echo '#pragma once'; echo 'static constexpr char kFormula[] = R\"formula('; cat $<; echo ')formula\";'; } > $@",
    )
    native.cc_library(
        name = name,
        srcs = [name + ".cc", name + "_formula.h"] + srcs,
        hdrs = [name + ".h"],
        visibility = ["//kernels:users"],
        deps = [
            "//kernels:kernel_table",
            "//kernels:torchscript_runtime",
            "//kernels:weight_gradient",
            "@wheels//:libtorch",
        ] + deps,
        **kwargs
    )

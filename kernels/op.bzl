"""op_library: one op's folder, with its `.py` definition embedded as text for the TorchScript level."""

def op_library(name, srcs = [], deps = [], **kwargs):
    """The cc_library `name` of name.h and name.cc; name.py becomes `name_formula.h` with the constant kFormula."""
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

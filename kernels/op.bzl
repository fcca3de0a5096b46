"""op_library: one op's folder, with its `.py` definition embedded as text for the TorchScript level."""

def op_library(name, srcs = [], deps = [], **kwargs):
    """The cc_library `name` of name.h and name.cc; name.py becomes `name_formula.h` with the constant kFormula."""
    native.genrule(
        name = name + "_formula",
        srcs = [name + ".py"],
        outs = [name + "_formula.h"],
        cmd = "{ echo '#pragma once'; echo 'static constexpr char kFormula[] = R\"formula('; cat $<; echo ')formula\";'; } > $@",
    )
    native.filegroup(
        name = "programs",
        srcs = native.glob([name + ".py", name + "_programs.py"]),
        visibility = [
            "//kernels:__pkg__",
            "//tests/kernels:__pkg__",
        ],
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

"""op_library: the targets of one op's folder: the op with its `.py` definition embedded as text, Triton and CUDA kernels."""

load("//tools/bazel:cuda.bzl", "cuda_library")
load("//tools/bazel:library.bzl", "library", "torch_library")
load("//tools/bazel:triton.bzl", "triton_library")

# All ops; each one is a folder here. Everything that covers all ops is generated from this list, in this order.
OP_NAMES = [
    "linear",
    "layer_norm",
    "rms_norm",
    "activation",
    "swiglu",
    "rotary",
    "rms_norm_rotary",
    "attention",
    "embedding",
    "dropout",
    "cross_entropy",
    "linear_cross_entropy",
    "neighbor_aggregate",
    "adamw",
    "sum_of_squares",
]

# Ops without a key of their own in `kernels:`. key() of their shape says which key covers them.
COVERED_BY_OTHERS = ["swiglu", "rms_norm_rotary"]

# Ops whose level cuda is calls of a library alone, and the oldest compute capability for which the library has the function.
LIBRARY_CALLS = {"attention": "80"}  # cudnn-frontend: "SDPA FP16/BF16 requires SM80 (Ampere) or newer architecture"

# Kinds of files that are hashed into the version of the kernels.
SOURCES = ["h", "cc", "cu", "cuh", "py"]

# Files that change no measured time.
NOT_TIMED = ["*_shape.h", "*_shape.cc", "*_proof.*", "*_test.*", "norm_work.h", "plain_*.h", "op_shape.*", "call_observer.*", "*gpus.*"]

OPS = ["//kernels/" + name for name in OP_NAMES]

# The proofs and workloads of all ops, which only tests and tools use.
PROOFS = ["//kernels/%s:%s_proof" % (name, name) for name in OP_NAMES]

# The tests of the definitions of all ops against plain loops.
TESTS = ["//kernels/%s:%s_test.cc" % (name, name) for name in OP_NAMES]

def header_of_ops(name, lines):
    """Generates the header name.h.

    A line with <op> or <Op> is there for each op: linear_cross_entropy, LinearCrossEntropy. A line with <key> is there for
    each key of `kernels:`.
    """
    text = ["#pragma once"]
    for line in lines:
        if "<key>" in line:
            text += [line.replace("<key>", op) for op in OP_NAMES if op not in COVERED_BY_OTHERS]
        elif "<op>" in line or "<Op>" in line:
            for op in OP_NAMES:
                camel = "".join([word.capitalize() for word in op.split("_")])
                text.append(line.replace("<op>", op).replace("<Op>", camel))
        else:
            text.append(line)
    native.genrule(name = name, outs = [name + ".h"], cmd = "cat > $@ <<'END'\n%s\nEND" % "\n".join(text))

def op_library(
        name,
        srcs = [],
        deps = [],
        shape_deps = [],
        triton = False,
        triton_data = [],
        cuda = False,
        cuda_headers = [],
        oldest = None,
        portable = False,
        hdrs = [],
        proof_deps = [],
        **kwargs):
    """The cc_library `name` of name.h, hdrs and name.cc; name.py becomes `name_formula.h` with the constant kFormula.

    name_shape.h is a library of its own, which may include shape_deps. name_proof.cc is one that only tests and tools
    link, and may include proof_deps. name_test.cc, the definition against plain loops, is a part of //tests/kernels:tests.
    name_triton_test.py is a part of //tests/kernels/interpreter:triton_interpreter_test.

    With triton, it also has the kernels of name_triton.py, which may import triton_data, and name_triton.cc, which calls
    them with tensors. With cuda, it also has the launchers of name.cu, which are declared in name_cuda.h and may include
    cuda_headers, and name_cuda.cc, which calls them with tensors. `oldest` and `portable` are as in cuda_library.
    """
    if triton:
        triton_library(
            name = name + "_triton",
            src = name + "_triton.py",
            data = triton_data,
        )
        srcs = srcs + [name + "_triton.cc"]
        deps = deps + [":" + name + "_triton"]
    else:
        native.cc_library(name = name + "_triton", visibility = ["//tests/kernels:__pkg__"])
        native.filegroup(name = name + "_triton_header", visibility = ["//tests/kernels:__pkg__"])
    if cuda:
        cuda_library(
            name = name + "_cuda",
            srcs = [name + ".cu"],
            hdrs = [
                name + "_cuda.h",
                "//kernels/cuda:cuda_headers",
            ] + cuda_headers + native.glob(["*.cuh"], allow_empty = True),
            deps = ["//kernels/cuda:multiprocessors"],
            oldest = oldest,
            portable = portable,
        )
        srcs = srcs + [name + "_cuda.cc"]
        deps = deps + [
            ":" + name + "_cuda",
            "//kernels/cuda:gradient_output",
            "//kernels/cuda:is_on_hopper",
            "//kernels/cuda:launch",
            "//kernels/cuda:launch_check",
        ]
    native.filegroup(
        name = "triton_code",
        srcs = [name + "_triton_kernels.cc"] if triton else [],
        visibility = ["//tests/kernels/gpus:__pkg__"],
    )
    # The code of level cuda for other GPUs than Hopper too, and that for Hopper which is compiled apart.
    native.filegroup(
        name = "portable_cuda_code",
        srcs = ([name + ".cu.o"] if oldest or portable else []) + ([name + "_hopper.o", name + "_portable.o"] if portable else []),
        visibility = ["//tests/kernels/gpus:__pkg__"],
    )
    native.exports_files([name + "_test.cc"], visibility = ["//tests/kernels:__pkg__"])
    native.filegroup(
        name = name + "_sources",
        srcs = native.glob(["*." + kind for kind in SOURCES], exclude = NOT_TIMED),
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
    # The definition, the Triton kernels and their tests, for tests that run them in Python.
    native.filegroup(
        name = "python",
        srcs = native.glob(["*.py"]),
        visibility = ["//tests:__subpackages__"],
    )
    library(
        name = name + "_shape",
        visibility = ["//kernels:users"],
        deps = ["//kernels/runtime:op_shape"] + shape_deps,
    )
    torch_library(
        name = name + "_proof",
        visibility = ["//kernels:provers"],
        deps = [":" + name, ":" + name + "_shape", "//kernels/proof:op_proof"] + proof_deps,
    )
    torch_library(
        name = name,
        srcs = [name + ".cc", name + "_formula.h"] + srcs,
        hdrs = [name + ".h"] + hdrs,
        visibility = ["//kernels:users"],
        deps = [
            ":" + name + "_shape",
            "//kernels/runtime:aot_inductor_runtime",
            "//kernels/runtime:gradient_destination",
            "//kernels/runtime:kernel_table",
            "//kernels/runtime:torchscript_runtime",
            "//kernels/runtime:traced",
        ] + deps,
        **kwargs
    )

# SPDX-License-Identifier: MIT
"""Compiles missing packages that a configuration needs; tools/strata packages and tools/strata train call it."""
import argparse
import contextlib
import fcntl
import glob
import importlib.metadata
import os
import subprocess
import sys
from fnmatch import fnmatch

import make_packages

# Patterns of "op/function" that models of images never call.
UNUSED_BY_IMAGES = (
    "activation/*", "embedding/*", "layer_norm/*gelu*", "linear/*gelu_tanh*", "linear/linear_relu", "linear/relu_gradient", "linear/linear_none",
    "rms_norm/*", "rotary/*", "swiglu/*",
)  # fmt: skip
# Patterns of "op/function" that models of a family, or of a type without families, never call.
UNUSED = {
    "llama": ("activation/*", "layer_norm/*", "linear/*bias*", "linear/*gelu*", "linear/linear_relu", "linear/relu_gradient"),
    "gpt2": (
        "activation/*", "layer_norm/*gelu*", "linear/linear_relu", "linear/relu_gradient", "linear/gelu_gradient", "linear/linear_gelu", "rms_norm/*",
        "rotary/*", "swiglu/*",
    ),
    "vision_transformer": UNUSED_BY_IMAGES,
    "mixer": UNUSED_BY_IMAGES,
    "graph_network": (
        "activation/*gelu*", "activation/*silu*", "embedding/*", "layer_norm/*gelu*", "linear/*gelu*", "rms_norm/*", "rotary/*", "swiglu/*",
    ),
}  # fmt: skip
# Functions that take gradients, which may have a dtype of their own.
OF_GRADIENTS = ("adamw/*", "global_norm/*")
# Keys of `kernels:` that select an op, if they differ from its name.
CHOSEN_BY = {"swiglu": {"activation"}, "cross_entropy": {"cross_entropy", "linear_cross_entropy"}}


def widths_of_model(values):
    """Returns the sizes of the letters in this model: [(pattern of op/function, widths)]."""
    number = lambda key: int(values.get(key) or 0)
    width, heads = number("model.width"), number("model.heads")
    key_value_heads = number("model.key_value_heads") or heads
    feed_forward = number("model.feed_forward") or 4 * width
    classes = number("model.classes")
    head_width = width // heads if heads else 0
    all_heads = heads + 2 * key_value_heads
    of_family = []
    if values["model.type"] == "mixer":  # its MLPs over patches
        patches = (number("model.image_size") // number("model.patch")) ** 2
        of_family = [("linear/*gelu*", f"o={number('model.token_width') or width // 2}"), ("linear/bias_gradient", f"o={patches}")]
    return of_family + [
        ("rms_norm/*", f"d={width}"),
        ("layer_norm/*", f"d={width}"),
        ("embedding/*", f"d={width}"),
        ("swiglu/*", f"f={feed_forward}"),
        ("linear/*gelu*", f"o={feed_forward}"),
        ("linear/bias_gradient", f"o={all_heads * head_width}"),
        ("linear/bias_gradient", f"o={width}"),
        ("linear/bias_gradient", f"o={classes}"),
        ("cross_entropy/*", f"v={number('model.vocabulary') or classes},c=16"),
        ("rotary/*", f"a={all_heads},e={head_width // 2}"),
        ("activation/*", "c=16"),
        ("adamw/*", "c=16"),
        ("global_norm/*", "c=16"),
    ]


def is_asked_for(widths):
    """The rule of AotWidths in kernels/runtime/aot_inductor_runtime.h, which requests other widths as any (`*`)."""
    if not widths or "*" in widths.values():
        return True
    letter, size = list(widths.items())[-1]
    return size % 16 == 0 if letter in "ce" else size >= 256 and size % 8 == 0


def needed(formulas, values, architecture, version, ops="all"):
    """Returns the requests for make_packages.py by their keys."""
    dtypes = set(values["precision.compute"].split(","))  # compute dtypes of all parameter groups
    gradients = dtypes | {values["precision.reduce"], "float32"}
    unused = UNUSED[values.get("model.family") or values["model.type"]]
    requests = {}
    for path in formulas:
        op = os.path.splitext(os.path.basename(path))[0]
        if ops != "all" and not CHOSEN_BY.get(op, {op}) & set(ops.split(",")):
            continue
        with open(path, "rb") as file:
            text = file.read()
        for program in make_packages.loaded(path[: -len(".py")] + "_programs.py").PROGRAMS:
            name = f"{op}/{program.function}"
            if any(fnmatch(name, pattern) for pattern in unused):
                continue
            sets = ["*"]
            if architecture != "x86-64-v3":
                sets += [widths for pattern, widths in widths_of_model(values) if fnmatch(name, pattern)]
            of_program = gradients if any(fnmatch(name, pattern) for pattern in OF_GRADIENTS) else dtypes
            if name == "dropout/dropout_rows" and float(values.get("model.stochastic_depth") or 0) > 0:
                of_program = dtypes | {"float32"}  # stochastic depth draws one float32 number per sample
            for dtype in sorted(of_program):
                for widths in filter(is_asked_for, make_packages.sets_of_widths(sets, program.widths, dtype)):
                    key = make_packages.key_of(
                        version, op, program.function, dtype, make_packages.text_of(widths), architecture, text
                    )
                    chosen = "*" if "*" in widths.values() or not widths else make_packages.text_of(widths)
                    requests[key] = f"{op} {program.function} {dtype} {chosen}"
    return requests


def keys_that_exist(folders):
    keys = set()
    for folder in folders:
        for path in glob.glob(os.path.join(folder, "*.txt")) + glob.glob(os.path.join(folder, "*_packages", "*.txt")):
            with open(path, encoding="utf-8") as file:
                keys.update(line.split("\t")[1] for line in file if line.startswith("function\t"))
    return keys


@contextlib.contextmanager
def alone_in(folder):
    """Commands that are started together run one after another, so that each finds what the others have compiled."""
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, ".lock"), "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"strata: waiting for another command that compiles into {folder}", file=sys.stderr)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--value", action="append", default=[], help="KEY=VALUE of the resolved configuration")
    parser.add_argument("--ops", default="all", help="keys of `kernels:` with commas between")
    parser.add_argument("--architecture", required=True)
    parser.add_argument("--root", required=True, help="of the checkout or of the archive: kernels/<op>/<op>.py lie there")
    parser.add_argument("--built", required=True, help="the folder of packages that came with the program")
    parser.add_argument("--output", required=True, help="where new ones go")
    arguments = parser.parse_args()
    values = dict(value.split("=", 1) for value in arguments.value)
    formulas = sorted(path.replace("_programs.py", ".py") for path in glob.glob(arguments.root + "/kernels/*/*_programs.py"))
    version = importlib.metadata.version("torch").split("+")[0]
    requests = needed(formulas, values, arguments.architecture, version, arguments.ops)

    def missing():
        present = keys_that_exist([arguments.built, arguments.output])
        return [request for key, request in requests.items() if key not in present]

    if missing():  # otherwise nothing is written: the folder may be read-only
        with alone_in(arguments.output):
            compile_functions(formulas, missing(), arguments)


def compile_functions(formulas, functions, arguments):
    if not functions:
        return
    print(f"strata: compiling {len(functions)} functions of level aot_inductor for {arguments.architecture} into "
          f"{arguments.output}: half a minute, and a second or two for each; once", file=sys.stderr)  # fmt: skip
    command = [sys.executable, "-W", "ignore", os.path.join(os.path.dirname(__file__), "make_packages.py"), *formulas]
    for request in functions:
        command += ["--function", request]
    done = subprocess.run([*command, "--architecture", arguments.architecture, "--output", arguments.output])
    if done.returncode:
        sys.exit(done.returncode)


if __name__ == "__main__":
    main()

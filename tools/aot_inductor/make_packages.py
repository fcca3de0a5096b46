# SPDX-License-Identifier: MIT
"""Makes packages of level aot_inductor: `make_packages.py FORMULA... --architecture A --dtypes D,... --widths W...`.

Each formula file becomes one library with all of its functions, for every dtype and every set of widths: `--widths "*"`
(any width, 64-bit indexing), `--widths d=4096`, or `--widths bfloat16:d=4096` for one dtype only.
"""
import argparse
import hashlib
import importlib.util
import os
import re
import shutil
import sys
import tempfile

RECIPE = 1  # counts up when the same formula is compiled differently; kernels/aot_inductor_package.cc has it too


def sets_of_widths(texts, letters, dtype):
    """["*", "bfloat16:d=4096"] -> [{"d": "*"}, {"d": 4096}], those for `dtype` with all of the `letters`, each once."""
    found = []
    for text in texts:
        only, _, text = text.rpartition(":")
        if only not in ("", dtype):
            continue
        if text == "*":
            sizes = {letter: "*" for letter in letters}
        else:
            sizes = {pair.split("=")[0]: int(pair.split("=")[1]) for pair in text.split(",")}
        if set(letters) <= set(sizes):
            chosen = {letter: sizes[letter] for letter in letters}
            if chosen not in found:
                found.append(chosen)
    return found


def key_of(torch_version, op, function, dtype, widths, architecture, formula_text):
    lines = [
        f"recipe {RECIPE}", f"torch {torch_version}", f"op {op}", f"function {function}", f"dtype {dtype}",
        f"widths {widths}", f"architecture {architecture}", f"formula {hashlib.sha1(formula_text).hexdigest()}",
    ]  # fmt: skip
    return hashlib.sha1("\n".join(lines).encode()).hexdigest()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("formulas", nargs="+", help="kernels/<op>/<op>.py")
    parser.add_argument("--architecture", required=True, choices=["x86-64-v3", "sm_90"])
    parser.add_argument("--dtypes", default="float32,bfloat16,float16")
    parser.add_argument("--widths", action="append", required=True)
    parser.add_argument("--functions", default=".*", help="a pattern: only functions whose whole name matches")
    parser.add_argument("--output", required=True, help="a folder")
    arguments = parser.parse_args()

    work = tempfile.mkdtemp(prefix="packages")
    os.environ.update(
        TMPDIR=work, TORCHINDUCTOR_CACHE_DIR=work + "/inductor", TRITON_CACHE_DIR=work + "/triton", OMP_NUM_THREADS="1",
        TORCHINDUCTOR_COMPILE_THREADS="1", TORCHINDUCTOR_VEC_ISA_OK="1", TRITON_DISABLE_LINE_INFO="1",
    )  # fmt: skip
    try:
        for formula in arguments.formulas:
            make_package(formula, arguments, work)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def make_package(path, arguments, work):
    import torch

    import generate
    import hopper_without_gpu
    import package
    import programs
    import trace

    op = os.path.splitext(os.path.basename(path))[0]
    specification = importlib.util.spec_from_file_location(op, path)
    formula = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(formula)
    with open(path, "rb") as file:
        formula_text = file.read()

    on_gpu = arguments.architecture == "sm_90"
    lines, traced = [], []
    for program in programs.PROGRAMS[op]:
        if not re.fullmatch(arguments.functions, program.function):
            continue
        for dtype in arguments.dtypes.split(","):
            for widths in sets_of_widths(arguments.widths, program.widths, dtype):
                text = ",".join(f"{letter}={size}" for letter, size in widths.items()) or "-"
                key = key_of(torch.__version__.split("+")[0], op, program.function, dtype, text, arguments.architecture, formula_text)
                fixed = {letter: size for letter, size in widths.items() if size != "*"}
                exported = trace.trace(program, formula, getattr(torch, dtype), fixed, on_gpu)
                results = len(exported.graph_signature.user_outputs)
                traced.append((exported, f"f{len(traced)}"))
                limit = trace.INDEX_LIMIT if fixed else 2**62
                lines.append([
                    key, program.function, dtype, text, arguments.architecture, str(limit),
                    " ".join(a.replace("host ", "host:") for a in program.arguments), str(results),
                ])  # fmt: skip
    if on_gpu:
        hopper_without_gpu.install()  # after tracing, which runs on the CPU
    options = hopper_without_gpu.OPTIONS if on_gpu else generate.CPU_OPTIONS
    generated = [generate.generate(exported, name, options) for exported, name in traced]
    site = os.path.dirname(os.path.dirname(torch.__file__))
    digest = hashlib.sha1("".join(line[0] for line in lines).encode()).hexdigest()[:12]
    os.makedirs(arguments.output, exist_ok=True)
    library = os.path.join(arguments.output, f"{op}-{arguments.architecture}-{digest}.so")
    package.link(generated, work, library, on_gpu, site)
    package.write_text(library, lines)


if __name__ == "__main__":
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    main()

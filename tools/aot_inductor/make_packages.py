# SPDX-License-Identifier: MIT
"""Makes a package of level aot_inductor: `make_packages.py FORMULA... --architecture A --output FOLDER`.

A package is one library with all functions of the ops whose formulas are named; <op>_programs.py lists the functions of
an op. It has every dtype and every set of widths: GPU_WIDTHS of <op>_programs.py on GPUs, "*" (any) on CPUs. With
`--function`, it has only the functions that are named.
"""
import argparse
import hashlib
import importlib.util
import os
import shutil
import tempfile

import fingerprint


def sets_of_widths(texts, letters, dtype):
    """["*", "bfloat16:d=4096"] -> [{"d": "*"}, {"d": 4096}]: the sets for `dtype` with all `letters`, each once."""
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


def text_of(widths):
    """{"d": 4096} -> "d=4096"; {} -> "-"."""
    return ",".join(f"{letter}={size}" for letter, size in widths.items()) or "-"


def key_of(torch_version, op, function, dtype, widths, architecture, formula):
    """`formula` is the path of <op>.py. PackageRequest::key() in kernels/runtime/aot_inductor_package.cc has the same."""
    lines = [
        f"torch {torch_version}", f"op {op}", f"function {function}", f"dtype {dtype}", f"widths {widths}",
        f"architecture {architecture}", *fingerprint.lines_of(formula),
    ]  # fmt: skip
    return hashlib.sha1("\n".join(lines).encode()).hexdigest()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("formulas", nargs="+", help="kernels/<op>/<op>.py")
    parser.add_argument("--architecture", required=True, choices=["x86-64-v3", "sm_90"])
    parser.add_argument("--dtypes", default="float32,bfloat16,float16")
    parser.add_argument("--function", action="append", default=[], help="'OP NAME DTYPE WIDTHS': only this one")
    parser.add_argument("--output", required=True, help="a folder")
    arguments = parser.parse_args()

    work = tempfile.mkdtemp(prefix="packages")
    os.environ.update(
        TMPDIR=work, TORCHINDUCTOR_CACHE_DIR=work + "/inductor", TRITON_CACHE_DIR=work + "/triton", OMP_NUM_THREADS="1",
        TORCHINDUCTOR_COMPILE_THREADS="1", TORCHINDUCTOR_VEC_ISA_OK="1", TRITON_DISABLE_LINE_INFO="1",
    )  # fmt: skip
    try:
        make_package(arguments, work)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def loaded(path):
    specification = importlib.util.spec_from_file_location(os.path.splitext(os.path.basename(path))[0], path)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def all_functions(module, arguments):
    """Yields (program, dtype, widths) for every function of an op."""
    for program in module.PROGRAMS:
        texts = ["*"] if arguments.architecture == "x86-64-v3" else program.gpu_widths or module.GPU_WIDTHS
        if program.exact:
            texts = [text for text in texts if text != "*"]
        for dtype in arguments.dtypes.split(","):
            # In float16 a build has packages for any width only, because a third type of single widths would make it longer.
            # Functions that are always for one width (attention) are compiled when a configuration needs them.
            for widths in sets_of_widths([text for text in texts if text == "*" or dtype != "float16"], program.widths, dtype):
                yield program, dtype, widths


def named_functions(module, arguments, op):
    by_name = {program.function: program for program in module.PROGRAMS}
    for request in arguments.function:
        request_op, name, dtype, text = request.split()
        if request_op == op:
            (widths,) = sets_of_widths([text], by_name[name].widths, dtype)
            yield by_name[name], dtype, widths


def make_package(arguments, work):
    import torch

    import export_program
    import generate
    import package

    on_gpu = arguments.architecture == "sm_90"
    version = torch.__version__.split("+")[0]
    lines, functions = [], []
    for path in arguments.formulas:
        op = os.path.splitext(os.path.basename(path))[0]
        formula = loaded(path)
        module = loaded(path[: -len(".py")] + "_programs.py")
        chosen = named_functions(module, arguments, op) if arguments.function else all_functions(module, arguments)
        for program, dtype, widths in chosen:
            text = text_of(widths)
            fixed = {letter: size for letter, size in widths.items() if size != "*"}
            exported = export_program.export_program(program, formula, getattr(torch, dtype), fixed, on_gpu)
            functions.append((exported, f"f{len(functions)}"))
            lines.append([
                key_of(version, op, program.function, dtype, text, arguments.architecture, path),
                op, program.function, dtype, text, arguments.architecture,
                str(export_program.INDEX_LIMIT if fixed else 2**62),
                " ".join(argument.replace("host ", "host:") for argument in program.arguments),
                str(len(exported.graph_signature.user_outputs)),
            ])  # fmt: skip
    options = generate.CPU_OPTIONS
    if on_gpu:
        import hopper_without_gpu

        hopper_without_gpu.install()  # call it after the export, which runs on the CPU
        options = hopper_without_gpu.OPTIONS
    generated = [generate.generate(exported, name, options) for exported, name in functions]
    site = os.path.dirname(os.path.dirname(torch.__file__))
    digest = hashlib.sha1("".join(line[0] for line in lines).encode()).hexdigest()[:12]
    os.makedirs(arguments.output, exist_ok=True)
    library = os.path.join(arguments.output, f"{arguments.architecture}-{digest}.so")
    temporary = f"{library}.{os.getpid()}.tmp"  # a process that has the library open keeps its bytes
    package.link(generated, work, temporary, on_gpu, site)
    package.publish(temporary, library)
    package.write_text(library, lines)  # written last, because a package without it does not exist


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: MIT
"""Compiles missing packages that a configuration needs; tools/strata packages and tools/strata train call it.

It reads the calls of the configuration's step from trainer/validate --aot-shapes: a line with the key of `kernels:`, op,
dtype and shape for each, with tabs between.
"""
import argparse
import contextlib
import fcntl
import glob
import importlib.metadata
import os
import subprocess
import sys

import make_packages
import package


# A process needs half a minute before its first function.
FUNCTIONS_OF_A_PROCESS = 8


def has_own_package(widths, dtype):
    """The rule of AotWidths in kernels/runtime/aot_inductor_runtime.h for GPUs, which requests other widths as any."""
    if not widths or dtype == "float16":
        return False
    letter, size = list(widths.items())[-1]
    return size % 16 == 0 if letter in "ce" else size >= 256 and size % 8 == 0


def widths_of(program, sizes, dtype, architecture):
    """Returns sets of widths for a function that is called with these sizes: any (`*`), and on GPUs also its own."""
    sets = [dict.fromkeys(program.widths, "*")]
    own = {letter: sizes[letter] for letter in program.widths}
    if program.exact:
        return [] if architecture == "x86-64-v3" else [own]
    return [*sets, own] if architecture != "x86-64-v3" and has_own_package(own, dtype) else sets


def called_functions(module, calls):
    """Yields (program, dtype, sizes) for the functions of an op that the calls need."""
    programs = {program.function: program for program in module.PROGRAMS}
    for _, caller, dtype, shape in calls:
        if caller in module.CALLED_BY:
            for function, sizes in module.CALLED_BY[caller](shape).items():
                yield programs[function], dtype, sizes


def needed(formulas, lines, architecture, version, ops="all"):
    """Returns the requests for make_packages.py by their keys. `lines` is the output of validate --aot-shapes."""
    calls = [line.split("\t") for line in lines]
    calls = [call for call in calls if ops == "all" or call[0] in ops.split(",")]
    requests = {}
    for path in formulas:
        op = os.path.splitext(os.path.basename(path))[0]
        module = make_packages.loaded(path[: -len(".py")] + "_programs.py")
        for program, dtype, sizes in called_functions(module, calls):
            for widths in widths_of(program, sizes, dtype, architecture):
                text = make_packages.text_of(widths)
                key = make_packages.key_of(version, op, program.function, dtype, text, architecture, path)
                chosen = text if widths and "*" not in widths.values() else "*"
                requests[key] = f"{op} {program.function} {dtype} {chosen}"
    return requests


def functions_of_packages(folder):
    """Returns the keys of functions by the texts of the packages. A damaged package has none."""
    texts = glob.glob(os.path.join(folder, "*.txt")) + glob.glob(os.path.join(folder, "*_packages", "*.txt"))
    return {text: package.functions_of(text) for text in texts}


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
    parser.add_argument("--ops", default="all", help="keys of `kernels:` with commas between")
    parser.add_argument("--architecture", required=True)
    parser.add_argument("--root", required=True, help="of the checkout or of the archive: kernels/<op>/<op>.py lie there")
    parser.add_argument("--built", required=True, help="the folder of packages that came with the program")
    parser.add_argument("--output", required=True, help="where new ones go")
    arguments = parser.parse_args()
    formulas = sorted(path.replace("_programs.py", ".py") for path in glob.glob(arguments.root + "/kernels/*/*_programs.py"))
    version = importlib.metadata.version("torch").split("+")[0]
    requests = needed(formulas, sys.stdin.read().splitlines(), arguments.architecture, version, arguments.ops)

    def state():
        """Returns the requests for which there is no package, and the texts that promise one of them without its library."""
        made = functions_of_packages(arguments.output)
        present = set().union(*made.values(), *functions_of_packages(arguments.built).values())
        damaged = [text for text, keys in made.items() if not keys and not requests.keys().isdisjoint(package.functions_in(text)[3])]
        return [request for key, request in requests.items() if key not in present], damaged

    if any(state()):  # otherwise nothing is written: the folder may be read-only
        with alone_in(arguments.output):
            missing, damaged = state()
            for text in damaged:  # the program would find its functions first
                os.remove(text)
            compile_functions(formulas, missing, arguments)


def compile_functions(formulas, functions, arguments):
    if not functions:
        return
    print(f"strata: compiling {len(functions)} function{'s' * (len(functions) > 1)} of level aot_inductor for {arguments.architecture} into "
          f"{arguments.output}: half a minute, and some seconds for each; once", file=sys.stderr)  # fmt: skip
    command = [sys.executable, "-W", "ignore", os.path.join(os.path.dirname(__file__), "make_packages.py"), *formulas,
               "--architecture", arguments.architecture, "--output", arguments.output]  # fmt: skip
    count = max(1, min(len(os.sched_getaffinity(0)), len(functions) // FUNCTIONS_OF_A_PROCESS))
    parts = [[word for request in functions[i::count] for word in ("--function", request)] for i in range(count)]
    processes = [subprocess.Popen(command + part) for part in parts]
    codes = [process.wait() for process in processes]
    failed = [code for code in codes if code]
    if failed:
        sys.exit(failed[0])


if __name__ == "__main__":
    main()

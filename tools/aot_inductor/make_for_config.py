# SPDX-License-Identifier: MIT
"""Makes the packages that a configuration needs and that are nowhere yet: called by tools/strata packages and train."""
import argparse
import glob
import os
import subprocess
import sys

import make_packages

# What a family of models never calls.
UNUSED = {
    "llama": {"activation", "layer_norm"},
    "gpt2": {"activation", "rms_norm", "rotary", "swiglu"},
    "vision_transformer": {"activation", "rms_norm", "rotary", "swiglu"},
}
OPTIMIZER = ("adamw", "global_norm")  # they take gradients, which may have a dtype of their own


def widths_of_model(values):
    """What each op's letters are in this model, as sets of widths."""
    number = lambda key: int(values.get(key) or 0)
    width, heads = number("model.width"), number("model.heads")
    key_value_heads = number("model.key_value_heads") or heads
    feed_forward = number("model.feed_forward") or 4 * width
    half_head = width // heads // 2 if heads else 0
    return {
        "rms_norm": f"d={width}",
        "layer_norm": f"d={width}",
        "swiglu": f"f={feed_forward}",
        "cross_entropy": f"v={number('model.vocabulary') or number('model.classes')},c=16",
        "rotary": f"a={heads + 2 * key_value_heads},e={half_head}",
        "activation": "c=16",
        "adamw": "c=16",
        "global_norm": "c=16",
    }


def needed(formulas, values, architecture, version):
    """Requests of make_packages.py by their keys."""
    dtypes = {values["precision.compute"]}
    gradients = dtypes | {values["precision.reduce"], "float32"}
    own_widths = widths_of_model(values)
    requests = {}
    for path in formulas:
        op = os.path.splitext(os.path.basename(path))[0]
        if op in UNUSED.get(values.get("model.family") or values.get("model.type"), ()):
            continue
        with open(path, "rb") as file:
            text = file.read()
        for program in make_packages.loaded(path[: -len(".py")] + "_programs.py").PROGRAMS:
            for dtype in sorted(gradients if op in OPTIMIZER else dtypes):
                sets = ["*"] if architecture == "x86-64-v3" else ["*", own_widths.get(op, "*")]
                for widths in make_packages.sets_of_widths(sets, program.widths, dtype):
                    name = make_packages.text_of(widths)
                    key = make_packages.key_of(version, op, program.function, dtype, name, architecture, text)
                    requests[key] = f"{op} {program.function} {dtype} {'*' if '*' in name or name == '-' else name}"
    return requests


def keys_that_exist(folders):
    keys = set()
    for folder in folders:
        for path in glob.glob(os.path.join(folder, "*.txt")) + glob.glob(os.path.join(folder, "*_packages", "*.txt")):
            with open(path, encoding="utf-8") as file:
                keys.update(line.split("\t")[1] for line in file if line.startswith("function\t"))
    return keys


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--value", action="append", default=[], help="KEY=VALUE of the resolved configuration")
    parser.add_argument("--architecture", required=True)
    parser.add_argument("--root", required=True, help="of the checkout or of the archive: kernels/<op>/<op>.py lie there")
    parser.add_argument("--built", required=True, help="the folder of packages that came with the program")
    parser.add_argument("--output", required=True, help="where new ones go")
    arguments = parser.parse_args()
    values = dict(value.split("=", 1) for value in arguments.value)
    formulas = sorted(path.replace("_programs.py", ".py") for path in glob.glob(arguments.root + "/kernels/*/*_programs.py"))

    import importlib.metadata

    version = importlib.metadata.version("torch").split("+")[0]
    requests = needed(formulas, values, arguments.architecture, version)
    present = keys_that_exist([arguments.built, arguments.output])
    missing = [request for key, request in requests.items() if key not in present]
    if not missing:
        return
    print(f"strata: compiling {len(missing)} functions of level aot_inductor for {arguments.architecture} into "
          f"{arguments.output}: a second or two each, once", file=sys.stderr)  # fmt: skip
    command = [sys.executable, "-W", "ignore", os.path.join(os.path.dirname(__file__), "make_packages.py"), *formulas]
    for request in missing:
        command += ["--function", request]
    subprocess.run([*command, "--architecture", arguments.architecture, "--output", arguments.output], check=True)


if __name__ == "__main__":
    main()

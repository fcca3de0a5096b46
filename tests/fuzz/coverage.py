# SPDX-License-Identifier: MIT
"""Prints how many lines of each parser the fuzz targets have run. `tools/strata fuzz --coverage` calls it.

Usage: coverage.py FOLDER SEEDS KEPT PROGRAM...   FOLDER has one .profraw of each program, whose inputs were SEEDS/<target> and KEPT/<target>, the
inputs that earlier searches have kept; sources are read from the working folder."""
import json
import os
import re
import subprocess
import sys

# Percent of all lines together: with inputs that searches have kept for each target, and by the seeds of the checkout alone.
GOAL, GOAL_OF_SEEDS = 95, 83

# The files that read what is not trusted, and their functions that read nothing of it: those write, name folders, or
# serve what was read before.
PARSERS = {
    "configs/document.cc": [],
    "configs/fields.cc": [],
    "configs/key_finder.cc": [],
    "configs/new_names.cc": [],
    "configs/number.cc": [],
    "configs/overrides.cc": [],
    "configs/raw_text.cc": [],
    "configs/reader.cc": [],
    "configs/value.cc": [],
    "kernels/attention/pattern/parse_pattern.cc": [],
    "kernels/runtime/aot_inductor_package.cc": ["folder_beside_program", "folder_of_user", "instance", "load"],
    "tools/hf/config.cc": ["gpt2_config", "refuse_what_gpt2_lacks", "write_config"],
    "tools/hf/decoder_reader.cc": [],
    "tools/hf/json_section.cc": [],
    "tools/hf/rotary.cc": ["rope_scaling"],
    "tools/hf/timm.cc": ["write_config"],
    "tools/replay/saved_layer.cc": ["json_of", "write_tensors", "facts_text", "find", "seen", "write_layer"],
    "trainer/checkpoint/checkpoint_manifest.cc": ["best_weights", "merge_reports", "weights_sha256"],
    "trainer/checkpoint/safetensors.cc": [],
    "trainer/checkpoint/safetensors_parser.cc": [],
    "trainer/checkpoint/weights_folder.cc": [],
    "trainer/config/load_config.cc": ["load_trainer_config", "difference_from_folder", "help_text", "reference_page", "json_schema"],
    "trainer/data/graphs/npz_file.cc": [],
    "trainer/data/graphs/number_file.cc": [],
    "trainer/data/graphs/sparse_features.cc": [],
    "trainer/data/graphs/zip_file.cc": [],
    "trainer/data/images/decode_image.cc": [],
    "trainer/data/images/idx_file.cc": [],
    "trainer/data/images/tar_reader.cc": [],
    "trainer/data/images/web_dataset.cc": ["name", "order_of", "image_at", "fingerprint"],
    "trainer/data/text/document_ends.cc": [],
    "trainer/data/text/raw_file.cc": [],
    "trainer/data/text/sidecar.cc": [],
    "trainer/data/text/token_file.cc": [],
    "trainer/levels/kernel_plan.cc": ["configuration_file", "times_depend_on", "activations_after_pruned_products", "quoted_for_shell", "command_for_plan",
                                      "refuse", "model_version", "keep_as_planned", "apply_kernel_plan", "require_complete_plan"],
    "trainer/report/best_evaluation.cc": [],
    "trainer/report/event_file.cc": ["crc_table", "new_name", "append"],
}


def run(*words):
    return subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True).stdout


def is_named(mangled, name):
    """Returns whether a mangled name is that of a function, or of a lambda in it. N_1 ends the name of a nameless namespace."""
    return re.search(rf"(?:(?<!\d)|(?<=N_1)){len(name)}{name}", mangled) is not None


def lines_of(functions, left_out):
    """Returns the lines of functions that are not left out, and which of those that are left out there are."""
    lines, found = set(), set()
    for function in functions:
        names = {name for name in left_out if is_named(function["name"], name)}
        found |= names
        first, _, last = function["regions"][0][:3]
        if not names:
            lines |= set(range(first, last + 1))
    return lines, found


def runs_of_lines(listing):
    """Returns whether each line with code ran, from the listing of llvm-cov."""
    return {int(line): count != "0" for line, count in re.findall(r"(?m)^ *(\d+)\| *([\d.]+[kMGTE]?)\|", listing)}


def spans(lines):
    """Returns "3-5, 9" for 3, 4, 5, 9."""
    parts = []
    for line in sorted(lines):
        if parts and parts[-1][1] == line - 1:
            parts[-1][1] = line
        else:
            parts.append([line, line])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in parts)


def add_program(folder, program, parsers):
    """Adds the lines that one program has run to those of `parsers`: {file: {line: has run}}."""
    profile = os.path.join(folder, os.path.basename(program))
    run("llvm-profdata-14", "merge", "-o", profile + ".profdata", profile + ".profraw")
    options = [f"-instr-profile={profile}.profdata", program]
    report = json.loads(run("llvm-cov-14", "export", *options))["data"][0]
    functions = {}
    for function in report["functions"]:
        functions.setdefault(os.path.relpath(function["filenames"][0]), []).append(function)
    for file in sorted(set(PARSERS) & set(functions)):
        lines, found = lines_of(functions[file], PARSERS[file])
        if missing := set(PARSERS[file]) - found:
            raise LookupError(f"{file} has no function {', '.join(sorted(missing))}, which coverage.py leaves out")
        known = parsers.setdefault(file, {})
        # `show` finds a file by its whole path, which is that of the checkout.
        listing = run("llvm-cov-14", "show", "-show-instantiations=false", "-compilation-dir=" + os.getcwd(), *options, file)
        for line, ran in runs_of_lines(listing).items():
            if line in lines:
                known[line] = ran or known.get(line, False)


def files_below(folder):
    return sum(len(names) for _, _, names in os.walk(folder))


def expectation(seeds, kept, programs):
    """Returns the percentage that the inputs of the programs must reach, and a sentence about these inputs."""
    targets = [os.path.basename(program).removesuffix("_fuzz") for program in programs]
    count = sum(files_below(os.path.join(seeds, target)) for target in targets)
    kept_of = {target: files_below(os.path.join(kept, target)) for target in targets}
    without = [target for target in targets if not kept_of[target]]
    inputs = f"inputs: {count} seeds, and {sum(kept_of.values())} that earlier searches have kept in {kept}"
    if without:
        return GOAL_OF_SEEDS, f"{inputs}, with none for {', '.join(without)}: at least {GOAL_OF_SEEDS} % are expected; tools/strata fuzz makes more"
    return GOAL, f"{inputs}: at least {GOAL} % are expected"


def main(folder, seeds, kept, programs):
    parsers = {}
    for program in programs:
        add_program(folder, program, parsers)
    if not parsers:
        raise LookupError("no program has lines of a parser, as with --define=fuzz=coverage")
    all_lines = all_run = 0
    for file, lines in sorted(parsers.items()):
        ran = sum(lines.values())
        all_lines, all_run = all_lines + len(lines), all_run + ran
        rest = spans(line for line, was in lines.items() if not was)
        print(f"{file}: {ran} of {len(lines)} lines, {100 * ran / len(lines):.1f} %" + (f"; not {rest}" if rest else ""))
    print(f"{len(parsers)} files of parsers: {all_run} of {all_lines} lines, {100 * all_run / all_lines:.1f} %")
    goal, words = expectation(seeds, kept, programs)
    print(words)
    return 0 if 100 * all_run >= goal * all_lines else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:4], sys.argv[4:]))

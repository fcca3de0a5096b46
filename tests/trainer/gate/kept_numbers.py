# SPDX-License-Identifier: MIT
"""The numbers of the performance gate in the tree, each with the reason why it is what it is."""
import json
import os
import textwrap

PATH = os.path.join(os.path.dirname(os.path.realpath(__file__)), "numbers.json")
# Shares by which a number may differ from the one in the tree. All others are the same on each machine. Steps differ by
# the order of sums, which depends on the processor, and instructions by the functions that the C library chooses for it.
TOLERANCE = {"steps": 0.05, "instructions": 0.03}


def read(path=PATH):
    with open(path, encoding="utf-8") as file:
        entries = json.load(file)
    for name, entry in entries.items():
        check_reason(entry.get("reason", ""), f"{path}: '{name}'")
    return entries


def check_reason(reason, where):
    if len(reason.split()) < 3:
        raise ValueError(f"{where} has no reason; expected one sentence that says why its numbers are what they are")


def numbers_of(entry):
    return {key: value for key, value in entry.items() if key != "reason"}


def differences(name, found, entry):
    """Yields a sentence for each number of `found` that is not that of the entry, which may be None."""
    kept = numbers_of(entry or {})
    for key in sorted(found.keys() | kept.keys()):
        new, old = found.get(key, 0), kept.get(key, 0)
        if abs(new - old) > TOLERANCE.get(key, 0) * old:
            advice = "better than the number in the tree: write it there" if new < old else "find the cause, or write it there with a reason"
            yield f"{name}: {key} is {new}, and {old} in the tree: {advice}"


def with_new_numbers(entries, found, names, reason):
    """Returns the entries after a change: those that differ get the numbers found and the reason. `names` are all that the gate measures."""
    new = {name: {"reason": reason, **numbers} for name, numbers in found.items() if any(differences(name, numbers, entries.get(name)))}
    return {name: {**entries, **new}[name] for name in names if name in {**entries, **new}}


def write(entries, path=PATH):
    for name, entry in entries.items():
        check_reason(entry["reason"], f"{path}: '{name}'")

    def text_of(name, entry):
        numbers = textwrap.fill(json.dumps(numbers_of(entry))[1:-1], 146, initial_indent="    ", subsequent_indent="    ", break_on_hyphens=False)
        return f'  {json.dumps(name)}: {{\n    "reason": {json.dumps(entry["reason"])},\n{numbers}\n  }}'

    with open(path, "w", encoding="utf-8") as file:
        file.write("{\n" + ",\n".join(text_of(*item) for item in entries.items()) + "\n}\n")

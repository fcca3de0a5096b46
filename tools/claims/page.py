# SPDX-License-Identifier: MIT
"""Makes docs/claims.md and the rows of tables from claims."""
import textwrap

from claims_file import NOT_YET, TIMES, measurements
from values import Estimate, verdict

BEGIN = """# Claims

A claim is a sentence about Strata with the command that measures it, and each row is one. A claim that does not hold when it is measured is deleted.
It stands in [Refused](#refused) then. What a single run will take is no claim but a [promise](promise.md).

```bash
tools/strata claims                       # lists the claims
tools/strata claims check                 # runs the commands of those that this machine can run, and compares
tools/strata claims check attention       # those of some claims
tools/strata claims check --update        # also writes what was measured here, and deletes what is refused
tools/strata claims page                  # makes this page from tools/claims/claims.yaml
```

- Plain PyTorch is the code that a module replaces, with one operator for each step: [timing.md](timing.md#modules) has it. Its attention stores
  the scores of all pairs. Many programs call `scaled_dot_product_attention` instead, as level `aten` does. What they gain is nearer to
  `time_of_kernels` divided by `time_of_aten`.
- `beside` is the time of the peer that the cell names, divided by Strata's for the same work. For a claim of memory it is the peer's memory divided by
  Strata's. Another peer may be faster: for `causal`, cuDNN in PyTorch is about as fast as Strata
  ([performance.md](performance.md#attention-beside-flexattention)).
- The peer of a module is the best of three, all under `torch.compile`: the plain code itself, the code with packed weights and
  `scaled_dot_product_attention`, and the latter with `max_autotune_gemm` ([time_modules.py](../tools/bench/compiled/time_modules.py)). That option tries
  kernels of matrix products. `max-autotune` tries more, and takes more than 278 s for a block of Llama 1B. A level has 120 s in a process of its own, and the cell names
  one that fails or does not end. If no level is timed, or all together take longer than `--peer-limit`, the cell says why. The claim is measured all the same.
- Steps of peers are timed after their gradients were compared with the gradients of the plain model ([time_steps.py](../tools/bench/compiled/time_steps.py)).
- Calls of a module and of its peer take copies of inputs, weights and gradients in turn. Both follow one rule: no cache has the data of a call when they are
  used again.{one_input}
- The fastest of the levels that a claim names counts. `bench modules` and `bench kernels` time a level only after they proved its results.
- All commands of a claim run in turn, 5 times (`--turns`). A row has the median and, in brackets, an interval that contains the true median with a
  probability of 90 %. Fewer than 5 turns have their whole range. One turn has the range that the 10 % and 90 % quantiles of both sides allow, if
  there are any.
- A claim `holds` if its whole interval reaches it, and is `refused` if no part of the interval does. Otherwise it is `undecided`, and stays.
- Each machine has a row of its own: `--update` replaces that of the machine on which it runs. A machine is a kind of GPU, or a processor with a number
  of cores. A claim must hold on each of them, so one refusal deletes it. `check` also prints what the same machine measured before.
- A claim for GPUs is `not run here` on a machine with fewer. A command that fails is an `error`. Neither says anything of the claim.
- Exit codes: 0 nothing is refused or undecided, 1 a claim is refused, 8 a claim is undecided, 70 a command failed.

"""
ONE_INPUT = """ Rows with `one input` were measured before that: Strata had the same input in each call, which favors it where inputs and weights fit into
  the cache."""
ADDING = """
## Adding a claim

A claim is an entry of `tools/claims/claims.yaml`. `tools/strata claims check NAME --update` measures it and writes this page. A claim that was
refused is a claim again if its entry is moved back, without what refused it in `measured`.

| key | meaning |
| --- | --- |
| `name` | letters, digits and _ |
| `claim` | the claim, as a sentence |
| `gpus` | how many GPUs the commands need; 0 if they need none |
| `commands` | names and commands: `tools/strata bench`, `tools/strata validate`, or a program of `tools/bench` that prints lines of JSON |
| `baseline`, `ours` | what is compared: `rows` is the name of a command, and the other keys choose rows of it by their values |
| `sum` | keys of rows that are added up, over all chosen rows of a level: those of forward and backward |
| `unit`, `least` | `times`: the baseline divided by ours; `percent less`: by how much ours is below the baseline; the value must reach `least` |
| `peer` | what stands in `beside`: its `name` and `sum`, and the rows `theirs` and `ours`; left out if there is none |
| `measured` | `not yet`; the command writes the rest, a list with an entry for each machine. `sets`: how many copies of inputs calls took in turn |
"""
HEADING = """| name | {} | needs | must hold | measured | beside | verdict | date, turns and machine |
| --- | --- | --- | --- | --- | --- | --- | --- |
"""
COMMANDS = """
## Commands

Claims with the same command share its rows.

```bash
"""
REFUSED = """
## Refused

These were claims until they were measured.

"""


def number(value):
    return f"{value:.4g}" if abs(value) < 1000 else f"{value:.0f}"


def amount(value, unit):
    return f"{number(value)} times" if unit == TIMES else f"{number(value)} % less"


def needs(claim):
    gpus = claim["gpus"]
    return f"{gpus} GPU{'s' if gpus > 1 else ''}" if gpus else "CPU"


def estimate_of(measured):
    return Estimate(measured["value"], measured["low"], measured["high"])


def estimate_text(found, unit):
    """Returns an estimate as text, with its interval if it has one."""
    interval = f" ({number(found.low)} to {number(found.high)})" if found.low < found.high else ""
    return amount(found.value, unit) + interval


def peer_text(claim, measured):
    """Returns the comparison with the peer."""
    if "peer" not in claim:
        return "-"
    if "peer_failed" in measured:
        return f"{claim['peer']['name']}: failed: {measured['peer_failed']}"
    without = f", without {measured['peer_without']}" if "peer_without" in measured else ""
    return f"{claim['peer']['name']}: " + (f"{number(measured['peer'])} times{without}" if "peer" in measured else NOT_YET)


def has_one_input(measured):
    return measured.get("sets") == 1


def measured_cells(claim, measured):
    """Returns what one machine measured as cells of the table."""
    turns = f"{measured['turns']} turn{'s' if measured['turns'] > 1 else ''}"
    return [estimate_text(estimate_of(measured), claim["unit"]), peer_text(claim, measured), verdict(estimate_of(measured), claim["least"]),
            f"{measured['date'].isoformat()}, {turns}, {'one input, ' if has_one_input(measured) else ''}{measured['machine']}"]


def rows(claim):
    """Returns a row of the table for each machine. Only the first one says what is claimed."""
    about = [f"`{claim['name']}`", claim["claim"], needs(claim), amount(claim["least"], claim["unit"])]
    lines = ""
    for measured in measurements(claim) or [None]:
        cells = measured_cells(claim, measured) if measured else [NOT_YET, peer_text(claim, {}), "-", "-"]
        lines += "| " + " | ".join(about + cells) + " |\n"
        about = [""] * len(about)
    return lines


def commands(claims):
    """Returns the commands, each once, after the names of the claims that run it."""
    names = {}
    for claim in claims:
        for command in claim["commands"].values():
            names.setdefault(command, {})[claim["name"]] = None
    return "".join("\n".join(textwrap.wrap(", ".join(claim_names), 120, initial_indent="# ", subsequent_indent="# ")) + f"\n{command}\n"
                   for command, claim_names in names.items())  # fmt: skip


def page(tree):
    table = "".join(map(rows, tree["claims"]))
    one_input = any(has_one_input(measured) for key in ("claims", "refused") for claim in tree[key] for measured in measurements(claim))
    begin = BEGIN.replace("{one_input}", ONE_INPUT if one_input else "")
    text = f"{begin}{HEADING.format('claim')}{table}{COMMANDS}{commands(tree['claims'])}```\n{ADDING}{REFUSED}"
    if not tree["refused"]:
        return text + "None.\n"
    table = "".join(map(rows, tree["refused"]))
    return f"{text}{HEADING.format('was claimed')}{table}\n```bash\n{commands(tree['refused'])}```\n"

# SPDX-License-Identifier: MIT
"""one training at each level of its kernels, and the same losses

Each op of a model has up to five implementations, called levels. This demo trains one small model three times: with
LibTorch's operators (aten), with functions that TorchScript compiles at the start (torchscript), and with functions
compiled ahead of time (aot_inductor). The first time in a checkout, the last one compiles for about a minute."""
import findings

READ = "docs/kernels.md"
WITHIN = 1e-4  # of the losses in float32


def run(lab):
    lab.prepare_text()
    lab.strata("levels", "levels", "--json")
    lab.train("aten", "--ranks", "1")
    for level in cpu_levels(lab):
        if level != "aten":
            others = "".join(f", {op}: aten" for op in lacking(lab, level))
            lab.train(level, "--ranks", "1", f"kernels={{default: {level}{others}}}")


def rows(results):
    """The ops of the model, at each level, on CPUs."""
    ops = results.levels("aten")
    return [row for row in results.rows("levels.out") if row["device"] == "cpu" and row["op"] in ops]


def cpu_levels(results):
    return list(dict.fromkeys(row["level"] for row in rows(results) if row["forward"]))


def lacking(results, level):
    return [row["op"] for row in rows(results) if row["level"] == level and not row["forward"]]


def check(results):
    first, last = (results.steps("aten")[index] for index in (0, -1))
    yield findings.claim("the model learns, so that equal losses say something", last < first - 1, "a loss that falls by more than 1",
                         f"{first:.4f} to {last:.4f}")
    found = cpu_levels(results)
    yield findings.claim("a CPU has several levels", "aten" in found and len(found) > 1, "aten and others", ", ".join(found) or "none")
    for level in found:
        others = lacking(results, level)
        expected = {op: {"aten" if op in others else level} for op in results.levels(level)}
        wrong = {op: found for op, found in results.levels(level).items() if found != expected[op]}
        yield findings.claim(f"the run of level {level} used it", not wrong,
                             f"{len(expected) - len(others)} ops at {level}" + "".join(f", {op} at aten" for op in others),
                             f"others: {wrong}" if wrong else "the same in kernels.txt")
        if level != "aten":
            yield findings.close(f"losses at level {level} are those of aten", results.steps("aten"), results.steps(level), WITHIN)
    for level in dict.fromkeys(row["level"] for row in rows(results)):
        if level not in found:
            yield findings.not_shown(f"losses at level {level}", next(row["reason"] for row in rows(results) if row["level"] == level))
    yield findings.seen("a step took " + ", ".join(f"{results.milliseconds(level):.0f} ms at {level}" for level in found))

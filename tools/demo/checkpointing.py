# SPDX-License-Identifier: MIT
"""gradient checkpointing: less memory for more computation, and the same bits

The backward of a layer needs numbers that its forward has computed. They can be kept, or computed again. With none all are
kept. With selective the cheap ones are recomputed, such as outputs of norms. With full only the inputs of a layer are kept,
and its whole forward runs again. This demo takes the same steps with each of the three."""
import findings

READ = "docs/memory.md#gradient-checkpointing"
SETTINGS = ("none", "selective", "full")
SHAPE = ["--ranks", "1", "run.threads=1", "batch=8", "micro_batch=8"]


def run(lab):
    for setting in SETTINGS:
        lab.bench(setting, *SHAPE, f"gradient_checkpointing={setting}")


def check(results):
    rows = {setting: results.bench_row(setting) for setting in SETTINGS}
    names = ("first_loss", "first_gradient_norm", "loss")
    for setting in SETTINGS[1:]:
        yield findings.equal(f"{setting}: first loss, first gradient norm and last loss, bit for bit", [rows["none"][name] for name in names],
                             [rows[setting][name] for name in names])
        saved = rows["none"]["step_memory_bytes"] - rows[setting]["step_memory_bytes"]
        yield findings.equal(f"{setting}: bytes that it saves, as predicted before the start", rows["none"]["predicted_peak_memory_bytes"]
                             - rows[setting]["predicted_peak_memory_bytes"], saved)
    yield findings.falling("the peak of the bytes of a step falls", {setting: rows[setting]["step_memory_bytes"] for setting in SETTINGS})
    yield findings.falling("to recompute is work: calls of operators in a step",
                           {setting: rows[setting]["launches"] for setting in reversed(SETTINGS)})
    yield findings.seen("a step took " + ", ".join(f"{rows[setting]['milliseconds']:.0f} ms with {setting}" for setting in SETTINGS))

# SPDX-License-Identifier: MIT
"""number formats of 8 bits learn almost what float32 learns

Linear layers can multiply numbers of 8 bits. On Hopper GPUs fp8 is multiplied by the tensor cores. On a CPU formats are
emulated: operands are rounded and then multiplied in float32. So this demo shows what a format learns, not how fast it is.
It trains one small model in float32, in fp8 with one scale for a tensor, and in mxfp8 with one scale for 32 numbers."""
import findings

READ = "docs/formats.md"
FORMATS = ("fp8", "mxfp8")
FIRST, LAST = 0.005, 0.03  # of the first loss; of what float32 has learned. Seeds 1 to 3 came to 0.0006 and 0.006 at most
LAST_STEPS = 5
SHAPE = ["steps=40", "micro_batch=8", "optimizer.learning_rate=1e-3", "model.feed_forward=384", "--ranks", "1"]


def run(lab):
    lab.prepare_text()
    lab.train("float32", *SHAPE)
    for name in FORMATS:
        lab.train(name, *SHAPE, f"precision.linear={{format: {name}}}")


def end(results, run):
    """Returns the mean loss of the last steps."""
    return sum(results.steps(run)[-LAST_STEPS:]) / LAST_STEPS


def check(results):
    start = results.steps("float32")[0]
    learned = start - end(results, "float32")
    yield findings.claim("the model learns in float32", learned > 1, "a loss that falls by more than 1",
                         f"{start:.4f} to {start - learned:.4f}")
    for name in FORMATS:
        table = results.text(f"{name}/kernels.txt")
        yield findings.claim(f"linear layers of the run multiplied in {name}", f" {name} " in table and "(emulated)" in table,
                             f"{name} and emulated in kernels.txt", " ".join(table.splitlines()[-1].split()))
        first = results.steps(name)[0]
        yield findings.claim(f"{name} rounds, but not much: the first loss, which has the same weights", 0 < abs(first - start) < FIRST * start,
                             f"not {start:.6f}, and within {FIRST:.1%} of it", f"{first:.6f}")
        apart = end(results, name) - end(results, "float32")
        yield findings.claim(f"{name} learns almost the same", abs(apart) < LAST * learned,
                             f"a mean of the last {LAST_STEPS} losses within {LAST * learned:.3f}, {LAST:.0%} of what float32 has learned",
                             f"{end(results, 'float32'):.4f} in float32 and {end(results, name):.4f}, {apart:+.4f}")
    times = ", ".join(f"{results.milliseconds(run):.0f} ms in {run}" for run in ("float32", *FORMATS))
    yield findings.seen(f"a step took {times}: to emulate is work")
    yield findings.not_shown("a step that is faster in fp8", "this demo runs on CPUs, and products of fp8 at level cuda need a Hopper GPU")

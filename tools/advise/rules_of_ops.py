# SPDX-License-Identifier: MIT
"""Rules on how ops are computed: their levels, the fused output layer, the graph of a step, and number formats.

A prediction is the time of an op in the profile times the share of it that another level, or another shape, has saved in a plan."""
from advice import Advice
from evidence import LEVELS
from profile_rows import COMMUNICATION

LEAST = 0.02  # share of a step that a gain must have
LEAST_OF_OP = 0.1  # share of an op's time that a better level must save; less is within the noise of a plan
SIXTEEN_BITS = ("bfloat16", "float16")


def levels(evidence, measure):
    """Ops run at a level that is slower than another one in the plan."""
    named = [key for key in evidence.configuration if key.startswith("kernels.") and evidence.value(key) in LEVELS]
    if evidence.value("kernels.default") == "best" and not named:
        return None  # a plan has chosen the level of every op
    plan = measure.plan() if evidence.ops else None
    if plan is None:
        return None
    gains, planned = {}, whole_step(evidence, plan, evidence.micro_batches)
    micro_batch_ops = {row.op for row in evidence.ops if row.phase in ("forward", "backward")}  # the others run once a step
    for op, level in sorted({(row.op, row.level) for row in evidence.ops if row.level in LEVELS}):
        milliseconds = evidence.time_of(lambda row: (row.op, row.level) == (op, level))
        best = plan.level_of(op)
        now, then = plan.total(op, level), plan.total(op, best)
        if planned and now and op in micro_batch_ops:
            milliseconds = time_of_ops(evidence, planned) * now * evidence.micro_batches / planned
        if now and then and (now - then) / now >= LEAST_OF_OP:
            gains[(op, level, best)] = milliseconds * (now - then) / now
    if sum(gains.values()) < LEAST * evidence.compute or not gains:
        return None
    # Steps with TorchScript cannot be captured, so that a GPU waits for the host. Without it they are.
    waits = evidence.idle if not evidence.captured and evidence.value("cuda_graph") != "off" and "torchscript" not in plan.levels.values() else 0
    largest = sorted(gains, key=gains.get, reverse=True)[:3]
    seen = "; ".join(f"{op} would be {gains[op, level, best]:.2f} ms shorter at level {best} than at {level}" for op, level, best in largest)
    saved = measure.saved_bytes((f"kernels={{default: best, plan: {plan.path}}}",))
    if waits:
        seen += f"; and the step could be captured, in which the GPU is idle for {waits:.2f} ms"
    return Advice("levels", ("kernels={default: best}",), sum(gains.values()) + waits, saved, f"A plan has faster levels: {seen}.")


def fused_head(evidence, measure):
    """Output layer and loss are apart, and the plan says that the fused op is faster."""
    if evidence.value("model.type") != "transformer" or any(row.op == "linear_cross_entropy" for row in evidence.ops):
        return None
    plan = measure.plan() if evidence.ops else None
    fused = [row for row in plan.rows if row["op"] == "linear_cross_entropy" and "forward" in row] if plan else []
    if not fused:
        return None
    best = min(fused, key=lambda row: row["forward"] + row.get("backward", 0))
    head = evidence.time_of(lambda row: row.op == "linear" and row.layer is None)
    loss = evidence.time_of(lambda row: row.op == "cross_entropy")
    level_of_head, level_of_loss = level_at(evidence, "linear"), level_at(evidence, "cross_entropy")
    apart = [plan.total("linear", level_of_head, best["shape"]), plan.total("cross_entropy", level_of_loss)]
    if None in apart or not head + loss:
        return None
    override = f"kernels.linear_cross_entropy={best['level']}"
    gain = (head + loss) * (1 - plan.total("linear_cross_entropy", best["level"]) / sum(apart))
    saved = measure.saved_bytes((override,))
    if gain <= LEAST_OF_OP * (head + loss):
        return None
    return Advice("fused head", (override,), gain, saved,
                  f"Output layer and loss take {head + loss:.2f} ms of a step apart, and the fused op takes "
                  f"{plan.total('linear_cross_entropy', best['level']) / sum(apart):.0%} of their time in the plan.")  # fmt: skip


def level_at(evidence, op):
    """Returns the level of an op outside of layers."""
    return next((row.level for row in evidence.ops if row.op == op and row.layer is None), None)


def step_graph(evidence, measure):
    """A GPU is idle because the host launches each kernel."""
    idle = evidence.idle
    if evidence.captured or evidence.value("cuda_graph") != "off" or idle < LEAST * evidence.compute:
        return None
    return Advice("step graph", ("cuda_graph=auto",), idle, measure.saved_bytes(("cuda_graph=auto",)),
                  f"The GPU is idle for {idle:.2f} ms of a step, and a captured step is launched at once.")  # fmt: skip


def compute_type(evidence, measure):
    """Layers compute in a type that this device multiplies slowly."""
    now = evidence.value("precision.compute")
    if evidence.on_gpu and now == "float32":
        other = "bfloat16"
    elif evidence.device and not evidence.on_gpu and now in SIXTEEN_BITS:
        other = "float32"
    else:
        return None
    extra = (f"precision.compute={other}",)
    before, after = whole_step(evidence, measure.plan()), whole_step(evidence, measure.plan(extra), chosen=True)
    gain = computation(evidence) * (1 - after / before) if before and after else None
    if gain is not None and gain < LEAST * evidence.compute:
        return None
    measured = f"and the plan has {after / before:.0%} of the time in {other}" if gain is not None else "and no plan compares the two"
    return Advice("compute type", extra, gain, measure.saved_bytes(extra),
                  f"Ops compute in {now} for {computation(evidence):.2f} ms of a step, {measured}.", "results are rounded differently")  # fmt: skip


def computation(evidence):
    """Returns the milliseconds of forward and backward without communication."""
    return evidence.time_of(lambda row: row.phase in ("forward", "backward") and row.level not in COMMUNICATION)


def time_of_ops(evidence, planned):
    """Returns the milliseconds of computation() that ops take. `planned` are their microseconds of a step in a plan. A profile has the
    backward of some ops at level torchscript under no op, so what the plan has more is taken from there."""
    under_ops = evidence.time_of(lambda row: row.phase in ("forward", "backward") and row.level in LEVELS)
    return min(max(planned / 1000, under_ops), computation(evidence))


def whole_step(evidence, plan, micro_batches=1, chosen=False):
    """Returns the microseconds in the plan of all ops of the run's forward and backward, or None. They are at their levels, or `chosen`: at
    the levels of the plan if the configuration is `best`, which then has this plan."""
    ops = {(row.op, row.level) for row in evidence.ops if row.level in LEVELS and row.phase in ("forward", "backward")}
    if chosen and plan and evidence.value("kernels.default") == "best":
        ops = {(op, plan.level_of(op) or level) for op, level in ops}
    totals = [plan.total(op, level) for op, level in ops] if plan else []
    known = [total for total in totals if total]
    return micro_batches * sum(known) if known and len(known) == len(totals) else None


def fp8(evidence, measure):
    """A Hopper GPU multiplies wide layers in bfloat16."""
    hopper = any(name in evidence.device for name in ("H100", "H200"))
    if not hopper or evidence.integer("model.width") < 2048 or evidence.value("precision.compute") != "bfloat16":
        return None
    if evidence.value("precision.linear.format", "none") != "none":
        return None
    products = evidence.time_of(lambda row: row.op == "linear" and row.layer is not None)
    extra = ("precision.linear={format: fp8}",)
    return Advice("fp8", extra, None, measure.saved_bytes(extra),
                  f"Linear layers of blocks take {products:.2f} ms of a step in bfloat16, and no plan measures them in FP8.",
                  "products are rounded to 8 bits")  # fmt: skip


def vocabulary(evidence, measure):
    """The rows of the output layer do not fill the tiles of a GPU's products."""
    size = evidence.integer("model.vocabulary")
    if not evidence.on_gpu or size % 64 == 0:
        return None
    padded = (size + 127) // 128 * 128
    extra = (f"model.vocabulary={padded}",)
    before, after = measure.plan(), measure.plan(extra)
    now, then = whole_step(evidence, before), whole_step(evidence, after, chosen=True)
    gain = computation(evidence) * (1 - then / now) if now and then else None
    if gain is not None and gain < LEAST * evidence.compute:
        return None
    return Advice("vocabulary", extra, gain, measure.saved_bytes(extra),
                  f"The vocabulary has {size} tokens, which is no multiple of 64, and {padded} is one.", "the model has tokens that no text has")  # fmt: skip


def attention_pattern(evidence, measure):
    """Attention to all earlier tokens takes much of a step with long sequences."""
    sequence = evidence.integer("model.sequence")
    milliseconds = evidence.time_of(lambda row: row.op == "attention")
    if evidence.value("model.attention") != "causal" or sequence < 4096 or milliseconds < 0.3 * evidence.compute:
        return None
    extra = (f"model.attention=causal & window({sequence // 4})",)
    level = next(row.level for row in evidence.ops if row.op == "attention")
    before, after = measure.plan(), measure.plan(extra)
    now, then = (plan.total("attention", level) if plan else None for plan in (before, after))
    gain = milliseconds * (1 - then / now) if now and then else None
    if gain is not None and gain < LEAST * evidence.compute:
        return None
    return Advice("attention pattern", extra, gain, measure.saved_bytes(extra),
                  f"Attention takes {milliseconds:.2f} ms of {evidence.compute:.2f} ms with sequences of {sequence} tokens.",
                  "tokens see fewer tokens before them")  # fmt: skip

# SPDX-License-Identifier: MIT
"""The table of rules. A rule takes the evidence of a run and the commands that measure, and returns an Advice or None."""
import rules_of_ops
import rules_of_ranks
import rules_of_runs
import rules_of_steps

RULES = (
    rules_of_steps.memory,
    rules_of_steps.recomputation,
    rules_of_steps.micro_batch,
    rules_of_steps.threads,
    rules_of_steps.readers,
    rules_of_runs.checkpoints,
    rules_of_runs.evaluations,
    rules_of_runs.profile,
    rules_of_ranks.replicate,
    rules_of_ranks.reshard,
    rules_of_ranks.prefetch,
    rules_of_ranks.accumulate,
    rules_of_ops.levels,
    rules_of_ops.fused_head,
    rules_of_ops.step_graph,
    rules_of_ops.compute_type,
    rules_of_ops.fp8,
    rules_of_ops.vocabulary,
    rules_of_ops.attention_pattern,
)


def advices(evidence, measure):
    """Returns the advice of all rules, in the order of the table."""
    return [advice for advice in (rule(evidence, measure) for rule in RULES) if advice]

# SPDX-License-Identifier: MIT
"""Facts of a run and a file of times that no machine measured, for tests of promises."""
import os
import sys

sys.path[:0] = [os.path.join("tools", "promise"), "tools"]

from short_runs import ops_hash  # noqa: E402

MACHINE = {"device": "A Processor", "torch": "2.11.0", "kernels": "0123"}
LINEAR = {"op": "linear", "shape": "8x8->8", "level": "aten", "dtype": "Float", "input_gradient": True}
ADAMW = {"op": "adamw", "shape": "64", "level": "aten", "dtype": "Float", "input_gradient": True}
FACTS = {
    **MACHINE, "is_gpu": False, "item": "tokens", "ranks": 1, "threads_of_ranks": [2], "feed": None, "steps": 100, "items_per_step": 1000, "micro_batches": 4, "layers": 2,
    "samples_per_round": 8, "evaluation_every": 40, "evaluation_samples": 20, "final_samples": 64,
    "checkpoint_every": 30, "saved_bytes": 1000, "saving_ranks": 1,
    "memory": [{"name": "weights", "bytes": 3 << 20}, {"name": "batches", "bytes": 1 << 20}], "memory_margin": 1 << 20,
    "ops": [{**LINEAR, "part": "forward", "calls": 3}, {**LINEAR, "part": "recomputation", "calls": 2}, {**ADAMW, "part": "optimizer", "calls": 5},
            {**LINEAR, "part": "evaluation", "calls": 3}],
    "collectives": [], "ops_without_times": [], "settings": "cuda_graph=auto",
}  # fmt: skip
TIMES = {"ranks": 1, "threads": 2}
ROWS = [
    {"kind": "op", **TIMES, **LINEAR, "forward": [1, 2, 4], "backward": [10, 20, 40]},
    {"kind": "op", **TIMES, **ADAMW, "forward": [0.1, 0.2, 0.3], "backward": None},
    # Of a step of two layers and four micro-batches, as FACTS has them.
    {"kind": "outside", **TIMES, "ops": ops_hash(FACTS), "exchange": "", "layers": 2, "micro_batches": 4, "forward": [6, 6, 6],
     "backward": [-7, -7, -7], "optimizer": [0, 0, 0], "data": [7, 7, 7], "exposed": None, "sent": None, "watts": None},
    {"kind": "storage", **TIMES, "copy": [0.001, 0.002, 0.003], "write": [0.01, 0.02, 0.03]},
]  # fmt: skip
TWO = {**FACTS, "ranks": 2, "saving_ranks": 2, "threads_of_ranks": [2, 2],
       "collectives": [{"operation": "all_gather", "bytes": 64, "ranks": 2, "part": "forward", "calls": 10},
                       {"operation": "all_reduce", "bytes": 12, "ranks": 2, "part": "optimizer", "calls": 1}]}  # fmt: skip
ROWS_OF_TWO = [{**row, "ranks": 2} for row in ROWS if row["kind"] != "outside"] + [
    {**ROWS[2], "ranks": 2, "exchange": "forward all_gather, optimizer all_reduce", "exposed": [40.75] * 3, "sent": [81.5] * 3},
    *({"kind": "collective", "ranks": 2, "threads": 2, "operation": operation, "bytes": size, "seconds": [size / 16, size / 8, size / 4]}
      for operation in ("all_gather", "all_reduce") for size in (8, 16, 128)),
]  # fmt: skip

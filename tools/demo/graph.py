# SPDX-License-Identifier: MIT
"""a whole step as one CUDA graph, with the same bits

A step starts thousands of small kernels. On a GPU Strata captures them once, as a CUDA graph, and replays them with one
launch, so that the GPU does not wait for its host. A CPU has no such graph, and Strata refuses to do without one that was
asked for. With a GPU this demo takes the same steps with and without the graph."""
import os

import findings
from gpus import gpus_here

READ = "docs/running.md#gpus"
SHAPE = ["--ranks", "1", "run.device=cuda", "run.deterministic=true", "batch=8"]


def run(lab):
    lab.train("refused", "--ranks", "1", "cuda_graph=on", expect=(2,))
    if gpus_here():
        for graph in ("off", "on"):
            lab.bench(graph, *SHAPE, f"cuda_graph={graph}")


def check(results):
    yield findings.equal("a run on a CPU that asks for a graph is refused: its exit code", 2, results.code("refused"))
    said = results.text("refused.err") + results.output("refused")
    yield findings.claim("the message names the key and the reason", "cuda_graph: on needs GPUs" in said, "cuda_graph: on needs GPUs", said.strip())
    yield findings.claim("nothing was written", not os.path.exists(results.path("refused")), "no folder of the run",
                         "a folder" if os.path.exists(results.path("refused")) else "none")
    if not os.path.exists(results.path("on.json")):
        yield findings.not_shown("a captured step with the same bits, and its time", "this machine has no GPU")
        return
    off, on = results.bench_row("off"), results.bench_row("on")
    yield findings.equal("the step was captured (off, on)", (False, True), (off["cuda_graph"], on["cuda_graph"]))
    names = ("first_loss", "first_gradient_norm", "loss")
    yield findings.equal("losses and gradient norm, bit for bit", [off[name] for name in names], [on[name] for name in names])
    yield findings.seen(f"a step took {off['milliseconds']:.2f} ms without and {on['milliseconds']:.2f} ms with the graph")

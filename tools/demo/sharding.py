# SPDX-License-Identifier: MIT
"""sharding on 1, 2 and 4 ranks: the same losses, and less memory on each

With sharding.strategy: full each rank holds a part of weights, gradients and moments. The complete weights of a layer are
gathered only while it computes, in buffers whose size does not depend on the number of ranks. Each step takes the same
samples on any number of ranks. This demo trains one model on 1, 2 and 4 ranks; each rank is a process."""
import os

import findings

READ = "docs/running.md#several-ranks"
RANKS = (1, 2, 4)
WITHIN = 1e-4  # of the losses in float32: sums over ranks round in another order
PARTS = ("master weights", "moments", "gradients")
PADDING = 0.01  # of a part: shards are of one size


def run(lab):
    lab.prepare_text()
    for ranks in RANKS:
        lab.train(f"on-{ranks}", "--ranks", str(ranks))


def held(results, ranks):
    return sum(results.memory(f"on-{ranks}")[part] for part in PARTS)


def saved(results, ranks):
    """Returns the bytes that each rank wrote into the last checkpoint."""
    folder = results.path(f"on-{ranks}/checkpoints/step-00000020")
    return [os.path.getsize(os.path.join(folder, name)) for name in sorted(os.listdir(folder)) if name.startswith("rank-")]


def check(results):
    for ranks in RANKS[1:]:
        yield findings.equal(f"{ranks} ranks start with the same weights: their SHA-256", results.weights("on-1")[0],
                             results.weights(f"on-{ranks}")[0])
        yield findings.close(f"losses on {ranks} ranks are those on 1", results.steps("on-1"), results.steps(f"on-{ranks}"), WITHIN)
        whole, part = held(results, 1), held(results, ranks)
        yield findings.claim(f"predicted bytes of weights, moments and gradients on each of {ranks} ranks", abs(part * ranks / whole - 1) < PADDING,
                             f"{whole // ranks:,} bytes, a share of {whole:,}", f"{part:,} bytes in memory.txt")
        whole, parts = sum(saved(results, 1)), saved(results, ranks)
        shares = len(parts) == ranks and all(abs(part * ranks / whole - 1) < PADDING for part in parts)
        yield findings.claim(f"bytes that each of {ranks} ranks wrote into the checkpoint", shares,
                             f"{ranks} files of about {whole // ranks:,} bytes", ", ".join(f"{part:,}" for part in parts))
    yield findings.seen("predicted peak of all tensors of a rank, with buffers and activations: " + ", ".join(
        f"{results.memory(f'on-{ranks}')['most at once']:,} bytes on {ranks}" for ranks in RANKS))

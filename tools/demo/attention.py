# SPDX-License-Identifier: MIT
"""attention patterns: which pairs are visible, and which tiles are computed

A pattern says which keys each query sees. Kernels compute attention in tiles of 64 x 64 pairs, and leave out tiles without
a visible pair. This demo asks tools/strata validate for the shares of pairs and tiles, counts both again with two loops,
and takes steps with patterns that see the same and with one that sees less."""
import re

import findings
from lab import CONFIG

READ = "docs/attention.md"
POSITIONS, TILE = 256, 64
# The pattern of each layer, and the same by its definition: query q sees key k.
PATTERNS = {
    "causal": lambda q, k: k <= q,
    "causal & window(64)": lambda q, k: k <= q and abs(q - k) < 64,
    "causal | prefix(100)": lambda q, k: k <= q or k < 100,
    "causal & (window(32) | global(16))": lambda q, k: k <= q and (abs(q - k) < 32 or min(q, k) < 16),
}
ROUNDED = 0.051  # percent: validate prints one decimal
SHAPE = ["--ranks", "1", "run.threads=1", "model.layers=2", "batch=4", "micro_batch=4", f"model.sequence={POSITIONS}"]
# The second pattern sees the same as the first, and the third sees less.
STEPS = {"all": "causal", "same": f"causal & window({POSITIONS})", "less": "causal & window(8)"}
WITHIN = 1e-5  # of a loss in float32


def run(lab):
    layers = ", ".join(f"{{only: {layer}, attention: {pattern}}}" for layer, pattern in enumerate(PATTERNS))
    lab.strata("shares", "validate", CONFIG, f"model.sequence={POSITIONS}", f"model.layers={len(PATTERNS)}", f"layers=[{layers}]")
    for name, pattern in STEPS.items():
        lab.bench(name, *SHAPE, f"model.attention={pattern}")


def counted(sees):
    """Returns the percent of pairs that are visible, and of tiles with a visible pair."""
    pairs = [(q, k) for q in range(POSITIONS) for k in range(POSITIONS) if sees(q, k)]
    tiles = {(q // TILE, k // TILE) for q, k in pairs}
    return 100 * len(pairs) / POSITIONS**2, 100 * len(tiles) / (POSITIONS // TILE) ** 2


def check(results):
    lines = re.findall(r"^  (\S.*) in layers? [\d, -]+: ([\d.]+) % of pairs are visible, in ([\d.]+) % of tiles.*\n    (.*)$",
                       results.output("shares"), re.MULTILINE)
    said = {pattern: (float(pairs), float(tiles)) for pattern, pairs, tiles, _ in lines}
    for pattern, sees in PATTERNS.items():
        came, expected = said.get(pattern, ()), counted(sees)
        yield findings.claim(f"shares of {pattern}", len(came) == 2 and all(abs(a - b) <= ROUNDED for a, b in zip(came, expected)),
                             "{:.1f} % of pairs in {:.1f} % of tiles, as two loops count them".format(*expected),
                             "{} % of pairs in {} % of tiles".format(*came) if came else "no line of it")
    rows = {name: results.bench_row(name) for name in STEPS}
    losses = {name: [row["first_loss"], row["loss"]] for name, row in rows.items()}
    yield findings.close(f"{STEPS['same']} sees the same of {POSITIONS} positions as causal, so it has the same losses", losses["all"],
                         losses["same"], WITHIN, "number")
    apart = abs(losses["less"][0] - losses["all"][0])
    yield findings.claim(f"{STEPS['less']} sees less, so it has other losses", apart > 2 * WITHIN, f"a first loss more than {2 * WITHIN:g} apart",
                         f"{apart:.2g} apart")
    yield findings.seen("a step took " + ", ".join(f"{rows[name]['milliseconds']:.0f} ms with {pattern}" for name, pattern in STEPS.items()))
    for pattern, _, _, computed in lines:
        yield findings.seen(f"{pattern}: {computed}")
    yield findings.not_shown("a step that is faster because tiles are left out",
                             "this demo runs on CPUs, and level triton, which does so for every pattern, needs a GPU")

# SPDX-License-Identifier: MIT
"""a fused op beside its parts: output layer and loss

The output layer of a language model makes a number for each token and each word of the vocabulary: the logits. The loss
reads them once. The op linear_cross_entropy fuses both: it takes some rows at a time, so the complete logits are never in
memory. This demo takes the same steps with the two parts and with the fused op."""
import findings

READ = "docs/kernels.md#choosing-levels"
VOCABULARY, SEQUENCES, TOKENS = 8192, 32, 128
LOGITS = 4 * VOCABULARY * SEQUENCES * TOKENS  # bytes in float32
SHAPE = ["--ranks", "1", "run.threads=1", "model.layers=1", "model.width=32", "model.heads=2", "model.feed_forward=64",
         f"model.vocabulary={VOCABULARY}", f"model.sequence={TOKENS}", f"batch={SEQUENCES}", f"micro_batch={SEQUENCES}"]
WITHIN = 1e-4  # of a loss and of a gradient norm in float32


def run(lab):
    lab.bench("parts", *SHAPE)
    lab.bench("fused", *SHAPE, "kernels.linear_cross_entropy=aten")


def check(results):
    parts, fused = results.bench_row("parts"), results.bench_row("fused")
    names = ("first_loss", "first_gradient_norm", "loss")
    yield findings.close("first loss, first gradient norm and last loss are those of the parts", [parts[name] for name in names],
                         [fused[name] for name in names], WITHIN, "number")
    saved = parts["step_memory_bytes"] - fused["step_memory_bytes"]
    yield findings.claim("the fused op does not keep the logits", LOGITS / 2 < saved, f"more than {LOGITS // 2:,} bytes less, half of the logits",
                         f"{parts['step_memory_bytes']:,} and {fused['step_memory_bytes']:,} bytes at the peak of a step, {saved:,} less")
    yield findings.equal("what it saves was predicted before the start, to the byte", saved,
                         parts["predicted_peak_memory_bytes"] - fused["predicted_peak_memory_bytes"])
    yield findings.seen(f"a step took {parts['milliseconds']:.0f} ms with the parts and {fused['milliseconds']:.0f} ms with the fused op")

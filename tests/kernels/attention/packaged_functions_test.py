# SPDX-License-Identifier: MIT
"""Runs the functions of attention_programs.py on a CPU, where FlexAttention computes all pairs and reads no lists of tiles.
So masks, terms and gradients are compared with the definition, before anything is compiled."""
import sys
import unittest

sys.path.insert(0, "tools/aot_inductor")
import make_packages  # noqa: E402

import torch

FAR = 2**31 - 1
BATCH, POSITIONS, TILES, KEY_VALUE_HEADS, GROUP, WIDTH = 2, 150, 2, 2, 3, 16
HEADS = KEY_VALUE_HEADS * GROUP
OFFSETS = torch.tensor([0, 70, 90, 150, 215, 300], dtype=torch.int32)  # of documents, in two rows
SOFTCAP = 2.0
# The program of pattern/program.h, and the band if that is the mask.
PATTERNS = {
    "full": ([2, -FAR, FAR], [-FAR, FAR]),
    "causal": ([2, 0, FAR], [0, FAR]),
    "causal & window(40)": ([2, 0, 39], [0, 39]),
    "window(9) & documents": ([2, -8, 8, 7, 0, 0, 0, 0, 0], [-8, 8]),
    "causal | prefix(70)": ([2, 0, FAR, 4, 70, 0, 1, 0, 0], None),
    "dilated(5, 4) | blocks(0.3, 5)": ([3, 4, 20, 6, -1640531527, 5033165, 1, 0, 0], None),
    "causal & documents | global(5)": ([2, 0, FAR, 7, 0, 0, 0, 0, 0, 5, 5, 0, 1, 0, 0], None),
    "window(4) & prefix(4)": ([2, -3, 3, 4, 4, 0, 0, 0, 0], None),  # most queries see no key
}
definition = make_packages.loaded("kernels/attention/attention.py")
programs = make_packages.loaded("kernels/attention/attention_programs.py")


def padded(rows):
    return torch.cat([rows, rows.new_zeros(BATCH, TILES * 128 - POSITIONS, *rows.shape[2:])], 1)


def masks(program, document):
    """The mask of each tile, and the masks, of the pairs that the program sees. document: [1, T]"""
    seen = torch.zeros(TILES * 128, TILES * 128, dtype=torch.bool)
    seen[:POSITIONS, :POSITIONS] = definition.visible(program, document, 0, document.size(1)).reshape(POSITIONS, POSITIONS)
    bits = seen.view(TILES, 128, TILES, 4, 32).permute(0, 2, 1, 3, 4).reshape(-1, 128, 4, 32)
    words = (bits.to(torch.int64) << torch.arange(32)).sum(3).to(torch.int32)
    return torch.arange(TILES * TILES, dtype=torch.int32).view(TILES, TILES), words


def tensors_of_mask(program, band):
    """The name of the mask, and its tensors."""
    has_documents = 7 in program[::3]
    document = torch.bucketize(torch.arange(BATCH * POSITIONS), OFFSETS[1:], right=True).view(BATCH, POSITIONS)
    tile_documents = [padded(document.unsqueeze(2)).to(torch.int32).view(BATCH, TILES, 128)] if has_documents else []
    if band is not None:
        return "band" + "_documents" * has_documents, [torch.tensor([*band, POSITIONS], dtype=torch.int32), *tile_documents]
    one, words = masks(program, torch.zeros(1, POSITIONS))
    if not has_documents:
        return "bits", [one, words]
    two, others = masks(program, torch.arange(POSITIONS).unsqueeze(0))  # each position is a document of its own
    return "bits_documents", [one, two + len(words), torch.cat([words, others]), *tile_documents]


class PackagesOfAttention(unittest.TestCase):
    def compare(self, pattern, terms=()):
        program, band = PATTERNS[pattern]
        generator = torch.Generator().manual_seed(7)
        qkv, grad_y, sinks = (torch.randn(*sizes, generator=generator, dtype=torch.float64) for sizes in (
            (BATCH, POSITIONS, (HEADS + 2 * KEY_VALUE_HEADS) * WIDTH), (BATCH, POSITIONS, HEADS * WIDTH), (HEADS,)))
        leaves = [qkv.requires_grad_(), *[sinks.requires_grad_()] * ("sinks" in terms)]
        want = definition.attention(qkv, HEADS, KEY_VALUE_HEADS, program, OFFSETS if 7 in program[::3] else None, "alibi" in terms,
                                    SOFTCAP if "softcap" in terms else 0.0, sinks if "sinks" in terms else None)  # fmt: skip
        wanted = torch.autograd.grad(want, leaves, grad_y)

        name, mask_tensors = tensors_of_mask(program, band)
        slopes = definition.alibi_slopes(HEADS, torch.zeros(1)).view(KEY_VALUE_HEADS, GROUP)
        term_tensors = {"alibi": slopes, "softcap": torch.tensor([SOFTCAP]), "sinks": sinks.detach().float().view(KEY_VALUE_HEADS, GROUP)}
        lists = [torch.zeros(1, TILES, *[TILES] * (i % 2), dtype=torch.int32) for i in range(8)]
        common = [*lists, *mask_tensors, *(term_tensors[term] for term in terms)]
        packed = padded(qkv.detach().float()).view(BATCH, TILES, 128, KEY_VALUE_HEADS, GROUP + 2, WIDTH)
        by_group = (BATCH, TILES, 128, KEY_VALUE_HEADS, GROUP, WIDTH)
        functions = {each.function: each.call for each in programs.PROGRAMS}
        suffix = "_".join((name, *terms))
        y, logsumexp = functions[f"forward_{suffix}"](None, packed, *common)
        by_group_of_tiles = (BATCH, KEY_VALUE_HEADS, GROUP, TILES, 128)
        results = functions[f"backward_{suffix}"](
            None, padded(grad_y.float()).view(by_group), packed, padded(y[:, :POSITIONS]).view(by_group), logsumexp.reshape(by_group_of_tiles), *common)
        grad_qkv, *grad_sinks = results if "sinks" in terms else (results,)
        got = [y[:, :POSITIONS].flatten(2), grad_qkv[:, :POSITIONS].flatten(2), *grad_sinks]
        for what, value, expected in zip(("y", "grad_qkv", "grad_sinks")[: len(got)], got, (want, *wanted), strict=True):
            error = ((value.double() - expected).norm() / expected.norm()).item()
            self.assertLess(error, 3e-6, f"{what} of {pattern} with {terms}")

    def test_patterns(self):
        for pattern in PATTERNS:
            if pattern != "window(4) & prefix(4)":
                self.compare(pattern)

    def test_terms(self):
        every = ("alibi", "softcap", "sinks")
        for terms in (*((term,) for term in every), ("alibi", "softcap"), every):
            self.compare("causal", terms)
        for pattern in PATTERNS:
            self.compare(pattern, every)

    def test_a_query_that_sees_no_key_attends_to_the_sink_alone(self):
        self.compare("window(4) & prefix(4)", ("sinks",))


if __name__ == "__main__":
    unittest.main()

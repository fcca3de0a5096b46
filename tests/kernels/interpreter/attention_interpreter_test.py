# SPDX-License-Identifier: MIT
"""Runs the Triton kernels of attention on a CPU, in Triton's interpreter, with lists of tiles from a loop over pairs."""
import os
import re
import unittest

from kernel_case import TOLERANCES, KernelTest, relative
from triton_interpreter import formula, kernels, launch

import torch

from kernels.attention import attention_tile_triton

FAR = 2**31 - 1
EVERY = bool(os.environ.get("STRATA_TEST_ALL"))  # every combination of what is tested one by one otherwise
BATCH, POSITIONS = 2, 150
OFFSETS = torch.tensor([0, 70, 90, 150, 215, 300], dtype=torch.int32)  # of documents, in two rows of POSITIONS
NUMBERS = dict(lowest=-FAR, highest=FAR, near_lowest=FAR, near_highest=FAR, stride=1, span=0, prefix=0, border=0, hash_key=0, threshold=0)

# What tile_words() gives for each program. Bits: band 1, documents 2, near 4, stride 8, prefix 16, global 32, blocks 64,
# program 128.
PATTERNS = {
    "full": ([2, -FAR, FAR], dict(words=1, near_lowest=-FAR)),
    "causal": ([2, 0, FAR], dict(words=1, lowest=0, near_lowest=-FAR)),
    "causal & window(40)": ([2, 0, 39], dict(words=1, lowest=0, highest=39, near_lowest=-FAR)),
    "documents": ([7, 0, 0], dict(words=2, near_lowest=-FAR)),
    "causal & documents": ([2, 0, FAR, 7, 0, 0, 0, 0, 0], dict(words=3, lowest=0, near_lowest=-FAR)),
    "causal | prefix(70)": ([2, 0, FAR, 4, 70, 0, 1, 0, 0], dict(words=20, near_lowest=0, prefix=70)),
    "causal & (window(30) | global(5))": ([2, 0, FAR, 2, -29, 29, 5, 5, 0, 1, 0, 0, 0, 0, 0],
                                          dict(words=37, lowest=0, near_lowest=-29, near_highest=29, border=5)),
    "causal & blocks(0.3, 5)": ([2, 0, FAR, 6, -1640531527, 5033165, 0, 0, 0], dict(words=65, lowest=0, hash_key=-1640531527, threshold=5033165)),
    "blocks(0.3, 5)": ([6, -1640531527, 5033165], dict(words=64, hash_key=-1640531527, threshold=5033165)),
    "causal & documents | global(5)": ([2, 0, FAR, 7, 0, 0, 0, 0, 0, 5, 5, 0, 1, 0, 0], dict(words=128)),
    "dilated(5, 4) | blocks(0.3, 5)": ([3, 4, 20, 6, -1640531527, 5033165, 1, 0, 0], dict(words=128)),
}


def visible(program, document):
    seen = formula("attention").visible(program, document, 0, document.size(1))
    return seen[:, 0] if seen.dim() == 4 else seen.unsqueeze(0)


def tile_states(seen, queries, keys):
    """How many pairs of each tile are visible, and how many there are. seen: [rows, Q, T]."""
    rows, all_queries, positions = seen.shape
    counts = torch.zeros(rows, -(-all_queries // queries), -(-positions // keys), dtype=torch.int64)
    for i in range(counts.size(1)):
        for j in range(counts.size(2)):
            counts[:, i, j] = seen[:, i * queries:(i + 1) * queries, j * keys:(j + 1) * keys].sum((1, 2))
    return counts, queries * keys


def lists(seen, queries, keys, by_key):
    """The lists of one row of the batch: rows [tiles, 4] and indices. seen: [Q, T]."""
    counts, pairs = tile_states(seen.unsqueeze(0), queries, keys)
    counts = counts[0].t() if by_key else counts[0]
    rows, indices = [], []
    for tile, row in enumerate(counts.tolist()):
        partial, full = ([j for j, count in enumerate(row) if chosen(count)] for chosen in (lambda n: 0 < n < pairs, lambda n: n == pairs))
        rows.append([tile, len(indices), len(indices) + len(partial), len(indices) + len(partial) + len(full)])
        indices += partial + full
    rows.sort(key=lambda row: row[1] - row[3])
    return torch.tensor(rows, dtype=torch.int32), torch.tensor(indices, dtype=torch.int32)


class Problem:
    def __init__(self, pattern, heads=2, key_value_heads=1, width=64, dtype=torch.bfloat16, positions=POSITIONS, step=1, offsets=OFFSETS, program=None,
                 words=None, alibi=False, softcap=0.0, sinks=False, part=None):
        self.program, numbers = PATTERNS[pattern] if program is None else (program, words)
        self.residue_program = self.program if words is None else [2, words["lowest"], words["highest"]]
        self.positions, self.heads, self.key_value_heads, self.width, self.dtype, self.step = positions, heads, key_value_heads, width, dtype, step
        self.has_documents = 7 in self.program[::3]
        places = torch.arange(BATCH * positions, dtype=torch.int32)
        self.document = torch.bucketize(places, offsets[1:], out_int32=True, right=True).view(BATCH, positions)
        # The queries of a part are first_query, first_query + 1, ... Otherwise all are in one tensor with the keys and values.
        self.first_query, self.queries = part or (0, positions)
        key_columns = 2 * key_value_heads * width
        if part:
            self.leaves = [torch.randn(BATCH, self.queries, heads * width).to(dtype), torch.randn(BATCH, positions, key_columns).to(dtype)]
        else:
            self.leaves = [torch.randn(BATCH, positions, heads * width + key_columns).to(dtype)]
        self.grad_y = torch.randn(BATCH, self.queries, heads * width).to(dtype)
        self.alibi, self.softcap = alibi, softcap
        self.sinks = torch.randn(heads).to(dtype) if sinks else None
        self.terms = (1 if alibi else 0) + (2 if softcap else 0)
        # What attention_triton.cc gives a kernel for the terms that a call does not have.
        self.slopes = formula("attention").alibi_slopes(heads, torch.empty(0)) if alibi else torch.zeros(heads)
        self.kernel_sinks = self.sinks.float() if sinks else torch.full((heads,), float("-inf"))
        self.numbers = {**NUMBERS, **numbers}
        self.mutate = lambda rows, indices: None

    def sizes(self, kernel):
        """The sizes of tiles in attention_triton.cc."""
        if self.dtype == torch.float32:
            return (32, 32) if self.width <= 64 else (16, 16)
        if kernel == "attention_backward_query":
            return (64, 64) if self.width <= 64 or self.has_only_blocks() else (128, 64) if self.width <= 128 else (64, 32)
        return (32, 64) if kernel == "attention_backward_key" and self.width > 64 else (64, 64)

    def has_only_blocks(self):
        return self.numbers["words"] in (64, 65) and 64 < self.width <= 128 and self.terms == 0 and self.dtype != torch.float32

    def heads_of_tile(self, kernel):
        """How many heads of a group a tile of queries has, as in attention_triton.cc."""
        return 2 if self.has_only_blocks() and kernel == "attention_backward_query" and self.heads // self.key_value_heads % 2 == 0 else 1

    def lists(self, kernel):
        queries, keys = self.sizes(kernel)
        by_key = kernel == "attention_backward_key"
        same = torch.zeros(1, self.positions // self.step, dtype=torch.int32)
        seen = visible(self.residue_program, same)[0].narrow(0, self.first_query, self.queries // self.step)
        rows, indices = lists(seen, queries, keys, by_key)
        if self.has_documents:
            own_rows, own_indices = torch.zeros(BATCH, len(rows), 4, dtype=torch.int32), torch.zeros(BATCH, max(1, len(indices)), dtype=torch.int32)
            query_range, key_range = (self.first_query, self.first_query + self.queries, queries), (0, self.positions, keys)
            (begin, end, size), (other_begin, other_end, other_size) = (key_range, query_range) if by_key else (query_range, key_range)
            launch(kernels("attention/attention")["attention_document_tiles"], documents=self.document, rows=rows, indices=indices, own_rows=own_rows,
                   own_indices=own_indices, positions=self.positions, begin=begin, end=end, other_begin=other_begin, other_end=other_end, tiles=len(rows),
                   capacity=len(indices), size=size, other_size=other_size, must_share=int(self.numbers["words"] & 2 != 0), batch=BATCH)
            rows, indices = own_rows, own_indices
        self.mutate(rows.view(-1, 4), indices.view(-1))
        return rows, indices

    def split(self, leaves):
        """Queries, and keys and values."""
        return leaves if len(leaves) == 2 else (leaves[0], leaves[0][:, :, self.heads * self.width:])

    def run(self, kernel, **tensors):
        queries, keys = self.sizes(kernel)
        query, key_value = self.split(self.leaves)
        rows, indices = self.lists(kernel)
        # Two heads and sequences run together, so that the order of programs is tested too.
        return launch(kernels("attention/attention_backward" if "backward" in kernel else "attention/attention")[kernel], **tensors, query=query,
                      key_value=key_value, rows=rows, indices=indices, documents=self.document if self.has_documents else None,
                      program=torch.tensor(self.residue_program, dtype=torch.int32), slopes=self.slopes, sinks=self.kernel_sinks,
                      query_count=self.queries, first_query=self.first_query, positions=self.positions, heads=self.heads,
                      key_value_heads=self.key_value_heads, head_width=self.width, query_width=query.stride(1), key_width=key_value.stride(1),
                      step=self.step, tiles=rows.size(-2), own_lists=int(self.has_documents), together=2, scale=self.width**-0.5,
                      softcap=self.softcap, instructions=len(self.residue_program) // 3, sequences=BATCH * self.step, queries=queries, keys=keys,
                      heads_of_tile=self.heads_of_tile(kernel), terms=self.terms, **self.numbers)

    def forward_and_backward(self):
        self.y, self.logsumexp = torch.full_like(self.grad_y, float("nan")), torch.empty(BATCH, self.heads, self.queries)
        self.run("attention_forward", y=self.y, logsumexp=self.logsumexp)
        gradients = [torch.full_like(leaf, float("nan")) for leaf in self.leaves]
        grad_query, grad_key_value = self.split(gradients)
        queries, _ = self.sizes("attention_backward_query")
        padded = -(-self.queries // self.step // queries) * queries
        row_sums, deltas = (torch.full((BATCH * self.step, self.heads, padded), float("nan")) for _ in range(2))
        tiles = -(-(self.queries // self.step) // self.sizes("attention_backward_query")[0])
        tile_sinks = torch.full((BATCH * self.step, self.heads, tiles), float("nan"))
        self.chosen = self.run("attention_backward_query", grad_y=self.grad_y, y=self.y, logsumexp=self.logsumexp, row_sums=row_sums, deltas=deltas,
                               grad_query=grad_query, grad_sinks=tile_sinks, padded_rows=padded).constants
        self.run("attention_backward_key", grad_y=self.grad_y, row_sums=row_sums, deltas=deltas, grad_key_value=grad_key_value, padded_rows=padded)
        return [self.y, *gradients] + ([] if self.sinks is None else [tile_sinks.sum((0, 2))])


class AttentionTest(KernelTest):
    def errors(self, problem):
        """The errors of the result and of the gradients, as multiples of what is allowed. The gradient of a sink is a sum over
        all rows, which cancels."""
        p = problem
        offsets = OFFSETS if p.has_documents else None
        parts = len(p.leaves)

        def run(*leaves):
            return formula("attention").attention(leaves[0], p.heads, p.key_value_heads, p.program, offsets, p.alibi, p.softcap,
                                                  leaves[parts] if p.sinks is not None else None, leaves[1] if parts == 2 else None, p.first_query)

        outputs, gradients = self.gradients(run, p.leaves if p.sinks is None else [*p.leaves, p.sinks], [p.grad_y])
        return [relative(a, b) / TOLERANCES[p.dtype] / factor
                for a, b, factor in zip(p.forward_and_backward(), outputs + gradients, (1, *([2] * parts), 6))]

    def check(self, pattern, **more):
        problem = Problem(pattern, **more)
        for error in self.errors(problem):
            self.assertLess(error, 1, f"{pattern}, {more}")
        return problem.chosen

    def test_every_pattern_in_every_form(self):
        for pattern, (_, numbers) in PATTERNS.items():
            self.assertEqual(self.check(pattern)["MASK"], {2: 3, 20: 53, 37: 53, 64: 65}.get(numbers["words"], numbers["words"]), pattern)
            self.assertEqual(self.check(pattern, dtype=torch.float32, width=10, positions=70)["MASK"], 128, pattern)

    def test_every_width(self):
        for width, head in ((64, 64), (96, 128), (128, 128), (256, 256)):
            chosen = self.check("causal", width=width, dtype=torch.float16)
            self.assertEqual((chosen["HEAD"], chosen["WIDTH"]), (head, width))
        for width in (10, 32, 100, 130):
            self.assertEqual(self.check("causal & window(40)", width=width)["WIDTH"], 0)
        self.check("causal & documents", width=130, dtype=torch.float32)

    def test_heads_of_a_group_that_share_a_tile(self):
        for heads, key_value_heads, together in ((2, 1, 2), (8, 2, 2), (6, 2, 1), (2, 2, 1)):
            chosen = self.check("causal & blocks(0.3, 5)", heads=heads, key_value_heads=key_value_heads, width=128)
            self.assertEqual((chosen["HEADS"], chosen["MASK"]), (together, 65))
        shared = dict(heads=4, key_value_heads=2)
        for width, compiled in ((96, 96), (100, 0)):
            self.assertEqual(self.check("causal & blocks(0.3, 5)", width=width, sinks=True, dtype=torch.float16, **shared)["WIDTH"], compiled)
        for pattern, part in (("blocks(0.3, 5)", None), ("causal & blocks(0.3, 5)", (70, 40)), ("causal & blocks(0.3, 5)", (149, 1))):
            self.assertEqual(self.check(pattern, width=128, part=part, sinks=True, **shared)["HEADS"], 2)
        self.assertEqual(self.check("causal & blocks(0.3, 5)", width=128, alibi=True, **shared)["HEADS"], 1)

    def test_one_position_and_shared_heads(self):
        p = Problem("causal", heads=4, key_value_heads=2, positions=1)
        y, grad = p.forward_and_backward()
        values = p.leaves[0].view(BATCH, 8, 64)[:, 6:].repeat_interleave(2, 1)
        self.assertTrue(torch.equal(y.view(BATCH, 4, 64), values))
        # The gradients of queries and keys are zero. What is left are roundings of two equal sums.
        self.assertLess(grad.view(BATCH, 8, 64)[:, :6].abs().max().item(), 1e-5)
        self.check("causal", heads=6, key_value_heads=2, positions=65)

    def test_residues_of_a_dilated_pattern(self):
        words = {**NUMBERS, "words": 1, "lowest": 0, "highest": 6, "near_lowest": -FAR}
        self.check("causal & dilated(7, 3)", step=3, program=[2, 0, FAR, 3, 3, 21, 0, 0, 0], words=words)

    def test_terms(self):
        every = dict(alibi=True, softcap=2.0, sinks=True)
        # Each pattern has all terms, and one of them alone.
        for terms, compiled, alone in ((dict(alibi=True), 1, "documents"), (dict(softcap=2.0), 2, "prefix"), (dict(sinks=True), 0, "full"), (every, 7, "")):
            self.assertEqual(self.check("causal", heads=3, **terms)["TERMS"], compiled)
            if EVERY or alone in ("documents", ""):
                self.assertEqual(self.check("causal & documents", heads=4, key_value_heads=2, **terms)["MASK"], 128 if compiled == 7 else 3)
            if EVERY or alone in ("prefix", ""):
                self.assertEqual(self.check("causal | prefix(70)", heads=4, key_value_heads=2, **terms)["TERMS"], 7 if compiled else 0)
            if EVERY or alone in ("full", ""):
                self.check("full", dtype=torch.float32, width=10, positions=70, heads=3, key_value_heads=3, **terms)
        self.check("causal & window(40)", heads=4, key_value_heads=2, **every)
        for width, compiled in ((96, 0), (128, 128), (256, 256), (16, 0)):
            self.assertEqual(self.check("causal", width=width, dtype=torch.float16, **every)["WIDTH"], compiled)
        words = {**NUMBERS, "words": 1, "lowest": 0, "highest": 6, "near_lowest": -FAR}
        self.check("causal & dilated(7, 3)", step=3, program=[2, 0, FAR, 3, 3, 21, 0, 0, 0], words=words, **every)

    def test_queries_that_are_a_part_of_a_row(self):
        for part in ((0, 40), (64, 64), (77, 30), (100, 50)):
            for pattern in ("causal", "causal & documents"):
                self.check(pattern, heads=4, key_value_heads=2, part=part)
        for i, pattern in enumerate(PATTERNS):
            if EVERY or i % 2 == 0:
                self.check(pattern, part=(70, 64))
            if EVERY or i % 2 == 1:
                self.check(pattern, part=(31, 20), dtype=torch.float32, width=10)
        for width in (96, 128, 256):
            self.check("causal", width=width, dtype=torch.float16, part=(70, 64))
        for terms in (dict(alibi=True), dict(softcap=2.0), dict(sinks=True), dict(alibi=True, softcap=2.0, sinks=True)):
            self.check("causal & documents", heads=4, key_value_heads=2, part=(77, 60), **terms)

    def test_queries_that_see_only_the_sink(self):
        words = dict(words=1, lowest=100, near_lowest=-FAR)
        p = Problem("key <= query - 100", dtype=torch.float32, heads=4, program=[2, 100, FAR], words={**NUMBERS, **words}, sinks=True)
        self.assertTrue(all(error < 1 for error in self.errors(p)))
        self.assertEqual(p.y[:, :100].abs().max().item(), 0)

    def test_lists_of_documents(self):
        # Lists of 138 tiles are read in two parts.
        long = dict(positions=2200, width=100, offsets=torch.tensor([0, 2150, 2200, 2300, 4400], dtype=torch.int32))
        for pattern, kernel, more in (("documents", "attention_forward", {}), ("documents", "attention_forward", long),
                                      ("causal & documents", "attention_forward", {}), ("causal & documents", "attention_backward_key", {}),
                                      ("causal & documents | global(5)", "attention_forward", {})):
            p = Problem(pattern, dtype=torch.float32, **more)
            counts, pairs = tile_states(visible(p.program, p.document), *p.sizes(kernel))
            counts = counts.transpose(1, 2) if kernel == "attention_backward_key" else counts
            rows, indices = p.lists(kernel)
            listed, full = torch.zeros_like(counts, dtype=torch.bool), torch.zeros_like(counts, dtype=torch.bool)
            for batch in range(BATCH):
                for tile, first, middle, last in rows[batch].tolist():
                    row = indices.view(-1)[first:last].long()
                    listed[batch, tile, row] = True
                    full[batch, tile, row[middle - first:]] = True
                    self.assertEqual(len(row.unique()), len(row))
            self.assertTrue(torch.equal(full, counts == pairs))
            self.assertFalse((~listed & (counts > 0)).any())
            for_one_document = visible(p.program, torch.zeros_like(p.document[:1]))
            all_tiles = BATCH * (tile_states(for_one_document, *p.sizes(kernel))[0] > 0).sum()
            self.assertEqual(listed.sum() < all_tiles, "global" not in pattern)

    def test_words_have_the_bits_of_tile_words(self):
        with open("kernels/attention/pattern/tile_words.h", encoding="utf-8") as file:
            bits = re.findall(r"^    (\w+) = (\d+)", file.read(), re.MULTILINE)
        self.assertEqual(len(bits), 8)
        for word, bit in bits:
            self.assertEqual(getattr(attention_tile_triton, word.upper()).value, int(bit), word)

    def test_wrong_lists_are_refused(self):
        def drop_the_last_tile(rows, indices):
            rows[-1, 3] -= 1
            rows[-1, 2] = min(rows[-1, 2], rows[-1, 3])

        def take_a_partial_tile_for_a_full_one(rows, indices):
            row = rows[-1]  # has one tile, which is partial
            row[2] -= 1

        def read_another_tile(rows, indices):
            indices[rows[0, 1]] = (indices[rows[0, 1]] + 1) % len(rows)

        for mutate in (drop_the_last_tile, take_a_partial_tile_for_a_full_one, read_another_tile):
            problem = Problem("causal")
            problem.mutate = mutate
            with self.subTest(mutate.__name__):
                self.assertFalse(all(error < 1 for error in self.errors(problem)))


if __name__ == "__main__":
    unittest.main()

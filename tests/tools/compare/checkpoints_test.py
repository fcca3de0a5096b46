# SPDX-License-Identifier: MIT
"""Checks the comparison of checkpoints with folders that the safetensors package writes, in any number of pieces."""
import hashlib
import json
import os
import sys
import unittest

import safetensors.torch
import torch

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from command import CommandTest  # noqa: E402

NAMES = {torch.float32: "F32", torch.bfloat16: "BF16", torch.float16: "F16", torch.int64: "I64"}


class CheckpointsTest(CommandTest):
    def checkpoint(self, name, tensors, ranks=1, form="strata checkpoint 1", step=5, change=lambda members: None):
        """Writes each tensor in pieces of different lengths, one for each rank. `change` edits the manifest before it is written."""
        held, described = [{} for _ in range(ranks)], {}
        for tensor_name, tensor in tensors.items():
            count, begin, pieces = tensor.numel(), 0, []
            for rank in range(ranks):
                end = count if rank == ranks - 1 else min(count, begin + count // ranks + rank + 1)
                if end > begin:
                    held[rank][tensor_name] = tensor.flatten()[begin:end].clone()
                    pieces.append([rank, begin, end - begin])
                begin = end
            described[tensor_name] = {"dtype": NAMES[tensor.dtype], "shape": list(tensor.shape), "pieces": pieces}
        files = []
        for rank, pieces in enumerate(held):
            data = safetensors.torch.save(pieces, {"step": "5"})
            self.write(f"{name}/rank-{rank:05}.safetensors", data)
            files.append({"name": f"rank-{rank:05}.safetensors", "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()})
        members = {"format": form, "run": "ab", "step": step, "state": "", "files": files, "tensors": described}
        change(members)
        text = "{\n" + ",\n".join(f'"{key}": {json.dumps(value)}' for key, value in members.items())
        self.write(f"{name}/manifest.json", f'{text},\n"sha256": "{hashlib.sha256(text.encode()).hexdigest()}"\n}}\n')
        return name

    def tensors(self, **changes):
        draws = torch.Generator().manual_seed(1)
        found = {"blocks.10.mlp.weight/master": torch.randn(7, 11, generator=draws),
                 "blocks.2.mlp.weight/master": torch.randn(3, generator=draws),
                 "blocks.2.mlp.weight/first_moment": torch.randn(3, 5, generator=draws).bfloat16(),
                 "head/average": torch.randn(13, generator=draws).half(), "blocks.10.mlp/amax_history": torch.arange(9), "scalar/master": torch.tensor(2.5)}
        for name, change in changes.items():
            change(found[name])
        return found

    def test_equal_on_any_number_of_ranks(self):
        said = self.compare(self.checkpoint("a", self.tensors()), self.checkpoint("b", self.tensors(), ranks=3, step=6), expect=0)
        self.assertEqual(said, "A: a: step 5, 6 tensors\nB: b: step 6, 6 tensors\n6 tensors are equal bit for bit, 0 are not\nverdict: equal\n")

    def test_differences(self):
        """The numbers are those that PyTorch computes of the same tensors."""
        def change_rows(tensor):
            tensor[2, 3:] += 0.5
            tensor[6, 10] = -tensor[6, 10]

        a = self.tensors()
        b = self.tensors(**{"blocks.10.mlp.weight/master": change_rows, "blocks.2.mlp.weight/first_moment": lambda tensor: tensor[1].mul_(2),
                            "head/average": lambda tensor: tensor[12:].add_(1), "blocks.10.mlp/amax_history": lambda tensor: tensor[4:5].fill_(99)})
        said = self.compare(self.checkpoint("a", a, ranks=2), self.checkpoint("b", b, ranks=5), expect=1)
        self.assertIn("2 tensors are equal bit for bit, 4 are not\n", said)
        lines = [line.strip() for line in said.splitlines()[4:-1]]
        expected = []
        for name, first in (("blocks.10.mlp.weight/master", [2, 3]), ("head/average", [12]), ("blocks.2.mlp.weight/first_moment", [1, 0]),
                            ("blocks.10.mlp/amax_history", [4])):
            x, y = a[name].double(), b[name].double()
            expected.append(f"{name}: {int((x != y).sum())} of {x.numel()} elements differ, by at most {float((y - x).abs().max()):.4g}, "
                            f"relative L2 {float((y - x).norm() / x.norm()):.3g}, first at {first}")
        self.assertEqual(lines, expected)

    def test_weights_come_first_and_numbers_of_layers_are_numbers(self):
        other = {name: tensor + 1 for name, tensor in self.tensors().items()}
        said = self.compare(self.checkpoint("a", self.tensors()), self.checkpoint("b", other), expect=1)
        self.assertEqual([line.split(":")[0].strip() for line in said.splitlines()[4:-1]],
                         ["blocks.2.mlp.weight/master", "blocks.10.mlp.weight/master", "scalar/master", "head/average",
                          "blocks.2.mlp.weight/first_moment", "blocks.10.mlp/amax_history"])
        self.assertIn("1 of 1 elements differ, by at most 1, relative L2 0.4, first at []", said)

    def test_missing_shape_and_type(self):
        other = self.tensors()
        del other["scalar/master"]
        other["new/master"] = torch.ones(2)
        other["blocks.2.mlp.weight/master"] = torch.ones(4)
        other["head/average"] = other["head/average"].bfloat16()
        said = self.compare(self.checkpoint("a", self.tensors()), self.checkpoint("b", other), expect=1)
        for words in ("scalar/master: missing in B\n", "new/master: missing in A\n", "blocks.2.mlp.weight/master: shape [3] in A, [4] in B\n",
                      "head/average: type F16 in A, BF16 in B\n"):
            self.assertIn(words, said)

    def test_bits_decide_and_not_values(self):
        a, b = (torch.tensor([0.0, float("nan"), float("inf"), 1.0]) for _ in range(2))
        self.compare(self.checkpoint("a", {"x/master": a}), self.checkpoint("b", {"x/master": b}), expect=0)
        b[0] = -0.0
        said = self.compare("a", self.checkpoint("c", {"x/master": b}), expect=1)
        self.assertIn("1 of 4 elements differ, by at most 0, relative L2 nan, first at [0]", said)
        b[3] = float("nan")
        self.assertIn("2 of 4 elements differ, by at most nan", self.compare("a", self.checkpoint("d", {"x/master": b}), expect=1))
        zeros, ones = self.checkpoint("e", {"x/master": torch.zeros(2)}), self.checkpoint("f", {"x/master": torch.ones(2)})
        self.assertIn("relative L2 inf", self.compare(zeros, ones, expect=1))

    def test_tensors_larger_than_a_chunk(self):
        large = torch.zeros((1 << 22) + 100)
        other = large.clone()
        other[-1] = 3
        said = self.compare(self.checkpoint("a", {"x/master": large}, ranks=3), self.checkpoint("b", {"x/master": other}), expect=1)
        self.assertIn(f"1 of {large.numel()} elements differ, by at most 3, relative L2 inf, first at [{large.numel() - 1}]", said)

    def test_checkpoints_that_cannot_be_used(self):
        a, b = self.checkpoint("a", self.tensors()), self.checkpoint("b", self.tensors())
        with open(os.path.join(self.folder, "b/rank-00000.safetensors"), "r+b") as file:
            file.seek(-1, os.SEEK_END)
            file.write(b"!")
        self.assertIn("b/rank-00000.safetensors: is damaged: its SHA-256 is ", self.compare(a, b, expect=3))
        os.remove(os.path.join(self.folder, "b/rank-00000.safetensors"))
        self.assertIn("b/rank-00000.safetensors: No such file", self.compare(a, b, expect=4))
        self.write("c/manifest.json", "{}")
        self.assertIn("c/manifest.json: is damaged", self.compare(a, "c", expect=3))
        newer = self.checkpoint("d", self.tensors(), form="strata checkpoint 2")
        self.assertIn("has the format 'strata checkpoint 2', expected 'strata checkpoint 1'", self.compare(a, newer, expect=3))

    def test_manifests_that_do_not_fit_their_files(self):
        a = self.checkpoint("a", self.tensors())
        name = "blocks.10.mlp.weight/master"

        def pieces(*found):
            return lambda members: members["tensors"][name].update(pieces=list(found))

        for number, (change, words) in enumerate((
                (pieces([0, 0, 77]), f"the piece of {name} at element 0 does not begin at element 0, where the piece before it ends, "
                                     "or does not have 77 elements in its file"),
                (pieces([0, 0, 39], [1, 40, 37]), "at element 40 does not begin at element 39,"),
                (pieces([1, 39, 38], [0, 0, 39]), "at element 39 does not begin at element 0,"),
                (pieces(), f"the pieces of {name} have 0 elements, expected 77 as in its shape"), (pieces([2, 0, 77]), "does not describe its files"),
                (lambda members: members["tensors"][name].update(dtype="F8"), f"{name} has the type F8, expected one of F64"),
                (lambda members: members.pop("files"), "does not describe its files or tensors as a checkpoint does (KeyError('files'))"),
                (lambda members: members.update(tensors=[]), "does not describe its files"))):
            self.assertIn(words, self.compare(a, self.checkpoint(f"b{number}", self.tensors(), ranks=2, change=change), expect=3))


if __name__ == "__main__":
    unittest.main()

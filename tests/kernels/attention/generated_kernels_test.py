# SPDX-License-Identifier: MIT
"""Runs the kernels that Inductor generates for level aot_inductor of attention on a CPU, in Triton's interpreter, with lists
of tiles, masks and documents. They are the kernels of the packages, except for the compiler from Triton to a cubin."""
import glob
import os
import re
import subprocess
import sys
import tempfile
import unittest

sys.path[:0] = ["tools/aot_inductor", "tests/kernels/interpreter"]
from triton_interpreter import formula  # noqa: E402

import torch

TILE, GROUP, WIDTH = 128, 2, 16
FAR = 2**31 - 1
GENERATE = """
import sys
sys.path[:0] = ["tools/aot_inductor"]
import torch, export_program, generate, hopper_without_gpu, make_packages
name, output = sys.argv[1:]
module = make_packages.loaded("kernels/attention/attention_programs.py")
program = next(each for each in module.PROGRAMS if each.function == name)
widths = {"e": %d, "g": %d, "d": %d}
exported = export_program.export_program(program, None, torch.float32, widths, on_gpu=True)
hopper_without_gpu.install()
wrapper = generate.generate(exported, "f", hopper_without_gpu.OPTIONS).wrapper
with open(output, "w") as file:
    file.write(wrapper)
""" % (GROUP + 2, GROUP, WIDTH)


class Generated:
    """The FlexAttention kernel of a function, and the call of it in the code of the function."""

    def __init__(self, function):
        folder = os.path.join(os.environ.get("TEST_TMPDIR") or tempfile.mkdtemp(), function)
        os.mkdir(folder)
        names = {"TORCHINDUCTOR_CACHE_DIR": "inductor", "TRITON_CACHE_DIR": "triton"}
        environment = {**os.environ, **{name: f"{folder}/{part}" for name, part in names.items()}, "TORCHINDUCTOR_COMPILE_THREADS": "1"}
        environment.pop("TRITON_INTERPRET", None)  # it is set here
        subprocess.run([sys.executable, "-W", "ignore", "-c", GENERATE, function, f"{folder}/wrapper.cpp"], env=environment, check=True)
        with open(f"{folder}/wrapper.cpp", encoding="utf-8") as file:
            wrapper = file.read()
        (call,) = re.findall(r"^ +call_\w+_triton_tem_\w+\((.*), this->device_idx_", wrapper, re.MULTILINE)
        self.arguments = call.split(", ")
        self.sizes = {name: (int(number), int(place)) for name, number, place in re.findall(r"int64_t (s\d+) = arg(\d+)_1_size\[(\d)\]", wrapper)}
        for path in glob.glob(f"{folder}/inductor/*/*.py"):
            with open(path, encoding="utf-8") as file:
                text = file.read()
            names = re.findall(r"^def (triton_flex_attention\w*)", text, re.MULTILINE)
            if names:
                self.kernel = self.loaded(f"{folder}/kernel.py", text, names[0])

    @staticmethod
    def loaded(path, text, name):
        """Triton reads the source of a function from its file."""
        text = re.sub(r"@triton_heuristics.template\(.*?\n\)\n", "", text, flags=re.DOTALL)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        scope = {"__name__": "kernel", "__file__": path}
        exec(compile(text, path, "exec"), scope)
        return scope[name]

    def run(self, inputs, made):
        """`made` are the tensors that the function makes for the kernel, in the order of its parameters."""
        made = iter(made)
        numbers = {name: inputs[number].size(place) for name, (number, place) in self.sizes.items()}
        values = []
        for text in self.arguments:
            number = re.fullmatch(r"arg(\d+)_1", text)
            if number or text.startswith("buf"):
                values.append(inputs[int(number.group(1))] if number else next(made))
            else:
                values.append(eval(re.sub(r"\b(\d+)L\b", r"\1", text), {}, numbers))
        self.kernel[tuple(values[-3:])](*values[:-3])


class Case:
    def __init__(self, program, batch, key_value_heads, positions, offsets):
        torch.manual_seed(7)
        self.batch, self.heads, self.key_value_heads, self.positions = batch, GROUP * key_value_heads, key_value_heads, positions
        self.tiles = -(-positions // TILE)
        offsets = torch.tensor(offsets, dtype=torch.int32)
        self.qkv = torch.randn(batch, positions, (self.heads + 2 * key_value_heads) * WIDTH)
        self.grad_y = torch.randn(batch, positions, self.heads * WIDTH)
        leaf = self.qkv.double().requires_grad_()
        self.y = formula("attention").attention(leaf, self.heads, key_value_heads, program, offsets)
        (self.grad_qkv,) = torch.autograd.grad(self.y, leaf, self.grad_y.double())
        document = torch.bucketize(torch.arange(batch * positions), offsets[1:], right=True).view(batch, positions)
        behind = document[:, -1:].expand(batch, self.padded - positions)
        self.document = torch.cat([document, behind], 1).to(torch.int32).view(batch, self.tiles, TILE)
        seen = formula("attention").visible(program, document, 0, document.size(1))
        self.lists = self.lists_of(self.padded_pairs(seen[:, 0] if seen.dim() == 4 else seen.unsqueeze(0)))
        alone = torch.arange(positions).unsqueeze(0)  # each position is a document of its own
        same, other = (self.padded_pairs(formula("attention").visible(program, each, 0, positions).reshape(1, positions, positions))
                       for each in (0 * alone, alone))
        words = [self.words(pairs) for pairs in (same, other)]
        numbers = torch.arange(self.tiles**2, dtype=torch.int32).view(self.tiles, self.tiles)
        self.mask_tensors = [numbers, numbers + self.tiles**2, torch.cat(words), self.document]

    @property
    def padded(self):
        return self.tiles * TILE

    def padded_pairs(self, seen):
        pairs = torch.zeros(seen.size(0), self.padded, self.padded, dtype=torch.bool)
        pairs[:, : self.positions, : self.positions] = seen
        return pairs

    def lists_of(self, pairs):
        counts = pairs.view(-1, self.tiles, TILE, self.tiles, TILE).sum((2, 4))
        partial, full = (counts > 0) & (counts < TILE * TILE), counts == TILE * TILE
        lists = []
        for chosen in (partial, full, partial.transpose(1, 2), full.transpose(1, 2)):
            lists.append(chosen.sum(-1, dtype=torch.int32).contiguous())
            lists.append(torch.argsort(chosen.byte(), dim=-1, descending=True, stable=True).int().contiguous())
        return lists

    def words(self, pairs):
        bits = pairs[0].view(self.tiles, TILE, self.tiles, 4, 32).permute(0, 2, 1, 3, 4).reshape(-1, TILE, 4, 32)
        return (bits.to(torch.int64) << torch.arange(32)).sum(3).to(torch.int32)

    def in_tiles(self, rows, *by_head):
        padded = torch.cat([rows, rows.new_zeros(self.batch, self.padded - self.positions, rows.size(2))], 1)
        return padded.view(self.batch, self.tiles, TILE, self.key_value_heads, *by_head, WIDTH)


class GeneratedKernels(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.forward, cls.backward = (Generated(f"{direction}_bits_documents") for direction in ("forward", "backward"))

    def expect(self, got, want):
        self.assertLess(((got.double() - want).norm() / want.norm()).item(), 2e-6)

    def compare(self, *arguments):
        case = Case(*arguments)
        b, t, h, k = case.batch, case.padded, case.heads, case.key_value_heads
        unwritten = [torch.full(sizes, float("nan")) for sizes in ((b, h, t), (b, h, t), (b, t, h, WIDTH), (b, t, h, WIDTH), *[(b, t, k, WIDTH)] * 2)]
        logsumexp, largest, y, grad_query, grad_value, grad_key = unwritten
        packed = case.in_tiles(case.qkv, GROUP + 2)
        common = [*case.lists, *case.mask_tensors]
        self.forward.run([packed, *common], [logsumexp, largest, y])
        result = y[:, : case.positions].flatten(2)
        self.expect(result, case.y)
        sums = (y.view(b, t, h, WIDTH) * case.in_tiles(case.grad_y, GROUP).view(b, t, h, WIDTH)).sum(3).transpose(1, 2).contiguous()
        inputs = [case.in_tiles(case.grad_y, GROUP), packed, case.in_tiles(result, GROUP), logsumexp, *common]
        self.backward.run(inputs, [sums, grad_query, grad_value, grad_key])
        grads = torch.cat([grad_query, grad_key, grad_value], 2)[:, : case.positions]
        self.expect(grads.flatten(2), case.grad_qkv)

    def test_documents_that_see_the_first_keys_of_all_others(self):
        self.compare([2, 0, FAR, 7, 0, 0, 0, 0, 0, 5, 5, 0, 1, 0, 0], 2, 2, 150, [0, 70, 90, 150, 215, 300])

    def test_one_row_one_key_head_and_one_tile(self):
        self.compare([2, 0, FAR, 4, 70, 0, 1, 0, 0, 7, 0, 0, 0, 0, 0], 1, 1, 100, [0, 30, 100])


if __name__ == "__main__":
    unittest.main()

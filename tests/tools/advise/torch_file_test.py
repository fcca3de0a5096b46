# SPDX-License-Identifier: MIT
"""A damaged or foreign file is refused with a sentence and exit code 2, and reading a file runs nothing of it."""
import io
import json
import os
import pickle
import random
import subprocess
import sys
import unittest
import unittest.mock
import zipfile

sys.path[:0] = [os.path.dirname(os.path.abspath(__file__)), os.path.abspath("tools/advise"), os.path.abspath("tools")]

import torch  # noqa: E402
from torch import nn  # noqa: E402

import torch_graph  # noqa: E402
import torch_models as models  # noqa: E402
from bad_input import BadInput  # noqa: E402
from torch_graph import Graph  # noqa: E402
from torch_groups import grouped  # noqa: E402

DAMAGES = 200


class Bomb:
    """Makes a folder where it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (self.path,)


class Case(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.good = models.save(cls.path_of("good.pt2"), models.Attention(models.lower(16)), torch.rand(2, 16, 64))

    @staticmethod
    def path_of(name):
        return os.path.join(os.environ["TEST_TMPDIR"], name)

    def write(self, content):
        path = self.path_of("changed.pt2")
        with open(path, "wb") as file:
            file.write(content)
        return path

    def changed(self, change):
        """Returns a copy of the file in which change(name, bytes) returned the bytes of each part, or None to leave it out."""
        path = self.path_of("changed.pt2")
        with zipfile.ZipFile(self.good) as source, zipfile.ZipFile(path, "w") as target:
            for name in source.namelist():
                if (content := change(name, source.read(name))) is not None:
                    target.writestr(name, content)
        return path

    def changed_graph(self, change):
        def changed(name, content):
            if not name.endswith("model.json") or "/models/" not in name:
                return content
            program = json.loads(content)
            return json.dumps(change(program) or program).encode()

        return self.changed(changed)

    def assert_refused(self, path, words):
        done = subprocess.run([sys.executable, "-W", "ignore", "-B", "tools/advise/torch_main.py", "none", "none", "--torch", path],
                              capture_output=True, text=True, check=False)  # fmt: skip
        self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
        self.assertRegex(done.stderr, rf"\Astrata: .*expected a file of torch.export.save, and .*{words}.*\n\Z")


class RefusalTest(Case):
    def test_damaged_files(self):
        with open(self.good, "rb") as file:
            content = file.read()
        self.assert_refused(self.write(content[:len(content) // 2]), "it is no complete ZIP archive")
        self.assert_refused(self.write(b""), "it is no complete ZIP archive")
        self.assert_refused(self.changed(lambda name, part: part[:-9] if "models/" in name else part), "its graph is damaged")
        self.assert_refused(self.changed(lambda name, part: b"[" * 100000 if "models/" in name else part), "its graph is damaged")

    def test_foreign_files(self):
        self.assert_refused("tools/advise/torch_main.py", "it is no complete ZIP archive")
        torch.save(nn.Linear(2, 2).state_dict(), self.path_of("tensors.pt"))
        self.assert_refused(self.path_of("tensors.pt"), "which torch.save wrote")
        torch.jit.save(torch.jit.script(nn.Linear(2, 2)), self.path_of("script.pt"))
        self.assert_refused(self.path_of("script.pt"), "TorchScript")
        self.assert_refused(self.changed_graph(lambda program: program["graph_module"]["graph"]["nodes"].reverse()), "uses a value that is not made before it")
        self.assert_refused(self.changed(lambda name, part: None if "models/" in name else part), "another archive")

    def test_other_versions(self):
        self.assert_refused(self.changed(lambda name, part: b"1" if name.endswith("archive_version") else part), "its versions are 1 and 8, expected 0 and 8")
        self.assert_refused(self.changed_graph(lambda program: program["schema_version"].update(major=9)), "its versions are 0 and 9")

    def test_sizes_without_an_example(self):
        def symbolic(program):
            sizes = program["graph_module"]["graph"]["tensor_values"]["x"]["sizes"]
            sizes[0] = {"as_expr": {"expr_str": "s0", "hint": None}}

        self.assert_refused(self.changed_graph(symbolic), "a size is no whole number")
        for size in (-1, 1 << 41, True, "2", None, 1e3):
            self.assert_refused(self.changed_graph(lambda program, size=size: program["graph_module"]["graph"]["tensor_values"]["x"]["sizes"].__setitem__(0, {"as_int": size})),
                                "a size is ")  # fmt: skip

    def test_words_of_the_file_do_not_reach_the_terminal(self):
        """Neither escape codes nor lines of its own, and not many letters."""
        for name in ("\x1b[2Jx", "x\nstrata: all is well", "x" * 100000):
            def renamed(program, name=name):
                program["graph_module"]["graph"]["nodes"][1]["inputs"][0]["arg"] = {"as_tensor": {"name": name}}
                program["graph_module"]["graph"]["nodes"][1]["name"] = name

            done = subprocess.run([sys.executable, "-W", "ignore", "-B", "tools/advise/torch_main.py", "none", "none", "--torch", self.changed_graph(renamed)],
                                  capture_output=True, text=True, check=False)  # fmt: skip
            self.assertEqual((done.returncode, done.stdout, done.stderr.count("\n")), (2, "", 1), done.stderr)
            self.assertNotIn("\x1b", done.stderr)
            self.assertLess(len(done.stderr), 1000)

    def test_bombs_need_no_memory(self):
        with unittest.mock.patch.object(torch_graph, "MOST_JSON", 1 << 20):
            path = self.changed(lambda name, part: b" " * (2 << 20) + part if "/models/" in name else part)
            self.assertRaisesRegex(BadInput, "has more than 1048576 bytes", Graph, path)
        self.assertEqual(len(Graph(self.good).constants), 1)  # the mask
        with unittest.mock.patch.object(torch_graph, "MOST_CONSTANTS", 4 * 16 * 16 - 1):
            self.assertEqual(Graph(self.good).constants, {})

    def test_sizes_that_do_not_belong_together(self):
        class Masked(nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("mask", torch.ones(1, 16))

            def forward(self, x):
                return nn.functional.scaled_dot_product_attention(x, x, x, attn_mask=self.mask)

        graph = Graph(models.save(self.path_of("mask.pt2"), Masked(), torch.rand(2, 4, 16, 8)))
        mask, = graph.buffers
        graph.tensors[mask], graph.constants[mask] = graph.tensors[mask]._replace(sizes=(1, 7)), bytes(4 * 7)
        self.assertRaisesRegex(BadInput, "its graph is damaged", grouped, graph)
        graph = Graph(models.save(self.path_of("patches.pt2"), nn.Conv2d(3, 8, 4, stride=4), torch.rand(2, 3, 16, 16)))
        for name in graph.parameters:
            graph.tensors[name] = graph.tensors[name]._replace(sizes=(0, *graph.tensors[name].sizes[1:]))
        self.assertRaisesRegex(BadInput, "its graph is damaged.*ZeroDivisionError", grouped, graph)

    def test_values_of_many_layouts_are_followed_once(self):
        """Each layout has two results, and the next one has both. A search without a memory would take 2^64 steps."""
        def multiplied(program):
            graph = program["graph_module"]["graph"]
            first = program["graph_module"]["signature"]["input_specs"][-1]["user_input"]["arg"]["as_tensor"]["name"]
            made, names = [], [first, first]
            for step in range(64):
                outputs = [f"l{step}a", f"l{step}b"]
                made.append({"target": "torch.ops.aten.view_as.default", "metadata": {}, "outputs": [{"as_tensor": {"name": each}} for each in outputs],
                             "inputs": [{"name": f"i{place}", "arg": {"as_tensor": {"name": each}}, "kind": 1} for place, each in enumerate(names)]})  # fmt: skip
                graph["tensor_values"].update({each: graph["tensor_values"][first] for each in outputs})
                names = outputs
            graph["nodes"][:0] = made

        graph = Graph(self.changed_graph(multiplied))
        self.assertEqual(len(graph.nodes) - len(Graph(self.good).nodes), 64)
        self.assertEqual([group.op for group in grouped(graph).groups], [group.op for group in grouped(Graph(self.good)).groups])

    def test_sizes_that_vary_have_those_of_the_example(self):
        batch = torch.export.Dim("batch", min=2, max=64)
        exported = torch.export.export(models.Attention(None), (torch.rand(3, 16, 64),), dynamic_shapes=({0: batch},))
        torch.export.save(exported, self.path_of("varying.pt2"))
        graph = Graph(self.path_of("varying.pt2"))
        self.assertTrue(graph.symbols)
        self.assertEqual([group.shape for group in grouped(graph).groups], ["48x64->192 bias", "3x16 positions, 4 heads of 64, causal".replace("64", "16")])

    def test_a_missing_file(self):
        done = subprocess.run([sys.executable, "-B", "tools/advise/torch_main.py", "none", "none", "--torch", self.path_of("none.pt2")],
                              capture_output=True, text=True, check=False)  # fmt: skip
        self.assertEqual((done.returncode, done.stderr.count("\n")), (4, 1), done.stderr)

    def test_graphs_with_random_damage(self):
        """Each is read as a graph or refused with a sentence: no other exception, and no long time."""
        with zipfile.ZipFile(self.good) as archive:
            name = next(name for name in archive.namelist() if "/models/" in name)
            program = archive.read(name)
        draw, refused = random.Random(1), 0
        for _ in range(DAMAGES):
            content = self.damaged(json.loads(program), draw)
            path = self.changed(lambda part, old, content=content: content if part == name else old if part.endswith("archive_version") else None)
            try:
                grouped(Graph(path))
            except BadInput as bad:
                self.assertIn("expected a file of torch.export.save", str(bad))
                refused += 1
        self.assertTrue(DAMAGES // 20 < refused < DAMAGES, refused)

    def damaged(self, program, draw):
        """Returns the program with one value replaced, removed, or swapped with another."""
        places = []

        def walk(value):
            for key in value if isinstance(value, dict) else range(len(value)):
                places.append((value, key))
                if isinstance(value[key], (dict, list)):
                    walk(value[key])

        walk(program["graph_module"])
        value, key = draw.choice(places)
        kind = draw.randrange(3)
        if kind == 0:
            value[key] = draw.choice([None, -1, "", "x", [], {}, 1 << 70, True, 0.5])
        elif kind == 1:
            del value[key]
        else:
            other, there = draw.choice(places)
            value[key], other[there] = json.loads(json.dumps(other[there])), json.loads(json.dumps(value[key]))
        return json.dumps(program).encode()


class NothingRunsTest(Case):
    def test_pickles_and_libraries_are_left_alone(self):
        """Tensors of the archive are replaced by pickles that make a folder. A reader that unpickles them would make it."""
        place = self.path_of("made")
        bomb = pickle.dumps(Bomb(place))
        buffer = io.BytesIO()
        torch.save(Bomb(place), buffer)

        def armed(name, part):
            if "sample_inputs" in name or "/weight_" in name:
                return buffer.getvalue() if "sample_inputs" in name else bomb
            return part.replace(b'"use_pickle": false', b'"use_pickle": true') if name.endswith("config.json") else part

        path = self.changed(armed)
        with zipfile.ZipFile(path, "a") as archive:
            archive.writestr("good/data/aotinductor/model/model.so", b"\x7fELF")
        self.assertEqual([group.op for group in grouped(Graph(path)).groups], ["linear", "linear", "linear"])  # the mask is not known
        self.assertFalse(os.path.exists(place))
        pickle.loads(bomb)
        self.assertTrue(os.path.exists(place))  # the bomb is one
        os.rmdir(place)


if __name__ == "__main__":
    unittest.main()

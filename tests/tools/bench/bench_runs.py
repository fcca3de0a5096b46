# SPDX-License-Identifier: MIT
"""Small models of each family with their data, and the programs that time them."""
import json
import os
import struct
import subprocess
import tempfile
import unittest

STEP = os.path.abspath("tools/bench/bench_step")
BENCH = os.path.abspath("tools/bench/kernels/bench_kernels")

CONFIG = """
run: {{folder: {folder}/run}}
steps: 2
batch: 2
micro_batch: 2
model: {{{model}}}
data: {{{data}}}
optimizer: {{type: adamw, learning_rate: 1e-2}}
schedule: {{type: constant}}
kernels: {{default: best}}
"""

LANGUAGE = "type: transformer, family: %s, layers: 2, width: 32, heads: 4, feed_forward: 48, sequence: 16, vocabulary: 37"
GRAPH = "type: graph_network, convolution: gcn, layers: 2, width: 32, features: 20, classes: 7"
VISION = "type: vision_transformer, layers: 2, width: 32, heads: 4, feed_forward: 48, image_size: 12, patch: 3, classes: 7, pooling: mean"
MIXER = "type: mixer, layers: 2, width: 32, token_width: 24, feed_forward: 48, image_size: 12, patch: 3, classes: 7"


class BenchRuns(unittest.TestCase):
    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory())
        with open(self.folder + "/data.bin", "wb") as file:
            file.write(struct.pack("<256i", 20240520, 1, 500, *[0] * 253) + struct.pack("<500H", *[i % 37 for i in range(500)]))
        with open(self.folder + "/images", "wb") as file:
            file.write(struct.pack(">4B4I", 0, 0, 8, 4, 6, 3, 12, 12) + bytes(i * i % 251 for i in range(6 * 3 * 12 * 12)))
        with open(self.folder + "/labels", "wb") as file:
            file.write(struct.pack(">4BI6B", 0, 0, 8, 1, 6, *range(6)))
        self.config = self.write_config("llama")

    def write_config(self, family):
        path = f"{self.folder}/{family}.yaml"
        with open(path, "w", encoding="utf-8") as file:
            data = "type: text, train: {0}/data.bin, validation: {0}/data.bin"
            if family in ("vision", "mixer"):
                data = "type: idx, train_images: {0}/images, train_labels: {0}/labels, validation_images: {0}/images, validation_labels: {0}/labels"
            if family == "graph":
                data = "type: synthetic_graph, nodes: 50, edges: 300"
            model = {"vision": VISION, "mixer": MIXER, "graph": GRAPH}.get(family, LANGUAGE % family)
            file.write(CONFIG.format(folder=self.folder, model=model, data=data.format(self.folder)))
        return path

    def run_program(self, *command, expect=0, environment=None):
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, cwd=self.folder,
                              env={**os.environ, **(environment or {})})  # fmt: skip
        self.assertEqual(done.returncode, expect, done.stdout + done.stderr)
        return done.stdout, done.stderr

    def facts(self, *command):
        """Returns the facts that the program prints for the launcher."""
        return dict(fact.split("\t", 1) for fact in self.run_program(*command, "--for-launcher")[0].splitlines())

    def rows(self, *arguments, expect=0):
        for name in ("/rows", "/svg"):
            if os.path.exists(self.folder + name):
                os.remove(self.folder + name)
        self.output, self.errors = self.run_program(BENCH, "--device", "cpu", "--json", self.folder + "/rows", "--svg", self.folder + "/svg",
                                                    *arguments, expect=expect)
        with open(self.folder + "/rows", encoding="utf-8") as file:
            return [json.loads(line) for line in file]

# SPDX-License-Identifier: MIT
"""Small runs of the train program under mpirun, on the device and the ranks that the environment gives."""

import functools
import json
import os
import shutil
import struct
import subprocess
import tempfile
import time
import unittest

import numpy

TRAIN = os.environ.get("STRATA_TEST_TRAIN") or os.path.abspath("trainer/train")
# cpu, or cuda on a machine with STRATA_TEST_RANKS GPUs.
DEVICE = os.environ.get("STRATA_TEST_DEVICE", "cpu")
MOST_RANKS = int(os.environ.get("STRATA_TEST_RANKS", "4"))
EVERY = bool(os.environ.get("STRATA_TEST_ALL"))  # every combination of what is tested one by one otherwise
SECONDS = 120 * int(os.environ.get("STRATA_TEST_SLOWDOWN", "1"))  # the limit of a run; sanitizers make it slower

CONFIG = """
run: {{folder: {folder}, ranks: 2, timeout: 60}}
steps: 20
batch: {batch}
micro_batch: 8
model: {{type: transformer, family: llama, layers: 3, width: 24, heads: 3, key_value_heads: 1, feed_forward: 41, sequence: 12, vocabulary: 37, dropout: 0.1}}
data: {{type: text, train: {data}/train.bin, validation: {data}/validation.bin}}
optimizer: {{type: adamw, learning_rate: 1e-2}}
schedule: {{type: cosine, warmup: 4}}
checkpoint: {{every: 5}}
evaluation: {{every: 10, tokens: 240}}
log: {{every: 5}}
"""


def write_tokens(path, tokens):
    with open(path, "wb") as file:
        file.write(struct.pack("<256i", 20240520, 1, len(tokens), *[0] * 253))
        file.write(struct.pack("<%dH" % len(tokens), *tokens))


def write_document_ends(path, ends):
    """Writes where the documents of the token file at `path` end."""
    with open(path + ".documents", "wb") as file:
        file.write(struct.pack("<256i", 20261125, 1, len(ends), ends[-1], *[0] * 252) + struct.pack("<%di" % len(ends), *ends))


def write_images(path, first, count):
    """Images of 6 x 6 and their labels. The bright half and its brightness determine which of 4 classes it is, also
    in the mirror image."""
    labels = [(i * i + i // 3) % 4 for i in range(first, first + count)]
    pixels = bytearray()
    for i, label in enumerate(labels, first):
        pixels += bytes((100 + label % 2 * 100 if y // 3 == label // 2 else 0) + (i * 7 + y * 5 + x * 11) % 50
                        for y in range(6) for x in range(6))
    for name, sizes, values in (("images", [count, 6, 6], pixels), ("labels", [count], bytes(labels))):
        with open(path + "." + name, "wb") as file:
            file.write(struct.pack(">BBBB%dI" % len(sizes), 0, 0, 8, len(sizes), *sizes) + values)


def write_graph(path, nodes=300, classes=4, features=30):
    """A graph whose edges mostly lead to nodes of the same class. A few words of a node's features show its class."""
    random = numpy.random.default_rng(1)
    labels = random.integers(classes, size=nodes)
    near = labels[:, None] == labels[None, :]
    adjacent = random.random((nodes, nodes)) < numpy.where(near, 0.05, 0.005)
    words = random.random((nodes, features)) < numpy.where(numpy.arange(features) % classes == labels[:, None], 0.3, 0.1)
    split = numpy.split(random.permutation(nodes), [nodes // 2, 3 * nodes // 4])
    arrays = {"labels": labels, **dict(zip(("train", "validation", "test"), split))}
    for name, matrix in (("adj", adjacent), ("attr", words)):
        rows, columns = numpy.nonzero(matrix)
        arrays.update({name + "_shape": numpy.array(matrix.shape), name + "_indices": columns, name + "_data": numpy.ones(len(columns), numpy.float32),
                       name + "_indptr": numpy.concatenate([[0], numpy.cumsum(numpy.bincount(rows, minlength=nodes))])})
    numpy.savez(path, **arrays)


def write_graphs(folder, graphs=160, classes=4, features=6):
    """Small graphs in a folder like OGB's. The class decides how far edges lead around a ring, and it slightly
    changes the features."""
    random = numpy.random.default_rng(2)
    labels = random.integers(classes, size=graphs)
    sizes = random.integers(6, 14, size=graphs)
    edges = [[(node, (node + step) % size) for node in range(size) for step in range(1, 2 + label)] for label, size in zip(labels, sizes)]
    split = numpy.split(random.permutation(graphs), [graphs // 2, 3 * graphs // 4])
    tables = {"raw/num-node-list": sizes, "raw/num-edge-list": [len(some) for some in edges], "raw/graph-label": labels,
              "raw/edge": [edge for some in edges for edge in some],
              "raw/node-feat": random.normal(size=(sizes.sum(), features)) + 0.5 * numpy.eye(features)[labels.repeat(sizes)],
              **dict(zip(("split/random/train", "split/random/valid", "split/random/test"), split))}
    for name, table in tables.items():
        os.makedirs(os.path.dirname(os.path.join(folder, name)), exist_ok=True)
        numpy.savetxt(os.path.join(folder, name + ".csv.gz"), table, "%.6g", ",")


def write_data(folder):
    """Writes the data of all families."""
    write_tokens(folder + "/train.bin", [(i * i + 7 * (i // 5)) % 37 for i in range(6000)])
    write_tokens(folder + "/validation.bin", [(i * i + 7 * (i // 5)) % 37 for i in range(6000, 7000)])
    write_document_ends(folder + "/train.bin", [*range(1, 3000, 7), *range(3000, 6000, 40), 6000])
    write_document_ends(folder + "/validation.bin", [*range(3, 1000, 5), 1000])
    write_graph(folder + "/graph.npz")
    write_graphs(folder + "/graphs")
    write_images(folder + "/train", 0, 500)
    write_images(folder + "/validation", 500, 101)  # a prime, so no batch divides it


@functools.cache
def written_data():
    """Returns a folder with the data of all families. It is written once, and removed when the process ends."""
    folder = tempfile.TemporaryDirectory()
    write_data(folder.name)
    return folder


@functools.cache
def mpirun_folder():
    """Returns a folder for what mpiruns keep. It is removed when the process ends."""
    return tempfile.TemporaryDirectory()


def command_of_ranks(ranks, *command):
    """Returns the words of a command that `ranks` ranks of this machine run. Its mpirun has a folder of its own: if several share one, one that starts
    or ends removes it while another one makes its own in it, and that one fails."""
    own = tempfile.mkdtemp(dir=mpirun_folder().name)
    return ["mpirun", "-q", "--oversubscribe", "--bind-to", "none", "--mca", "btl", "self,vader", "--mca", "orte_tmpdir_base", own, "-n", str(ranks), *command]


def environment_of_ranks(ranks, changes):
    """Returns the environment of mpirun with these changes. After the failure of its only rank mpirun ends at once: without that it waits for 2 s.
    With several ranks it waits for a second, in which others may say why they failed."""
    alone = {"OMPI_MCA_odls_base_sigkill_timeout": "0"} if ranks == 1 else {}
    return {**os.environ, **alone, **(changes or {})}


def rank_processes(mpirun):
    """Returns the process ids of the ranks that an mpirun has started, by rank."""
    found = {}
    for process in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/stat" % process, encoding="utf-8") as file:
                parent = int(file.read().rpartition(")")[2].split()[1])
            with open("/proc/%s/environ" % process, "rb") as file:
                rank = dict(entry.partition(b"=")[::2] for entry in file.read().split(b"\0")).get(b"OMPI_COMM_WORLD_RANK")
        except OSError:  # the process has ended
            continue
        if parent == mpirun and rank is not None:
            found[int(rank)] = int(process)
    return found


# Every kind of model, as overrides of the configuration above.
FAMILIES = {
    "language": [],
    "vision": [
        "model={{type: vision_transformer, layers: 3, width: 24, heads: 3, image_size: 6, patch: 2, channels: 1, classes: 4,"
        " dropout: 0.1, stochastic_depth: 0.2, layer_scale: 0.5}}",
        "data={{type: idx, train_images: {data}/train.images, train_labels: {data}/train.labels, flip: true, shift: 1, mixup: 0.2, cutmix: 0.2,"
        " validation_images: {data}/validation.images, validation_labels: {data}/validation.labels}}",
        "optimizer.moving_average=0.8",
        "evaluation.tokens=0",
    ],
    "mixer": [
        "model={{type: mixer, layers: 3, width: 24, image_size: 6, patch: 2, channels: 1, classes: 4, dropout: 0.1}}",
        "data={{type: idx, train_images: {data}/train.images, train_labels: {data}/train.labels,"
        " validation_images: {data}/validation.images, validation_labels: {data}/validation.labels}}",
        "evaluation.tokens=0",
    ],
    "graph": [
        "model={{type: graph_network, convolution: sage, projection: sparse, features: 30, layers: 3, width: 24, classes: 4, norm: true, residual: true,"
        " dropout: 0.1}}",
        "data={{type: graph, file: {data}/graph.npz, partition: %s}}" % ("metis" if DEVICE == "cpu" else "contiguous"),
        "batch=1",
        "micro_batch=1",
        "evaluation.tokens=0",
    ],
    "sampled_graph": [
        "model={{type: graph_network, convolution: gcn, projection: sparse, features: 30, layers: 3, width: 24, classes: 4, norm: true,"
        " dropout: 0.1}}",
        "data={{type: graph, file: {data}/graph.npz, partition: contiguous, neighbors: [4, 3, 3]}}",
        "evaluation.tokens=0",
    ],
    "many_graphs": [
        "model={{type: graph_network, convolution: gin, projection: dense, pooling: attention, features: 6, layers: 3, width: 24, classes: 4, norm: true,"
        " residual: true, dropout: 0.1}}",
        "data={{type: ogb_graphs, folder: {data}/graphs}}",
        "evaluation.tokens=0",
    ],
}


def for_families(*families):
    """Runs the test once for each of these families, with its name and overrides."""
    def decorate(test):
        @functools.wraps(test)
        def run(self):
            for family in families:
                with self.subTest(family):
                    test(self, family, *[text.format(data=self.data) for text in FAMILIES[family]])
        return run
    return decorate


for_each_family = for_families(*FAMILIES)


def expect_fault(test, kind, code, returncode, said=""):
    """Expects that what had this kind of fault has ended with this exit code, and prints that it was seen: tests/trainer/faults/fault_kinds.py counts that."""
    test.assertEqual(returncode, code, said)
    print("fault: %s, %d" % (kind, code), flush=True)


class TrainingRuns(unittest.TestCase):
    """The common part of tests that run the train program."""

    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.folder = self.temporary.name
        self.data = os.path.join(self.folder, "data")
        shutil.copytree(written_data().name, self.data)

    def tearDown(self):
        self.temporary.cleanup()

    def config(self, run, batch):
        path = os.path.join(self.folder, run + ".yaml")
        with open(path, "w", encoding="utf-8") as file:
            file.write(CONFIG.format(folder=self.path(run), data=self.data, batch=batch))
        return path

    def path(self, run, name=""):
        return os.path.join(self.folder, run, name) if name else os.path.join(self.folder, run)

    def on_device(self, device):
        """Returns overrides for the device. GPUs repeat their bits only in deterministic mode."""
        return ["run.device=" + device, "run.deterministic=%s" % ("true" if device == "cuda" else "false")]

    def some_ranks(self, *counts):
        """Returns the counts for which this machine has enough devices."""
        return [count for count in counts if count <= MOST_RANKS]

    def start(self, run, *overrides, ranks=2, batch=16, environment=None, config=None, device=DEVICE, under=()):
        """Starts the run. `under` is a command that each rank runs under."""
        if device == "cuda" and ranks > MOST_RANKS:
            self.skipTest("needs %d ranks, there are devices for %d" % (ranks, MOST_RANKS))
        command = command_of_ranks(ranks, *under, TRAIN, config or self.config(run, batch), "run.ranks=%d" % ranks,
                                   *self.on_device(device), *overrides)
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                env=environment_of_ranks(ranks, {"STRATA_STRICT_STEPS": "1", **(environment or {})}))

    def wait_for(self, process, run, ready):
        """Waits until `ready` returns true. The run must not end before."""
        while not os.path.exists(self.path(run, "metrics.jsonl")) or not ready():
            if process.poll() is not None:
                self.fail("the run ended by itself: %s%s" % process.communicate())
            time.sleep(0.05)

    def wait_for_a_step(self, process, run):
        self.wait_for(process, run, lambda: self.losses(run))

    def train(self, run, *overrides, expect=0, fault=None, **options):
        """Trains to the end, which has the exit code `expect`. `fault` is the kind of fault that the run has."""
        process = self.start(run, *overrides, **options)
        try:
            self.output, self.errors = process.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            process.terminate()  # mpirun ends its ranks
            process.communicate(timeout=SECONDS)
            raise
        if fault:
            expect_fault(self, fault, expect, process.returncode, self.output + self.errors)
        else:
            self.assertEqual(process.returncode, expect, self.output + self.errors)

    def run_program(self, *command):
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def lines(self, run):
        with open(self.path(run, "metrics.jsonl"), encoding="utf-8") as file:
            return [json.loads(line) for line in file]

    def losses(self, run, first=1):
        return [line["loss"] for line in self.lines(run) if "loss" in line and line["step"] >= first]

    def hashes(self, run):
        return {line["step"]: line["weights_sha256"] for line in self.lines(run) if "weights_sha256" in line}

    def error(self, run):
        with open(self.path(run, "error.json"), encoding="utf-8") as file:
            return json.load(file)

    def expect_same_losses(self, run, reference):
        for a, b in zip(self.losses(run), self.losses(reference), strict=True):
            self.assertLess(abs(a - b), 1e-4 * b, run)

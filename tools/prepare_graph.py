# SPDX-License-Identifier: MIT
"""prepare graph: the nouns of WordNet as a graph for node classification, in the .npz format of PyG's Amazon and Coauthor graphs.

A node is a set of synonymous nouns, in the order of data.noun; its class is its lexicographer file (26 of them). Every pointer from
a noun to a noun is an undirected edge; self loops and repetitions are dropped. The features of a node are which of the most
frequent words are in its gloss, each row scaled to length 1. FNV-1a of "wn:" and the node's offset, modulo 10, says whether it is
for training (0-5), validation (6, 7) or test (8, 9).
Exit codes: 2 wrong use, 3 a file that cannot be used, 4 a file that cannot be written.
"""
import argparse
import collections
import os
import re

import numpy

from bad_input import BadInput, run
from whole_file import WholeFile

FIRST_CLASS, CLASSES = 3, 26  # noun.Tops is lexicographer file 3
TRAIN, VALIDATION = range(0, 6), range(6, 8)
BUCKETS = 10


def fnv_1a(text):
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = (value ^ byte) * 0x100000001B3 % (1 << 64)
    return value


class Nouns:
    """The content of data.noun: offset, class, noun pointers and gloss of each synset. wndb(5WN) describes the
    format."""

    def __init__(self, path):
        self.offsets, self.classes, self.pointers, self.glosses = [], [], [], []
        with open(path, encoding="ascii", errors="strict") as file:
            for number, line in enumerate(file, 1):
                if line.startswith("  "):  # the license
                    continue
                try:
                    self.add(line)
                except (ValueError, IndexError) as error:
                    raise BadInput(f"{path}:{number}: is not a line of data.noun: {error}") from error
        if not self.offsets:
            raise BadInput(f"{path}: holds no synsets")
        index = {offset: node for node, offset in enumerate(self.offsets)}
        for node, pointers in enumerate(self.pointers):
            for offset in pointers:
                if offset not in index:
                    raise BadInput(f"{path}: synset {self.offsets[node]} points to {offset}, which is not there")
        self.pointers = [[index[offset] for offset in pointers] for pointers in self.pointers]

    def add(self, line):
        head, gloss = line.rstrip().split(" | ", 1)
        fields = head.split()
        words = int(fields[3], 16)
        first = 4 + 2 * words
        pointers = fields[first + 1:]
        count = int(fields[first])
        if len(pointers) < 4 * count:
            raise ValueError(f"{count} pointers were announced, {len(pointers) // 4} are there")
        label = int(fields[1]) - FIRST_CLASS
        if not 0 <= label < CLASSES:
            raise ValueError(f"lexicographer file {fields[1]} is none of nouns")
        self.offsets.append(fields[0])
        self.classes.append(label)
        self.pointers.append([pointers[4 * i + 1] for i in range(count) if pointers[4 * i + 2] == "n"])
        self.glosses.append(gloss)


def undirected_edges(pointers):
    """Returns row offsets and columns: both directions of each pointer, sorted, each once."""
    nodes = len(pointers)
    pairs = numpy.array([(node, other) for node, others in enumerate(pointers) for other in others if other != node], dtype=numpy.int64)
    keys = numpy.unique(numpy.concatenate([pairs[:, 0] * nodes + pairs[:, 1], pairs[:, 1] * nodes + pairs[:, 0]])) if len(pairs) else pairs.ravel()
    rows, columns = keys // nodes, keys % nodes
    return numpy.concatenate([[0], numpy.cumsum(numpy.bincount(rows, minlength=nodes))]), columns


def bag_of_words(glosses, words):
    """Returns row offsets, columns and values of the sparse matrix. Columns are the words by falling frequency, then
    by name."""
    found = [set(re.findall("[a-z]{2,}", gloss.lower())) for gloss in glosses]
    frequency = collections.Counter(word for each in found for word in each)
    column = {word: i for i, word in enumerate(sorted(frequency, key=lambda word: (-frequency[word], word))[:words])}
    rows = [sorted(column[word] for word in each if word in column) for each in found]
    counts = numpy.array([len(row) for row in rows])
    offsets = numpy.concatenate([[0], numpy.cumsum(counts)])
    columns = numpy.array([i for row in rows for i in row], dtype=numpy.int64)
    return offsets, columns, numpy.repeat(1 / numpy.sqrt(numpy.maximum(counts, 1)), counts)


def graph_of(nouns, words):
    nodes = len(nouns.offsets)
    edge_offsets, edge_columns = undirected_edges(nouns.pointers)
    offsets, columns, values = bag_of_words(nouns.glosses, words)
    bucket = numpy.array([fnv_1a("wn:" + offset) % BUCKETS for offset in nouns.offsets])
    return {
        "adj_data": numpy.ones(len(edge_columns), numpy.float32),
        "adj_indices": edge_columns.astype(numpy.int32),
        "adj_indptr": edge_offsets.astype(numpy.int32),
        "adj_shape": numpy.array([nodes, nodes]),
        "attr_data": values.astype(numpy.float32),
        "attr_indices": columns.astype(numpy.int32),
        "attr_indptr": offsets.astype(numpy.int32),
        "attr_shape": numpy.array([nodes, words]),
        "labels": numpy.array(nouns.classes),
        "train": numpy.flatnonzero(numpy.isin(bucket, TRAIN)),
        "validation": numpy.flatnonzero(numpy.isin(bucket, VALIDATION)),
        "test": numpy.flatnonzero(bucket >= VALIDATION.stop),
    }, numpy.bincount(bucket, minlength=BUCKETS)


def main():
    parser = argparse.ArgumentParser(prog="prepare graph", description=__doc__.splitlines()[0])
    parser.add_argument("--input", required=True, metavar="FILE", help="data.noun of WordNet")
    parser.add_argument("--output", required=True, metavar="FILE", help="the .npz file that is written")
    parser.add_argument("--words", type=int, default=2000, metavar="N", help="how many of the most frequent words are features")
    arguments = parser.parse_args()
    if arguments.words < 1:
        parser.error("--words must be at least 1")
    if not os.path.isfile(arguments.input):
        raise BadInput(f"{arguments.input}: there is no such file")
    arrays, buckets = graph_of(Nouns(arguments.input), arguments.words)
    os.makedirs(os.path.dirname(arguments.output) or ".", exist_ok=True)
    with WholeFile(arguments.output) as file:
        numpy.savez_compressed(file, **arrays)
    print(f"{len(arrays['labels']):,} nodes of {CLASSES} classes, {len(arrays['adj_indices']) // 2:,} undirected edges, "
          f"{len(arrays['attr_indices']):,} words of {arguments.words:,}, "
          f"split {' '.join(map(str, buckets))}, in {arguments.output}")


if __name__ == "__main__":
    run(main)

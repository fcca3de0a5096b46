# SPDX-License-Identifier: MIT
"""Token files in llm.c's format, with where documents end and a sidecar beside each.

FILE.bin is a header of 256 int32 (magic, version, tokens), then ids as uint16 or uint32. FILE.bin.documents is a header of
256 int32 (magic, version, documents, tokens), then the end of each document as int32: the number of tokens before the next
one. Ends ascend, and the last is the number of tokens. All numbers are little-endian.
"""
import hashlib
import json

import numpy

from whole_file import WholeFile, replace_file

HEADER_INTS = 256
FORMATS = {2: (20240520, 1, "<u2"), 4: (20240801, 7, "<u4")}  # bytes per id: magic, version, dtype
DOCUMENTS = (20261125, 1)  # magic and version of the file of document ends
MAX_TOKENS = (1 << 31) - 1  # the header stores the count as int32
ENDS_AT_A_TIME = 1 << 16


class FileWithHeader(WholeFile):
    """Begins with a place for the header, whose numbers are known at the end."""

    def __init__(self, path):
        super().__init__(path)
        self.write(bytes(4 * HEADER_INTS))

    def write_header(self, *numbers):
        header = numpy.zeros(HEADER_INTS, dtype="<i4")
        header[:len(numbers)] = numbers
        with self.named_errors():
            self.file.seek(0)
            self.file.write(header.tobytes())


class TokenFileWriter:
    """One token file, its document ends and its sidecar. They get their names when they are complete."""

    def __init__(self, path, tokenizer):
        self.path, self.tokenizer = path, tokenizer
        self.magic, self.version, self.dtype = FORMATS[tokenizer.bytes_per_id]
        self.tokens = self.bytes = self.largest = self.documents = self.last_end = 0
        self.digest = hashlib.sha256()
        self.ends = []  # not yet written
        self.file, self.ends_file = FileWithHeader(path), FileWithHeader(path + ".documents")

    def add(self, text_bytes, ids):
        payload = ids.astype(self.dtype).tobytes()
        self.file.write(payload)
        self.digest.update(payload)
        self.tokens += len(ids)
        self.largest = max(self.largest, int(ids.max(initial=0)))
        self.bytes += text_bytes

    def end_document(self):
        """The next token begins another document. A document without tokens is none."""
        if self.tokens == self.last_end:
            return
        self.last_end = self.tokens
        self.documents += 1
        self.ends.append(self.tokens)
        if len(self.ends) == ENDS_AT_A_TIME:
            self.write_ends()

    def write_ends(self):
        self.ends_file.write(numpy.array(self.ends, dtype="<i4").tobytes())
        self.ends.clear()

    def finish(self, sources):
        self.end_document()  # one that goes on in another file ends here
        self.write_ends()
        self.ends_file.write_header(*DOCUMENTS, self.documents, self.tokens)
        self.file.write_header(self.magic, self.version, self.tokens)
        sidecar = {
            "bytes": self.bytes,
            "tokens": self.tokens,
            "tokenizer": self.tokenizer.name,
            "vocabulary": self.tokenizer.vocabulary,
            "largest_token": self.largest,
            "documents": self.documents,
            "end_of_document": self.tokenizer.end_of_document,
            "sha256": self.digest.hexdigest(),
            "sources": sources,
        }
        replace_file(self.path + ".json", json.dumps(sidecar, indent=2) + "\n")
        self.ends_file.complete()
        self.file.complete()

    def abandon(self):
        self.file.abandon()
        self.ends_file.abandon()

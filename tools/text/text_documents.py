# SPDX-License-Identifier: MIT
"""Documents of text in files, read piece by piece: plain text, JSON Lines (also gzipped) and Parquet.

A position counts bytes of text, over all documents in the order of the files.
"""
import dataclasses
import gzip
import json
import os
import zlib

from bad_input import BadInput

CHUNK_BYTES = 1 << 24  # bytes of text at a time, so that a text of any size fits into memory
MOST_LINE_BYTES = 1 << 26  # a longer line of a file with a document in each line is refused
# First bytes of a file: its format. For bzip2 they have the size of a block, from 1 to 9.
COMPRESSED = {b"\x1f\x8b\x08": "gzip", b"\xfd7zXZ\0": "xz", b"\x28\xb5\x2f\xfd": "zstd", b"PK\x03\x04": "zip", b"7z\xbc\xaf\x27\x1c": "7z",
              **{b"BZh%d1AY&SY" % size: "bzip2" for size in range(1, 10)}}
JSON_LINES = (".jsonl", ".jsonl.gz", ".ndjson", ".ndjson.gz")


@dataclasses.dataclass
class Piece:
    """A part of one document, and where it is."""

    text: bytes
    place: str  # for messages
    start: int  # bytes of that place before this piece
    ends: bool  # the document ends with this piece


def regular_file(path, unpacks_gzip=False):
    """Returns the size of a file. A compressed file that is not unpacked here is refused: its bytes are no text, and each would be a token."""
    try:
        size = os.stat(path).st_size
    except OSError as error:
        raise BadInput(f"{error.filename}: {error.strerror}") from error
    if not os.path.isfile(path):
        raise BadInput(f"{path}: is not a file")
    if size == 0:
        raise BadInput(f"{path}: is empty")
    with open(path, "rb") as file:
        begin = file.read(max(map(len, COMPRESSED)))
    kind = next((kind for magic, kind in COMPRESSED.items() if begin.startswith(magic)), None)
    if kind and not unpacks_gzip:
        raise BadInput(f"{path}: is compressed ({kind}), expected text; unpack it first. Unpacked here: .jsonl.gz, .ndjson.gz, and .gz with --documents lines")
    return size


class WholeFiles:
    """Each file is a document. A part of the text may begin and end inside of one."""

    def __init__(self, paths):
        self.paths = paths
        self.sizes = [regular_file(path) for path in paths]
        self.bytes, self.documents, self.empty = sum(self.sizes), len(paths), 0

    def cut(self, share, at_characters):
        """Returns the position at which the last part of the text begins. `share` is the share of the text before it."""
        position = self.bytes * share.numerator // share.denominator
        return self.character_boundary(position) if at_characters else position

    def pieces(self, start, stop):
        """Yields the pieces of bytes [start, stop)."""
        offset = 0
        for path, size in zip(self.paths, self.sizes):
            first, last = max(start - offset, 0), min(stop - offset, size)
            offset += size
            if first >= last:
                continue
            with open(path, "rb") as file:
                file.seek(first)
                while first < last:
                    text = file.read(min(CHUNK_BYTES, last - first))
                    if not text:
                        raise BadInput(f"{path}: became shorter while it was read")
                    yield Piece(text, path, first, first + len(text) == size)
                    first += len(text)

    def character_boundary(self, position):
        """Returns the first position from `position` on that is not inside a UTF-8 character."""
        for piece in self.pieces(position, min(position + 4, self.bytes)):
            for byte in piece.text:
                if byte & 0xC0 != 0x80:
                    return position
                position += 1
        return position


class Records:
    """Documents that lie many in a file, none of which is cut between two parts of the text. `read` is a function of a
    path that yields (place, text of a document)."""

    def __init__(self, paths, read):
        self.paths, self.read = paths, read
        for path in paths:
            regular_file(path, unpacks_gzip=path.endswith(".gz"))
        self.bytes = self.documents = self.empty = 0
        for _, text in self.all():
            self.bytes += len(text)
            self.documents += bool(text)
            self.empty += not text

    def all(self):
        for path in self.paths:
            yield from self.read(path)

    def cut(self, share, at_characters):
        """Returns the position at which the last part of the text begins: before the document that reaches over that
        share of the text, but after the first."""
        del at_characters  # documents begin with characters
        wanted, position = self.bytes * share.numerator // share.denominator, 0
        for _, text in self.all():
            if position > 0 and position + len(text) > wanted:
                return position
            position += len(text)
        return position

    def pieces(self, start, stop):
        position = 0
        for place, text in self.all():
            if position >= stop:
                return
            if text and position >= start:
                for first in range(0, len(text), CHUNK_BYTES):
                    yield Piece(text[first:first + CHUNK_BYTES], place, first, first + CHUNK_BYTES >= len(text))
            position += len(text)


def lines_of(path):
    """Yields (number, line without its end) of a file that may be gzipped."""
    try:
        with gzip.open(path, "rb") if path.endswith(".gz") else open(path, "rb") as file:
            number = 0
            while line := file.readline(MOST_LINE_BYTES + 1):
                number += 1
                if len(line) > MOST_LINE_BYTES:
                    raise BadInput(f"{path}:{number}: the line is longer than {MOST_LINE_BYTES} bytes, the most that a document in a line may have")
                yield number, line.removesuffix(b"\n").removesuffix(b"\r")
    except EOFError as error:
        raise BadInput(f"{path}: is truncated, because its gzip data end before their end mark") from error
    except (gzip.BadGzipFile, zlib.error) as error:
        raise BadInput(f"{path}: is damaged gzip data ({error})") from error


def text_lines(path):
    """Each line is a document. Lines of white space alone are empty."""
    for number, line in lines_of(path):
        yield f"{path}:{number}", line if line.strip() else b""


def json_lines(path, field):
    """The string `field` of each line is a document. Lines of white space alone are left out."""
    for number, line in lines_of(path):
        if line.strip():
            place = f"{path}:{number}"
            yield place, encoded(text_of(line, field, place), place)


def text_of(line, field, place):
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:  # also bytes that are not UTF-8, and numbers of too many digits
        raise BadInput(f"{place}: is not a line of JSON ({error})") from error
    if not isinstance(record, dict):
        raise BadInput(f"{place}: expected a JSON object with the field '{field}', got {type(record).__name__}")
    if field not in record:
        raise BadInput(f"{place}: has no field '{field}', only {shortened(record)}; give another with --field")
    return record[field]


def shortened(names):
    return ", ".join(repr(name[:40]) for name in list(names)[:8]) or "none"


def encoded(text, place):
    if not isinstance(text, str):
        raise BadInput(f"{place}: the text is {'missing (null)' if text is None else type(text).__name__}, expected a string")
    try:
        return text.encode()
    except UnicodeEncodeError as error:  # JSON can write half of a pair of surrogates
        raise BadInput(f"{place}: character {error.start} of the text is not a Unicode character ({error.reason})") from error


def parquet_rows(path, field):
    """The string column `field` of each row is a document."""
    import pyarrow
    import pyarrow.parquet

    number = 0
    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            if field not in file.schema_arrow.names:
                raise BadInput(f"{path}: has no column '{field}', only {shortened(file.schema_arrow.names)}; give another with --field")
            for batch in file.iter_batches(batch_size=256, columns=[field]):
                for value in batch.column(0):
                    place = f"{path}: row {number}"
                    yield place, encoded(value.as_py(), place)
                    number += 1
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{path}: cannot be read as Parquet ({str(error).splitlines()[0]})") from error


def is_parquet(path):
    return path.endswith(".parquet")


def has_records(path):
    """True if the file has a document in each record, whatever --documents says."""
    return is_parquet(path) or path.endswith(JSON_LINES)


def open_documents(paths, by_lines, field):
    if has_records(paths[0]):
        return Records(paths, lambda path: parquet_rows(path, field) if is_parquet(path) else json_lines(path, field))
    return Records(paths, text_lines) if by_lines else WholeFiles(paths)

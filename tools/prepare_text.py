# SPDX-License-Identifier: MIT
"""prepare text: text files into token files in llm.c's format, by bytes, by a byte-pair encoding trained on the text, or by the
tokenizer of a model of Hugging Face.

Each FILE.bin has a sidecar FILE.bin.json: how many bytes of text and tokens, which tokenizer, the largest token,
SHA-256 of the tokens.
Exit codes: 2 wrong use, 3 text that cannot be used, 4 a folder that cannot be written.
"""
import argparse
import fractions
import hashlib
import json
import os
import re

import numpy

from bad_input import BadInput, run

HEADER_INTS = 256
FORMATS = {2: (20240520, 1, "<u2"), 4: (20240801, 7, "<u4")}  # bytes per id: magic, version, dtype
TOKEN_FILE_NAME = re.compile(r"(train|validation)(_\d{5,})?\.bin")  # the names of write_split
MAX_TOKENS = (1 << 31) - 1  # the header stores the count as int32
CHUNK_BYTES = 1 << 24  # bytes of text at a time, so that a text of any size fits into memory
END_OF_CHUNK = b"\n"


class Text:
    """Files that are read one after another, as one text, piece by piece."""

    def __init__(self, paths):
        self.paths = paths
        try:
            self.sizes = [os.stat(path).st_size for path in paths]
        except OSError as error:
            raise BadInput(f"{error.filename}: {error.strerror}") from error
        for path, size in zip(paths, self.sizes):
            if not os.path.isfile(path):
                raise BadInput(f"{path}: is not a file")
            if size == 0:
                raise BadInput(f"{path}: is empty")
        self.bytes = sum(self.sizes)

    def read(self, start, stop):
        """Yields bytes [start, stop) in pieces that never cross a file."""
        offset = 0
        for path, size in zip(self.paths, self.sizes):
            first, last = max(start - offset, 0), min(stop - offset, size)
            offset += size
            if first >= last:
                continue
            with open(path, "rb") as file:
                file.seek(first)
                while first < last:
                    piece = file.read(min(CHUNK_BYTES, last - first))
                    if not piece:
                        raise BadInput(f"{path}: became shorter while it was read")
                    first += len(piece)
                    yield piece

    def character_boundary(self, position):
        """Returns the first position from `position` on that is not inside a UTF-8 character."""
        for piece in self.read(position, min(position + 4, self.bytes)):
            for byte in piece:
                if byte & 0xC0 != 0x80:
                    return position
                position += 1
        return position


class ByteTokenizer:
    """Each byte is a token."""

    name, vocabulary, bytes_per_id = "bytes", 256, 2

    def chunks(self, text, start, stop):
        for piece in text.read(start, stop):
            yield len(piece), numpy.frombuffer(piece, dtype=numpy.uint8)


class TextTokenizer:
    """A tokenizer of the package `tokenizers`. Loading it takes 0.2 s, which byte tokens avoid."""

    def __init__(self, name, tokenizer):
        self.name, self.tokenizer = name, tokenizer
        self.vocabulary = 1 + max(tokenizer.get_vocab().values())
        self.bytes_per_id = 2 if self.vocabulary <= 1 << 16 else 4

    @classmethod
    def trained(cls, text, stop, vocabulary):
        """A byte-level byte-pair encoding, trained on the training part of the text."""
        import tokenizers

        tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
        tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = tokenizers.decoders.ByteLevel()
        alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
        trainer = tokenizers.trainers.BpeTrainer(vocab_size=vocabulary, initial_alphabet=alphabet, show_progress=False)
        tokenizer.train_from_iterator((piece for _, piece in cls.pieces(text, 0, stop)), trainer)
        return cls("bpe", tokenizer)

    @classmethod
    def of_file(cls, path):
        import tokenizers

        try:
            tokenizer = tokenizers.Tokenizer.from_file(path)
        except Exception as error:  # the package raises no narrower one
            raise BadInput(f"{path}: cannot be read as the tokenizer.json of a model: {error}") from error
        # The run decides the length of samples, so the tokenizer must not cut or pad.
        tokenizer.no_truncation()
        tokenizer.no_padding()
        return cls(os.path.basename(path), tokenizer)

    @staticmethod
    def pieces(text, start, stop):
        """Yields (bytes, characters) of the text, cut after line ends if there are any."""
        rest = b""
        position = start
        for piece in text.read(start, stop):
            rest += piece
            cut = rest.rfind(END_OF_CHUNK) + 1
            if not cut and len(rest) < 2 * CHUNK_BYTES:
                continue
            cut = cut or len(rest) - 4
            while cut < len(rest) and rest[cut] & 0xC0 == 0x80:
                cut += 1
            yield decoded(rest[:cut], position)
            position += cut
            rest = rest[cut:]
        if rest:
            yield decoded(rest, position)

    def chunks(self, text, start, stop):
        for size, piece in self.pieces(text, start, stop):
            yield size, numpy.array(self.tokenizer.encode(piece, add_special_tokens=False).ids, dtype=numpy.uint32)


def decoded(piece, position):
    try:
        return len(piece), piece.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadInput(f"byte {position + error.start} of the text is not UTF-8 ({error.reason}); "
                      "mend it, or use --tokenizer bytes") from error


def replace_file(path, content):
    """Writes the file under a temporary name and renames it, so that a half-written file never has its name."""
    temporary = f"{path}.{os.getpid()}.tmp"
    with open(temporary, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)


class TokenFileWriter:
    """One token file and its sidecar. They get their names when they are complete."""

    def __init__(self, path, tokenizer):
        self.path, self.tokenizer = path, tokenizer
        self.magic, self.version, self.dtype = FORMATS[tokenizer.bytes_per_id]
        self.tokens = self.bytes = self.largest = 0
        self.digest = hashlib.sha256()
        self.temporary = f"{path}.{os.getpid()}.tmp"
        self.file = open(self.temporary, "wb")
        self.file.write(bytes(4 * HEADER_INTS))

    def add(self, text_bytes, ids):
        payload = ids.astype(self.dtype).tobytes()
        self.file.write(payload)
        self.digest.update(payload)
        self.tokens += len(ids)
        self.largest = max(self.largest, int(ids.max(initial=0)))
        self.bytes += text_bytes

    def finish(self, sources):
        header = numpy.zeros(HEADER_INTS, dtype="<i4")
        header[:3] = self.magic, self.version, self.tokens
        self.file.seek(0)
        self.file.write(header.tobytes())
        self.file.flush()
        os.fsync(self.file.fileno())
        self.file.close()
        sidecar = {
            "bytes": self.bytes,
            "tokens": self.tokens,
            "tokenizer": self.tokenizer.name,
            "vocabulary": self.tokenizer.vocabulary,
            "largest_token": self.largest,
            "sha256": self.digest.hexdigest(),
            "sources": sources,
        }
        replace_file(self.path + ".json", json.dumps(sidecar, indent=2).encode() + b"\n")
        os.replace(self.temporary, self.path)

    def abandon(self):
        self.file.close()
        if os.path.exists(self.temporary):
            os.unlink(self.temporary)


def write_split(name, chunks, tokenizer, arguments, sources):
    """Writes FOLDER/name.bin, or FOLDER/name_00000.bin, ... if the text needs several files. Returns (files,
    tokens)."""
    many = arguments.shard_tokens is not None
    limit = arguments.shard_tokens or MAX_TOKENS
    files = tokens = 0
    writer = None
    try:
        for text_bytes, ids in chunks:
            if writer is not None and writer.tokens + len(ids) > limit:
                if not many:
                    raise BadInput(f"the text has more than {limit} tokens; give --shard-tokens to write several files")
                writer.finish(sources)
                writer = None
            if writer is None:
                suffix = f"_{files:05d}" if many else ""
                writer = TokenFileWriter(os.path.join(arguments.output, f"{name}{suffix}.bin"), tokenizer)
                files += 1
            writer.add(text_bytes, ids)
            tokens += len(ids)
        writer.finish(sources)
    except BaseException:
        if writer is not None:
            writer.abandon()
        raise
    return files, tokens


def share(text):
    """A share such as 0.1 as an exact fraction, so that nine tenths of the bytes is a whole division."""
    value = fractions.Fraction(text)
    if not 0 < value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not between 0 and 1")
    return value


def tokenizer_name(text):
    if text in ("bytes", "bpe") or text.endswith(".json"):
        return text
    raise argparse.ArgumentTypeError(f"expected bytes, bpe, or the tokenizer.json of a model, got {text}")


def parse_arguments():
    parser = argparse.ArgumentParser(prog="tools/strata prepare text", description=__doc__)
    parser.add_argument("--input", nargs="+", required=True, metavar="FILE", help="text files, in this order")
    parser.add_argument("--output", required=True, metavar="FOLDER", help="where train.bin and validation.bin go")
    parser.add_argument("--tokenizer", type=tokenizer_name, default="bytes", metavar="bytes|bpe|FILE.json",
                        help="bytes, the default; a byte-pair encoding trained on the text; or the tokenizer.json of a model")
    parser.add_argument("--vocabulary", type=int, help="of bpe, at least 256; default 4096")
    parser.add_argument("--validation", type=share, default=share("0.1"), help="share of the text, from its end; default 0.1")
    parser.add_argument("--shard-tokens", type=int, metavar="N", help="write files of at most N tokens each")
    parser.add_argument("--overwrite", action="store_true", help="replace the token files in FOLDER")
    arguments = parser.parse_args()
    if arguments.tokenizer != "bpe" and arguments.vocabulary is not None:
        if (arguments.tokenizer, arguments.vocabulary) != ("bytes", 256):
            parser.error("--vocabulary is of --tokenizer bpe; bytes have 256, and a model has its own")
    if arguments.vocabulary is not None and arguments.vocabulary < 256:
        parser.error("--vocabulary must be at least 256: every byte is a token")
    if arguments.shard_tokens is not None and not CHUNK_BYTES <= arguments.shard_tokens <= MAX_TOKENS:
        parser.error(f"--shard-tokens must be between {CHUNK_BYTES} and {MAX_TOKENS}")
    return arguments


def is_token_file(path):
    with open(path, "rb") as file:
        return int.from_bytes(file.read(4), "little") in (magic for magic, _, _ in FORMATS.values())


def claim_folder(arguments):
    """Creates the folder. Old token files are refused or removed, because a glob would mix them with the new ones.
    Files of other names or formats, such as pytorch_model.bin, are kept."""
    os.makedirs(arguments.output, exist_ok=True)
    old = [name for name in sorted(os.listdir(arguments.output)) if TOKEN_FILE_NAME.fullmatch(name)]
    if old and not arguments.overwrite:
        raise BadInput(f"{arguments.output} holds token files already ({old[0]}, ...); give another folder, or --overwrite")
    paths = [os.path.join(arguments.output, name) for name in old]
    for path in paths:
        if not is_token_file(path):
            raise BadInput(f"{path}: is not a token file, so --overwrite does not replace it; move it away, or give another folder")
    for path in paths:
        os.unlink(path)
        if os.path.exists(path + ".json"):
            os.unlink(path + ".json")


def main():
    arguments = parse_arguments()
    text = Text(arguments.input)
    kept = 1 - arguments.validation
    cut = text.bytes * kept.numerator // kept.denominator
    if arguments.tokenizer != "bytes":
        cut = text.character_boundary(cut)
    if not 0 < cut < text.bytes:
        raise BadInput(f"{text.bytes} bytes of text are too few to be split into training and validation")
    of_model = TextTokenizer.of_file(arguments.tokenizer) if arguments.tokenizer.endswith(".json") else None
    claim_folder(arguments)
    if arguments.tokenizer == "bytes":
        tokenizer = ByteTokenizer()
    else:
        tokenizer = of_model or TextTokenizer.trained(text, cut, arguments.vocabulary or 4096)
        replace_file(os.path.join(arguments.output, "tokenizer.json"), tokenizer.tokenizer.to_str(pretty=True).encode())
    sources = [os.path.basename(path) for path in arguments.input]
    for name, start, stop in (("train", 0, cut), ("validation", cut, text.bytes)):
        files, tokens = write_split(name, tokenizer.chunks(text, start, stop), tokenizer, arguments, sources)
        print(f"{name}: {stop - start} bytes of text, {tokens} tokens of a vocabulary of {tokenizer.vocabulary}, "
              f"{files} file{'s' if files > 1 else ''} in {arguments.output}")


if __name__ == "__main__":
    run(main)

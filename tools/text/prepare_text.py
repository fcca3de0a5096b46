# SPDX-License-Identifier: MIT
"""prepare text: documents into token files in llm.c's format, by bytes, by a byte-pair encoding trained on the text, or by the
tokenizer of a model of Hugging Face.

A document is a text file, a line of one (--documents lines), a line of JSON (FILE.jsonl or FILE.ndjson, maybe gzipped) or a row of Parquet.
Beside each FILE.bin stand FILE.bin.documents, where documents end, and a sidecar FILE.bin.json: how many bytes of text, tokens
and documents, which tokenizer, the largest token, the token that ends a document, SHA-256 of the tokens.
Exit codes: 2 wrong use, 3 text that cannot be used, 4 a folder that cannot be written.
"""
import argparse
import fractions
import os
import re
import sys
import tempfile

import numpy

sys.path.insert(1, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))  # of the modules that tools share

import text_documents  # noqa: E402
from bad_input import BadInput, run  # noqa: E402
from token_file_writer import FORMATS, MAX_TOKENS, TokenFileWriter  # noqa: E402
from tokenizer_files import END_NAME, end_of_model, load_tokenizer  # noqa: E402
from whole_file import replace_file, sync_folder  # noqa: E402

TOKENIZER_NAME = "tokenizer.json"
TOKEN_FILE_NAME = re.compile(r"(train|validation)(_\d{5,})?\.bin")  # the names of write_split
END_OF_CHUNK = b"\n"
LEAST_SHARD_TOKENS = text_documents.CHUNK_BYTES + 1  # a piece of text in bytes, and the end of its document


class ByteTokenizer:
    """Each byte is a token, and so is the end of a document."""

    name, bytes_per_id = "bytes", 2

    def __init__(self, has_end):
        self.end_of_document, self.end_name = (256, "") if has_end else (None, "")
        self.vocabulary = 257 if has_end else 256

    def chunks(self, pieces):
        """Yields (bytes of text, ids, whether a document ends with them)."""
        for piece in pieces:
            yield len(piece.text), numpy.frombuffer(piece.text, dtype=numpy.uint8), piece.ends


class TextTokenizer:
    """A tokenizer of the package `tokenizers`."""

    def __init__(self, name, tokenizer, end_name):
        self.name, self.tokenizer, self.end_name = name, tokenizer, end_name
        self.end_of_document = tokenizer.token_to_id(end_name) if end_name else None
        self.vocabulary = 1 + max(tokenizer.get_vocab().values())
        self.bytes_per_id = 2 if self.vocabulary <= 1 << 16 else 4

    @classmethod
    def trained(cls, pieces, vocabulary, has_end):
        """A byte-level byte-pair encoding, trained on the training part of the text. The end of a document is its last
        id."""
        import tokenizers

        tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
        tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = tokenizers.decoders.ByteLevel()
        alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
        trainer = tokenizers.trainers.BpeTrainer(vocab_size=vocabulary - has_end, initial_alphabet=alphabet, show_progress=False)
        tokenizer.train_from_iterator((text for _, text, _ in cls.texts(pieces)), trainer)
        if has_end:
            tokenizer.add_special_tokens([END_NAME])
            tokenizer.encode_special_tokens = True  # text that has the same letters is text
        return cls("bpe", tokenizer, END_NAME if has_end else None)

    @classmethod
    def from_file(cls, path, has_end):
        tokenizer = load_tokenizer(path)
        return cls(os.path.basename(path), tokenizer, end_of_model(os.path.dirname(path) or ".", tokenizer) if has_end else None)

    @staticmethod
    def texts(pieces):
        """Yields (bytes, characters, whether a document ends with them). Documents of more than a piece are cut after
        line ends if there are any."""
        rest, place, start = b"", "", 0
        for piece in pieces:
            if not rest:
                place, start = piece.place, piece.start
            rest += piece.text
            cut = len(rest) if piece.ends else rest.rfind(END_OF_CHUNK) + 1
            if not cut and len(rest) < 2 * text_documents.CHUNK_BYTES:
                continue
            cut = cut or len(rest) - 4
            while cut < len(rest) and rest[cut] & 0xC0 == 0x80:
                cut += 1
            yield cut, decoded(rest[:cut], place, start), piece.ends
            start += cut
            rest = rest[cut:]
        if rest:
            yield len(rest), decoded(rest, place, start), False

    def chunks(self, pieces):
        for size, text, ends in self.texts(pieces):
            yield size, numpy.array(self.tokenizer.encode(text, add_special_tokens=False).ids, dtype=numpy.uint32), ends


def decoded(text, place, start):
    try:
        return text.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadInput(f"{place}: byte {start + error.start} is not UTF-8 ({error.reason}); "
                       "mend it, or use --tokenizer bytes") from error


def write_split(folder, name, chunks, tokenizer, shard_tokens, sources):
    """Writes FOLDER/name.bin, or FOLDER/name_00000.bin, ... if files have at most `shard_tokens`. Returns (files, tokens,
    documents)."""
    many = shard_tokens is not None
    limit = shard_tokens or MAX_TOKENS
    files = tokens = documents = 0
    writer = None
    try:
        for text_bytes, ids, ends in chunks:
            if ends and tokenizer.end_of_document is not None:
                ids = numpy.append(ids, numpy.uint32(tokenizer.end_of_document))
            if len(ids) > limit:
                raise BadInput(f"{text_bytes} bytes of text without a line end are {len(ids)} tokens, and a file has at most {limit}; "
                               "give larger --shard-tokens")
            if writer is not None and writer.tokens + len(ids) > limit:
                if not many:
                    raise BadInput(f"the text has more than {limit} tokens; give --shard-tokens to write several files")
                writer.finish(sources)
                documents += writer.documents
                writer = None
            if writer is None:
                suffix = f"_{files:05d}" if many else ""
                writer = TokenFileWriter(os.path.join(folder, f"{name}{suffix}.bin"), tokenizer)
                files += 1
            writer.add(text_bytes, ids)
            if ends:
                writer.end_document()
            tokens += len(ids)
        writer.finish(sources)
    except BaseException:
        if writer is not None:
            writer.abandon()
        raise
    return files, tokens, documents + writer.documents


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
    parser.add_argument("--input", nargs="+", required=True, metavar="FILE",
                        help="text files, or files of JSON Lines and Parquet, in this order")
    parser.add_argument("--output", required=True, metavar="FOLDER", help="where train.bin and validation.bin go")
    parser.add_argument("--tokenizer", type=tokenizer_name, default="bytes", metavar="bytes|bpe|FILE.json",
                        help="bytes, the default; a byte-pair encoding trained on the text; or the tokenizer.json of a model")
    parser.add_argument("--documents", choices=("files", "lines"), default="files",
                        help="what a document is in text files: a file, the default, or a line that is not empty")
    parser.add_argument("--field", metavar="NAME", help="of the text in JSON Lines and Parquet; default text")
    parser.add_argument("--vocabulary", type=int, help="of bpe, at least 256; default 4096")
    parser.add_argument("--validation", type=share, default=share("0.1"), help="share of the text, from its end; default 0.1")
    parser.add_argument("--shard-tokens", type=int, metavar="N", help="write files of at most N tokens each")
    parser.add_argument("--overwrite", action="store_true", help="replace the token files in FOLDER")
    arguments = parser.parse_args()
    with_records = sum(map(text_documents.has_records, arguments.input))
    if with_records not in (0, len(arguments.input)):
        parser.error("--input mixes text files with JSON Lines or Parquet; prepare them apart")
    if arguments.documents == "lines" and with_records:
        parser.error("--documents is of text files; each record of JSON Lines and Parquet is a document")
    if arguments.field is not None and not with_records:
        parser.error("--field is of JSON Lines and Parquet, whose names end with .jsonl, .ndjson, .jsonl.gz, .ndjson.gz or .parquet")
    if arguments.tokenizer != "bpe" and arguments.vocabulary is not None:
        if (arguments.tokenizer, arguments.vocabulary) != ("bytes", 256):
            parser.error("--vocabulary is of --tokenizer bpe; bytes have 256, and a model has its own")
    if arguments.vocabulary is not None and arguments.vocabulary < 256:
        parser.error("--vocabulary must be at least 256: every byte is a token")
    if arguments.shard_tokens is not None and not LEAST_SHARD_TOKENS <= arguments.shard_tokens <= MAX_TOKENS:
        parser.error(f"--shard-tokens must be between {LEAST_SHARD_TOKENS} and {MAX_TOKENS}")
    return arguments


def is_token_file(path):
    with open(path, "rb") as file:
        return int.from_bytes(file.read(4), "little") in (magic for magic, _, _ in FORMATS.values())


def claim_folder(arguments):
    """Creates the folder, and returns the paths of its old token files. Without --overwrite these are refused."""
    os.makedirs(arguments.output, exist_ok=True)
    old = [name for name in sorted(os.listdir(arguments.output)) if TOKEN_FILE_NAME.fullmatch(name)]
    if old and not arguments.overwrite:
        raise BadInput(f"{arguments.output} holds token files already ({old[0]}, ...); give another folder, or --overwrite")
    paths = [os.path.join(arguments.output, name) for name in old]
    for path in paths:
        if not is_token_file(path):
            raise BadInput(f"{path}: is not a token file, so --overwrite does not replace it; move it away, or give another folder")
    return paths


def remove_token_files(paths):
    """A glob would mix them with the new ones. Files of other names or formats, such as pytorch_model.bin, are kept."""
    for path in paths:
        os.unlink(path)
        for beside in (path + ".documents", path + ".json"):
            if os.path.exists(beside):
                os.unlink(beside)


def is_given(path, tokenizer):
    """True if the file at `path` is the one that --tokenizer names."""
    return os.path.exists(path) and os.path.exists(tokenizer) and os.path.samefile(path, tokenizer)


def check_tokenizer(arguments):
    """A tokenizer that lies in the folder may be of somebody's model."""
    path = os.path.join(arguments.output, TOKENIZER_NAME)
    if arguments.tokenizer != "bytes" and not arguments.overwrite and os.path.lexists(path) and not is_given(path, arguments.tokenizer):
        raise BadInput(f"{path}: is there already; give another folder, or --overwrite to replace it")


def set_tokenizer_aside(arguments, old):
    """The tokenizer beside old token files gets another name if the new tokens are bytes."""
    path = os.path.join(arguments.output, TOKENIZER_NAME)
    if arguments.tokenizer == "bytes" and old and os.path.lexists(path):
        os.replace(path, path + ".old")
        print(f"{TOKENIZER_NAME} is not of these data, and is now {TOKENIZER_NAME}.old")


def exchange(arguments, old, folder):
    """Replaces the old token files by the files of another folder. A token file comes after what lies beside it."""
    remove_token_files(old)
    set_tokenizer_aside(arguments, old)
    for name in sorted(os.listdir(folder), reverse=True):
        os.replace(os.path.join(folder, name), os.path.join(arguments.output, name))
    sync_folder(arguments.output)


def counted(number, noun):
    return f"{number} {noun}{'' if number == 1 else 's'}"


def main():
    arguments = parse_arguments()
    text = text_documents.open_documents(arguments.input, arguments.documents == "lines", arguments.field or "text")
    cut = text.cut(1 - arguments.validation, at_characters=arguments.tokenizer != "bytes")
    if not 0 < cut < text.bytes:
        raise BadInput(f"{counted(text.bytes, 'byte')} of text in {counted(text.documents, 'document')} are too few to be split into "
                       "training and validation")
    # Nothing follows the only document, and the files of a text that is one stay as llm.c's scripts write them.
    has_end = text.documents > 1
    given_tokenizer = TextTokenizer.from_file(arguments.tokenizer, has_end) if arguments.tokenizer.endswith(".json") else None
    if arguments.vocabulary == 256 and arguments.tokenizer == "bpe" and has_end:
        raise BadInput("--vocabulary must be at least 257: every byte is a token, and so is the end of a document")
    old = claim_folder(arguments)
    check_tokenizer(arguments)
    if arguments.tokenizer == "bytes":
        tokenizer = ByteTokenizer(has_end)
    else:
        tokenizer = given_tokenizer or TextTokenizer.trained(text.pieces(0, cut), arguments.vocabulary or 4096, has_end)
    sources = [os.path.basename(path) for path in arguments.input]
    # Old files stay until all new ones are complete.
    with tempfile.TemporaryDirectory(prefix=".prepare_text_", dir=arguments.output) as folder:
        for name, start, stop in (("train", 0, cut), ("validation", cut, text.bytes)):
            pieces = text.pieces(start, stop)
            files, tokens, documents = write_split(folder, name, tokenizer.chunks(pieces), tokenizer, arguments.shard_tokens, sources)
            print(f"{name}: {stop - start} bytes of text in {counted(documents, 'document')}, {tokens} tokens of a vocabulary of "
                  f"{tokenizer.vocabulary}, {counted(files, 'file')} in {arguments.output}")
        if arguments.tokenizer != "bytes" and not is_given(os.path.join(arguments.output, TOKENIZER_NAME), arguments.tokenizer):
            replace_file(os.path.join(folder, TOKENIZER_NAME), tokenizer.tokenizer.to_str(pretty=True))
        exchange(arguments, old, folder)
    for path in arguments.input:
        if path.endswith((".json", ".json.gz")):
            print(f"{path} is read as plain text, braces and quotes too; a file with a JSON object in each line needs a name that ends with .jsonl")
    if text.empty:
        print(f"{counted(text.empty, 'empty document')} left out")
    if tokenizer.end_of_document is not None:
        print(f"token {tokenizer.end_of_document} {tokenizer.end_name}".rstrip() + " ends each document")
    elif has_end:
        print("no token ends a document, because the tokenizer has none for it; where documents end is written all the same")


if __name__ == "__main__":
    run(main)

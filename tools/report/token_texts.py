# SPDX-License-Identifier: MIT
"""The texts of token ids, by the tokenizer.json that a run has kept, or of bytes. Nothing is installed for that."""
import os
import re
import stat

from checked_values import object_of

LARGEST = 100_000_000  # bytes: trainer/report/kept_tokenizer.cc keeps no larger one
BYTE = re.compile(r"<0x([0-9A-Fa-f]{2})>")


def letters_of_bytes():
    """Returns {letter: byte} of the byte-level encoding of GPT-2: printable bytes are their own letters, and the others come from 256 on."""
    own = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in own]
    return {chr(byte): byte for byte in own} | {chr(256 + i): byte for i, byte in enumerate(others)}


def text_of_bytes(content):
    """Returns the text of the bytes of one token. A part of a letter is shown as its bytes."""
    try:
        return content.decode()
    except UnicodeDecodeError:
        return "".join(f"\\x{byte:02x}" for byte in content)


def kinds_of(decoder):
    """Returns the types of a decoder and of those that it is made of."""
    if not isinstance(decoder, dict):
        return set()
    parts = decoder.get("decoders")
    return {str(decoder.get("type"))}.union(*map(kinds_of, parts if isinstance(parts, list) else []))


def pieces_of(tokenizer):
    """Returns {id: piece of the vocabulary}, and {id: text} of the tokens that were added to it."""
    model = tokenizer.get("model")
    vocabulary = model.get("vocab") if isinstance(model, dict) else None
    if isinstance(vocabulary, dict):
        pieces = {number: piece for piece, number in vocabulary.items() if type(number) is int}
    else:  # pairs of a piece and its score
        pairs = vocabulary if isinstance(vocabulary, list) else []
        pieces = {i: pair[0] for i, pair in enumerate(pairs) if isinstance(pair, list) and pair and isinstance(pair[0], str)}
    tokens = tokenizer.get("added_tokens")
    added = [token for token in (tokens if isinstance(tokens, list) else []) if isinstance(token, dict)]
    return pieces, {token["id"]: token["content"] for token in added if type(token.get("id")) is int and isinstance(token.get("content"), str)}


class TokenTexts:
    """`note` says why tokens are shown as numbers; it is empty if they have texts."""

    def __init__(self, folder, vocabulary):
        """`vocabulary` is the text of model.vocabulary in the configuration of the run."""
        path = os.path.join(folder, "tokenizer.json")
        self.pieces, self.added, self.kinds, self.letters, self.note = {}, {}, set(), letters_of_bytes(), ""
        self.are_bytes = not os.path.lexists(path) and vocabulary in ("256", "257")
        if self.are_bytes:
            return
        tokenizer = read_tokenizer(path)
        if tokenizer is None:
            self.note = "Tokens are shown as numbers, because the run has no tokenizer.json that can be read, and its tokens are not bytes."
            return
        self.pieces, self.added = pieces_of(tokenizer)
        self.kinds = kinds_of(tokenizer.get("decoder"))

    def __call__(self, token):
        if token in self.added:
            return self.added[token]
        if self.are_bytes and 0 <= token < 256:
            return text_of_bytes(bytes([token]))
        piece = self.pieces.get(token)
        if piece is None:
            return f"[{token}]"
        if "ByteLevel" in self.kinds and all(letter in self.letters for letter in piece):
            return text_of_bytes(bytes(self.letters[letter] for letter in piece))
        found = BYTE.fullmatch(piece) if "ByteFallback" in self.kinds else None
        if found:
            return text_of_bytes(bytes([int(found.group(1), 16)]))
        return piece.replace("\u2581", " ") if self.kinds & {"Metaspace", "Replace"} else piece


def read_tokenizer(path):
    try:
        if not stat.S_ISREG(os.stat(path).st_mode) or os.path.getsize(path) > LARGEST:
            return None
        with open(path, "rb") as file:
            return object_of(file.read(LARGEST))
    except OSError:
        return None

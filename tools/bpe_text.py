# SPDX-License-Identifier: MIT
"""Text to token ids and back, with the tokenizer that `prepare text` wrote beside the token files.

bpe_text.py encode TOKENIZER TEXT prints ids in one line. bpe_text.py decode TOKENIZER reads ids from its input
and prints text.
"""
import sys
import unicodedata

import tokenizers


def main():
    action, path, *text = sys.argv[1:]
    tokenizer = tokenizers.Tokenizer.from_file(path)
    if action == "encode":
        print(*tokenizer.encode(text[0], add_special_tokens=False).ids)
    else:
        text = tokenizer.decode([int(line) for line in sys.stdin], skip_special_tokens=False)
        if sys.stdout.isatty():  # a model may write any character, and a terminal obeys control characters
            text = "".join("?" if unicodedata.category(letter) == "Cc" and letter not in "\n\t" else letter for letter in text)
        print(text)


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: MIT
"""The exit of a program whose arguments, input or output cannot be used: a message of one line and an exit code."""
import argparse
import os
import sys
import unicodedata


class BadInput(Exception):
    """Input that cannot be used; exit code 3."""


def printable(text):
    """A terminal obeys control characters, which the files of others may have."""
    return "".join("?" if unicodedata.category(letter) == "Cc" and letter not in "\n\t" else letter for letter in text)


def stop(message, code):
    print(printable(f"strata: {message}"), file=sys.stderr)
    sys.exit(code)


class Parser(argparse.ArgumentParser):
    """Of a command of tools/strata, which is the first word of `prog`. Takes no shortened options, and refuses arguments in one line."""

    def __init__(self, **options):
        super().__init__(formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False, **options)

    def error(self, message):
        stop(f"{message}; tools/strata {self.prog.split()[0]} --help lists the options", 2)


def run(main):
    try:
        main()
    except BadInput as bad:
        stop(bad, 3)
    except KeyboardInterrupt:
        stop("interrupted", 130)
    except UnicodeDecodeError as bad:
        stop(f"the input is not {bad.encoding.upper()}: {bad}", 3)
    except OSError as failure:
        stop(f"{failure.filename}: {failure.strerror}", 4)
    except ModuleNotFoundError as missing:
        pins = os.path.join(os.path.dirname(os.path.abspath(__file__)), "requirements.txt")
        stop(f"the Python package {missing.name} is not installed; get it with: pip install --no-deps -r {pins}", 70)

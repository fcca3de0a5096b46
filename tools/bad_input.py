# SPDX-License-Identifier: MIT
"""The exit of a program whose input or output cannot be used: a message of one line and an exit code."""
import sys


class BadInput(Exception):
    """Input that cannot be used; exit code 3."""


def run(main):
    try:
        main()
    except BadInput as bad:
        print(f"strata: {bad}", file=sys.stderr)
        sys.exit(3)
    except UnicodeDecodeError as bad:
        print(f"strata: the input is not {bad.encoding.upper()}: {bad}", file=sys.stderr)
        sys.exit(3)
    except OSError as failure:
        print(f"strata: {failure.filename}: {failure.strerror}", file=sys.stderr)
        sys.exit(4)

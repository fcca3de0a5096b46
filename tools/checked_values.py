# SPDX-License-Identifier: MIT
"""Values of files that another program, another version or another person has written."""
import json
import sys


def is_finite(value, most=sys.float_info.max):
    """Returns whether a value is a number from -most to most. True and False do not count, although they are whole numbers in Python."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) <= most


def object_of(text):
    """Returns the members of a JSON object, or None if the text, or its bytes, are something else."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):  # also bytes that are not UTF-8
        return None
    return found if isinstance(found, dict) else None

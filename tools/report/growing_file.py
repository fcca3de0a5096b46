# SPDX-License-Identifier: MIT
"""Reads what a run has added to a file since the last time, and notices when a resumed run has cut the file back."""
import hashlib
import os

LONGEST_LINE = 1 << 20  # bytes of a line that is read whole
MOST_BYTES = 1 << 24    # of the lines that are read at once
# A mark is a hash of this number of bytes. They have the milliseconds of several steps, which another training does not repeat.
MARKED_BYTES = 4096


def lines_of(file):
    """Yields (line, the byte after it). Of a line that is too long it yields the beginning and the last byte, so that a damaged file
    takes little memory."""
    place = file.tell()
    while line := file.readline(LONGEST_LINE):
        end, place = line, place + len(line)
        while len(end) == LONGEST_LINE and not end.endswith(b"\n"):
            end = file.readline(LONGEST_LINE)
            place += len(end)
        yield (line if end is line else line + end[-1:]), place


def mark_at(file, place):
    """Returns a hash of the bytes before a place, and None if the file is shorter."""
    begin = max(place - MARKED_BYTES, 0)
    file.seek(begin)
    content = file.read(place - begin)
    return hashlib.sha256(content).hexdigest()[:16] if len(content) == place - begin else None


class GrowingFile:
    """`place` is the byte after the last line that was read, and `mark` a hash of the bytes before it, or None if any may be there."""

    def __init__(self, path, place=0, mark=None):
        self.path, self.place, self.mark = path, place, mark

    def new_lines(self, most):
        """Returns at most `most` lines, and fewer if they are long, as (line, the byte after it). A line without its end is left for
        later. Returns None if the bytes before them are not those that were read."""
        if not os.path.isfile(self.path):  # a read of a pipe would wait for ever
            return None if self.place > 0 else []
        found = []
        try:
            with open(self.path, "rb") as file:
                file.seek(self.place)
                for line, end in lines_of(file):
                    if not line.endswith(b"\n"):
                        break
                    found.append((line, end))
                    if len(found) == most or end - self.place >= MOST_BYTES:
                        break
                place = found[-1][1] if found else self.place
                mark = mark_at(file, place)
                # It is checked after the lines are read, because the file may be cut at any time.
                if mark is None or (self.mark is not None and mark_at(file, self.place) != self.mark):
                    return None
        except FileNotFoundError:
            return None
        self.place, self.mark = place, mark
        return found

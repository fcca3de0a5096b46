# SPDX-License-Identifier: MIT
"""Reads what one `bazel test` has written: its file of events, and test.xml of each test. On a full disk they end early. What is there is read, and a
sentence says what is not."""
import json
import os
import shutil
import urllib.parse
import xml.etree.ElementTree as ElementTree


def free_space(path):
    """Returns words on the space that is left beside a file that was not written to its end."""
    folder = os.path.dirname(os.path.abspath(path))
    return f"perhaps no space is left on the device of {folder}: {shutil.disk_usage(folder).free / 2**30:.1f} GiB free"


class Events:
    """Iterates over the events of a file. After that `damage` says what is wrong with the file; it is empty if nothing is."""

    def __init__(self, path):
        self.path, self.damage = path, ""

    def __iter__(self):
        try:
            with open(self.path, encoding="utf-8", errors="replace") as file:
                yield from self.read(file)
        except OSError as error:
            self.damage = f"the file of events {self.path} cannot be read: {error.strerror}"

    def read(self, lines):
        number, is_last = 0, False
        for number, line in enumerate(lines, 1):
            try:
                event = json.loads(line)
            except ValueError:
                where = "is damaged in" if line.endswith("\n") else "ends in the middle of"
                self.damage = self.damage or f"the file of events {where} line {number} ({free_space(self.path)})"
                continue
            is_last = event.get("lastMessage", False)
            yield event
        if not is_last:
            self.damage = self.damage or f"the file of events ends after line {number}, before its last event ({free_space(self.path)})"


def path_of(result, name):
    """The path of a file that the testResult of an event lists, or None."""
    for file in result.get("testActionOutput", []):
        place = urllib.parse.urlparse(file.get("uri", ""))
        if file["name"] == name and place.scheme == "file":
            return urllib.parse.unquote(place.path)
    return None


def cases_in(xml_path):
    """Returns the <testcase> elements of a test.xml, and what is wrong with the file or "". A test without the file has no cases."""
    if not xml_path:
        return [], ""
    try:
        return list(ElementTree.parse(xml_path).iter("testcase")), ""
    except OSError as error:
        return [], f"its test.xml cannot be read: {error.strerror}"
    except ElementTree.ParseError as error:
        damage = f"damaged: {error}" if os.path.getsize(xml_path) else "empty"
        return [], f"its test.xml is {damage}; {free_space(xml_path)}"


def name_of(label, case):
    suite = case.get("classname")
    return f"{label} {suite + '.' if suite else ''}{case.get('name')}"

# SPDX-License-Identifier: MIT
"""Reads files of YAML that may come from others: short ones, without aliases and without keys that stand twice."""
import yaml

from bad_input import BadInput


class Loader(yaml.SafeLoader):
    """Refuses aliases, with which a small file can be huge, and keys that stand twice."""

    def compose_node(self, parent, index):
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError(f"line {self.peek_event().start_mark.line + 1} has an alias")
        return super().compose_node(parent, index)

    def construct_mapping(self, node, deep=False):
        names = [str(key.value) for key, _ in node.value]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice:
            raise yaml.YAMLError(f"line {node.start_mark.line + 1}: the key {twice} stands twice")
        return super().construct_mapping(node, deep)


def read_yaml(path, most):
    """Returns what the file holds, of at most `most` characters."""
    with open(path, encoding="utf-8") as file:
        text = file.read(most + 1)
    if len(text) > most:
        raise BadInput(f"{path}: has more than {most} characters")
    try:
        return yaml.load(text, Loader)
    except (yaml.YAMLError, ValueError, TypeError, RecursionError) as error:  # ValueError: of a date that does not exist; TypeError: of a key
        raise BadInput(f"{path}: cannot be read as YAML without aliases: {' '.join(str(error).split()):.300}") from error

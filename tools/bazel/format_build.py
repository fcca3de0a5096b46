# SPDX-License-Identifier: MIT
"""Formats BUILD files: format_build.py FILE... A call stands on one line if it fits, and a list fills its lines. The order of a list stays."""
import ast
import sys

WIDTH = 120
TERMS = (ast.List, ast.ListComp, ast.Dict, ast.Call, ast.Name, ast.Constant)  # of a sum, without parentheses


class Unknown(Exception):
    """An expression that stays as it is written."""


class Formatter:
    def __init__(self, source):
        self.lines = source.split("\n")

    def text(self, node):
        lines = [line.encode() for line in self.lines[node.lineno - 1:node.end_lineno]]  # columns count bytes
        lines[-1] = lines[-1][:node.end_col_offset]
        return b"\n".join([lines[0][node.col_offset:], *lines[1:]]).decode()

    def flat(self, node):
        """Returns an expression on one line."""
        match node:
            case ast.List():
                return f"[{', '.join(map(self.flat, node.elts))}]"
            case ast.Dict():
                return "{" + ", ".join(map(self.pair, node.keys, node.values)) + "}"
            case ast.BinOp() if is_sum(node):
                return f"{self.flat(node.left)} + {self.flat(node.right)}"
            case ast.Call():
                return f"{self.text(node.func)}({', '.join(name + self.flat(value) for name, value in self.arguments(node))})"
        if "\n" in self.text(node):
            raise Unknown
        return self.text(node)

    def pair(self, key, value):
        return f"{self.flat(key)}: {self.flat(value)}"

    def arguments(self, call):
        if not all(keyword.arg for keyword in call.keywords):
            raise Unknown  # **values
        return [("", value) for value in call.args] + [(keyword.arg + " = ", keyword.value) for keyword in call.keywords]

    def laid_out(self, before, node, after, indent):
        """Returns the lines of an expression between two texts. `indent` is the indent of its first line."""
        line = before + self.flat(node) + after
        if len(line) <= WIDTH:
            return [line]
        match node:
            case ast.List():
                return [before + "[", *filled(map(self.flat, node.elts), indent + "    "), indent + "]" + after]
            case ast.Dict():
                return [before + "{", *(f"{indent}    {pair}," for pair in map(self.pair, node.keys, node.values)), indent + "}" + after]
            case ast.BinOp() if is_sum(node):
                *lines, last = self.laid_out(before, node.left, "", indent)
                return lines + self.laid_out(last + " + ", node.right, after, indent)
            case ast.Call() if self.arguments(node):
                return self.call(before, node, after, indent)
        raise Unknown

    def call(self, before, node, after, indent):
        """If only the list at the end is long, the arguments before it stand on the first line. Otherwise each with a name has lines of its own."""
        head = before + self.text(node.func) + "("
        if not node.keywords:  # load()
            return [head, *filled(map(self.flat, node.args), indent + "    "), indent + ")" + after]
        *others, (name, last) = self.arguments(node)
        first = head + "".join(f"{key}{self.flat(value)}, " for key, value in others) + name
        if isinstance(last, ast.List) and len(first) < WIDTH:
            return self.laid_out(first, last, ")" + after, indent)
        inner = indent + "    "
        lines = [line for key, value in self.arguments(node) for line in self.laid_out(inner + key, value, ",", inner)]
        return [head, *lines, indent + ")" + after]

    def statement(self, node):
        """Returns the lines of a statement. A statement with a comment in it or after it is not changed."""
        text, after = self.text(node), self.lines[node.end_lineno - 1].encode()[node.end_col_offset:].decode().rstrip()
        if after.lstrip().startswith("#"):
            return (text + after).split("\n")
        try:
            match node:
                case ast.Expr(value=ast.Call() as value) if "#" not in text:
                    return self.laid_out("", value, "", "")
                case ast.Assign(targets=[ast.Name(id=name)], value=value) if "#" not in text:
                    return self.laid_out(name + " = ", value, "", "")
        except Unknown:
            pass
        return text.split("\n")


def is_sum(node):
    """False if a term may need parentheses, which the tree does not have."""
    return isinstance(node.op, ast.Add) and isinstance(node.right, TERMS) and (
        isinstance(node.left, TERMS) or isinstance(node.left, ast.BinOp) and is_sum(node.left))


def filled(items, indent):
    """Returns lines with as many items as fit."""
    lines = []
    for item in items:
        if lines and len(f"{lines[-1]} {item},") <= WIDTH:
            lines[-1] += f" {item},"
        else:
            lines.append(f"{indent}{item},")
    return lines


def called(node):
    """Returns the rule that a statement calls: library of library() and of torch_library()."""
    return ast.unparse(node.value.func).removeprefix("torch_") if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) else None


def formatted(source):
    """Returns the text of a BUILD file as it should be. Calls of one rule that stand on a line each have no blank line between them."""
    formatter = Formatter(source)
    lines = formatter.lines
    result, end, before = [], 0, None  # before: the function of a call on one line, and whether a comment stands above it
    for node in ast.parse(source).body:
        own, comment = formatter.statement(node), "\n".join(lines[end:node.lineno - 1]).strip("\n")
        function = called(node) if len(own) == 1 else None
        adjacent = end + 1 == node.lineno
        together = before and not comment and before[0] == function and (adjacent or not before[1])
        result += [""] if result and not together else []
        result += ([comment] if comment else []) + ([""] if comment and not lines[node.lineno - 2] else []) + own
        before, end = (function, bool(comment)) if function else None, node.end_lineno
    rest = "\n".join(lines[end:]).strip("\n")
    return "\n".join(result + (["", rest] if rest else [])) + "\n"


if __name__ == "__main__":
    for path in sys.argv[1:]:
        with open(path, encoding="utf-8") as file:
            text = formatted(file.read())
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

# SPDX-License-Identifier: MIT
"""HTML from text of others: everything that is not written here is escaped."""
import html
import json
import re

MOST_ROWS = 200  # of a table whose rows grow with the steps; a longer one shows its last rows

# Characters that HTML may not have, and lone surrogates, which stand for the bytes of a name that is not UTF-8.
NOT_IN_HTML = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


def escaped(text):
    return html.escape(NOT_IN_HTML.sub("\N{REPLACEMENT CHARACTER}", str(text)))


def shown(value):
    """Returns a value of a JSON file as text. Numbers have all their digits."""
    try:
        return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    except RecursionError:
        return "a value in more brackets than can be shown"


def paragraph(text):
    return f"<p>{escaped(text)}</p>\n"


def absent(text):
    """Says that something is not there, and how to get it. Words between ` are code."""
    parts = [f"<code>{escaped(part)}</code>" if i % 2 else escaped(part) for i, part in enumerate(text.split("`"))]
    return f'<p class="absent">{"".join(parts)}</p>\n'


def table(head, rows, numbers=(), most=MOST_ROWS):
    """Returns a table of texts. `numbers` has the columns that are aligned to the right."""
    rows = list(rows)
    cut = len(rows) - most if most else 0
    kinds = [' class="number"' if i in numbers else "" for i in range(len(head))]
    text = paragraph(f"The last {most} of {len(rows)} rows:") if cut > 0 else ""
    text += '<div class="scroll"><table><thead><tr>' + "".join(f'<th scope="col"{kind}>{escaped(name)}</th>' for kind, name in zip(kinds, head))
    text += "</tr></thead><tbody>\n"
    for row in rows[max(cut, 0):]:
        text += "<tr>" + "".join(f"<td{kind}>{escaped(cell)}</td>" for kind, cell in zip(kinds, row)) + "</tr>\n"
    return text + "</tbody></table></div>\n"


def details(summary, content):
    return f"<details><summary>{escaped(summary)}</summary>\n{content}</details>\n"


def preformatted(text):
    return f'<div class="scroll"><pre>{escaped(text)}</pre></div>\n'


def figure(identity, title):
    """Returns the place of a chart, which page.js draws."""
    return f'<figure id="{identity}"><figcaption>{escaped(title)}</figcaption></figure>\n'


def section(identity, title, content):
    return f'<section id="{identity}"><h2>{escaped(title)}</h2>\n{content}</section>\n'

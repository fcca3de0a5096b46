# SPDX-License-Identifier: MIT
"""A page of tools/strata report, read by html.parser: its text, tables and data, and what it may not have."""
import base64
import hashlib
import html.parser
import json
import re

TAGS = set("html head meta title style body header nav main section figure figcaption h1 h2 h3 p ul li a div label input output button "
           "details summary noscript code pre table thead tbody tr th td script span".split())  # fmt: skip
ATTRIBUTES = set("charset class content hidden href http-equiv id lang max min name scope step title type value".split())
EMPTY = {"meta", "input"}
URL = re.compile(r".{,20}(https?:|@import|url\().{,20}", re.IGNORECASE)


class Page(html.parser.HTMLParser):
    """`tables` are lists of rows, which are lists of cells; `parts` are the contents of each kind of element, and `spans` the attributes of spans."""

    def __init__(self, text):
        super().__init__()
        self.source, self.complaints, self.open = text, [], []
        self.parts, self.tables, self.spans, self.policy, self.data = {}, [], [], "", None
        self.feed(text)
        self.close()
        self.complaints += [f"<{tag}> is not closed" for tag in self.open]
        self.check()

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.complaints += [f"<{tag}> is not allowed"] * (tag not in TAGS)
        self.complaints += [f"{name} of <{tag}> is not allowed" for name in attributes if name not in ATTRIBUTES]
        self.complaints += [f"{value} in <{tag}>" for value in attributes.values() if value and "://" in value]
        if not attributes.get("href", "#").startswith("#"):
            self.complaints.append(f"{attributes['href']} is not in the page")
        if attributes.get("http-equiv") == "Content-Security-Policy":
            self.policy = attributes["content"]
            self.complaints += ["a script comes before the policy"] * ("script" in self.parts)
        if tag == "span":
            self.spans.append(attributes)
        if tag == "table":
            self.tables.append([])
        if tag == "tr":
            self.tables[-1].append([])
        self.parts.setdefault("json" if attributes.get("id") == "data" else tag, []).append("")
        if tag not in EMPTY:
            self.open.append("json" if attributes.get("id") == "data" else tag)

    def handle_endtag(self, tag):
        found = self.open.pop() if self.open else "nothing"
        if tag != ("script" if found == "json" else found):
            self.complaints.append(f"</{tag}> closes <{found}>")
        if tag in ("td", "th"):
            self.tables[-1][-1].append(self.parts[tag][-1])

    def handle_data(self, data):
        for tag in set(self.open):
            self.parts[tag][-1] += data

    def handle_comment(self, data):
        self.complaints.append(f"a comment: {data[:40]}")

    def check(self):
        for kind in ("script", "style"):
            self.complaints += [f"an address in a {kind}: {found.group()!r}" for content in self.parts[kind] for found in URL.finditer(content)]
        directives = {words[0]: words[1:] for words in map(str.split, self.policy.split(";"))}
        for name, contents in (("script-src", self.parts["script"]), ("style-src", self.parts["style"])):
            wanted = ["'sha256-" + base64.b64encode(hashlib.sha256(content.encode()).digest()).decode() + "'" for content in contents]
            if directives.get(name) != wanted:
                self.complaints.append(f"{name} of the policy is {directives.get(name)}, expected {wanted}")
        if directives.get("default-src") != ["'none'"]:
            self.complaints.append("the policy lets other things be loaded")
        self.data = json.loads(self.parts["json"][0])

    def text(self):
        return "\n".join(self.parts["main"])

    def chart(self, identity):
        return next(chart for chart in self.data["charts"] if chart["id"] == identity)

    def table(self, *head):
        """Returns the rows of all tables with this head."""
        return [row for table in self.tables if tuple(table[0]) == head for row in table[1:]]

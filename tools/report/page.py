# SPDX-License-Identifier: MIT
"""Puts the sections, the charts and dygraphs together into one file that loads nothing."""
import base64
import hashlib
import json
import math
import os
import re

from bad_input import stop
from markup import escaped

HERE = os.path.dirname(os.path.abspath(__file__))
DYGRAPHS = os.environ.get("STRATA_DYGRAPHS") or "/usr/share/javascript/dygraphs"
LICENSE = "/usr/share/doc/libjs-dygraphs/copyright"
URL = re.compile(r"""\bhttps?:[^\s*"'`]*""")  # a quote ends it, so that code around it stays as it is


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def dygraphs():
    """Returns Debian's dygraphs with its license as a comment. The address of the license is taken out of it."""
    path = os.path.join(DYGRAPHS, "dygraph.min.js")
    if not os.path.isfile(path):
        stop(f"the charts are drawn by the Debian package libjs-dygraphs, which is not installed: there is no {path}; "
             "install it, or name its folder in STRATA_DYGRAPHS", 70)  # fmt: skip
    terms = read(LICENSE).replace("*/", "* /") if os.path.isfile(LICENSE) else "dygraphs has the MIT license."
    return URL.sub("", f"/*! {terms} */\n{read(path)}")


def source(content):
    """Returns a Content-Security-Policy source that allows exactly this script or style."""
    return "'sha256-" + base64.b64encode(hashlib.sha256(content.encode()).digest()).decode() + "'"


def as_data(value):
    """Returns JSON that cannot end the element it stands in."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return re.sub("[<>&]", lambda found: f"\\u{ord(found.group()):04x}", text)


def beginning():
    """Returns what each page begins with, and other files do not."""
    return read(HERE + "/page.html").partition("{{")[0]


def page(runs, charts, width, sections, reload=None):
    """Returns the HTML. `sections` are (identity, title, HTML). With `reload` the page loads itself again after `reload` seconds."""
    style, scripts = read(HERE + "/page.css"), [dygraphs(), read(HERE + "/page.js")]
    for script in scripts:
        if re.search(r"</script|<!--", script, re.IGNORECASE):
            raise ValueError("a script of the page would end its own element")
    policy = ["default-src 'none'", "script-src " + " ".join(map(source, scripts)), "style-src " + source(style), "base-uri 'none'",
              "form-action 'none'"]  # fmt: skip
    last = max((run.steps.steps[-1] for run in runs if run.steps.steps), default=0)
    data = {"runs": [run.name.encode(errors="replace").decode() for run in runs], "width": width, "last": last, "charts": charts}
    parts = {
        "policy": escaped("; ".join(policy)),
        "refresh": f'<noscript><meta http-equiv="refresh" content="{math.ceil(reload)}"></noscript>\n' if reload else "",
        "title": escaped(", ".join(run.name for run in runs)),
        "style": style,
        "links": "".join(f'<li><a href="#{identity}">{escaped(title)}</a></li>' for identity, title, _ in sections),
        "sections": "".join(content for _, _, content in sections),
        "data": as_data({**data, "reload": reload} if reload else data),
        "dygraphs": scripts[0],
        "script": scripts[1],
    }
    return re.sub(r"{{(\w+)}}", lambda found: parts[found.group(1)], read(HERE + "/page.html"))

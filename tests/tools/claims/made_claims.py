# SPDX-License-Identifier: MIT
"""Claims for tests, and a folder in which the command for claims runs a made-up tools/strata."""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCES = os.path.abspath("tools/claims")
sys.path[:0] = [SOURCES, os.path.dirname(SOURCES)]

import claims_file  # noqa: E402

# A tools/strata whose rows have the times of SLOW and FAST on MACHINE, and which fails as CODE says.
STRATA = """#!/bin/sh
echo x >> calls
if [ "$CODE" = hang ]; then sleep 600 & echo $! > sleeper; wait; fi
if [ "${CODE:-0}" != 0 ] && [ "$CODE" != 5 ]; then echo "this is why" >&2; exit "$CODE"; fi
while [ $# -gt 1 ]; do file=$2; shift; done
echo '{"level": "plain", '"${SETS:+\\"sets\\": $SETS, }"'"milliseconds": '$SLOW', "device": "'"$MACHINE"'"}' >> "$file"
echo '{"level": "cuda", "milliseconds": '$FAST', "milliseconds_p10": '$FAST', "milliseconds_p90": '${P90:-$FAST}'}' >> "$file"
echo '{"level": "triton", "not_timed": "the level does not agree"}' >> "$file"
exit "${CODE:-0}"
"""


def claim(name="speed", **others):
    return {"name": name, "claim": "A step is twice as fast.", "gpus": 0, "commands": {"step": "tools/strata bench step a.yaml"}, "unit": "times",
            "least": 2.0, "sum": ["milliseconds"], "baseline": {"rows": "step", "level": "plain"},
            "ours": {"rows": "step", "level": ["triton", "cuda"]},
            "measured": "not yet", **others}


class ClaimsTest(unittest.TestCase):
    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory())
        shutil.copytree(SOURCES, self.path("tools/claims"))
        for name in ("bad_input", "checked_values", "command_group", "gpus", "whole_file"):
            shutil.copy(os.path.join(os.path.dirname(SOURCES), name + ".py"), self.path("tools"))
        for folder in ("docs", "tools/bench"):
            os.mkdir(self.path(folder))
        self.write("tools/strata", STRATA)
        os.chmod(self.path("tools/strata"), 0o755)

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, text):
        with open(self.path(name), "wb") as file:
            file.write(text if isinstance(text, bytes) else text.encode())

    def read(self, name):
        with open(self.path(name), encoding="utf-8") as file:
            return file.read()

    def write_claims(self, *claims):
        self.write("tools/claims/claims.yaml", claims_file.text_of({"claims": list(claims), "refused": []}))

    def tree(self):
        return claims_file.read(self.path("tools/claims/claims.yaml"))

    def claims(self, *arguments, expect=0, **environment):
        """Runs the command; an error of its input is one line."""
        done = subprocess.run([sys.executable, "-B", self.path("tools/claims/main.py"), *arguments], capture_output=True, text=True, check=False,
                              cwd=self.folder, env={**os.environ, "SLOW": "9", "FAST": "3", "MACHINE": "a | machine", **environment})  # fmt: skip
        self.assertEqual(done.returncode, expect, done.stdout + done.stderr)
        self.assertNotIn("Traceback", done.stderr)
        if expect in (2, 3):
            self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        return done.stdout + (done.stderr if expect in (2, 3) else "")

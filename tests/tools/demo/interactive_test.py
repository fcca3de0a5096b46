# SPDX-License-Identifier: MIT
"""demo --interactive, driven through a pseudo terminal and through a pipe, with programs that print made-up facts and times."""
import os
import pty
import select
import signal
import subprocess
import sys
import tempfile
import termios
import time
import unittest

sys.path[:0] = [os.path.abspath("tools/demo"), os.path.abspath("tools")]

import interactive  # noqa: E402

FACTS = """#!/bin/bash
if (($# == 0)); then echo '{"ops": [{"op": "linear"}, {"op": "swiglu"}]}'; exit; fi
echo '{"op": "'$1'", "levels": [{"level": "aten", "absent": ""}, {"level": "torchscript", "absent": ""}, {"level": "cuda", "absent": "no GPU"}],'
echo '"shapes": [{"shape": "8x8"}, {"shape": "16x8"}]}'
"""
BENCH = """#!/bin/bash
echo "$*" >>"$CALLS"
[[ "$*" == *"--shape wrong"* ]] && { echo 'strata: --shape: expected another text' >&2; exit 2; }
while (($#)); do [[ $1 == --json ]] && path=$2; shift; done
cat >"$path" <<'ROWS'
{"level": "aten", "direction": "forward", "microseconds": 30}
{"level": "aten", "direction": "backward", "microseconds": 70}
{"level": "torchscript", "direction": "forward", "microseconds": 200}
{"level": "cuda", "not_timed": "it differs from fp64"}
ROWS
exit 5
"""
SCRIPT = "import sys; sys.path[:0] = ['tools/demo', 'tools']; import interactive, bad_input; interactive.ROOT = sys.argv[1]; bad_input.run(interactive.run_interactive)"
MAIN = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); sys.argv[1:] = ['--interactive']; import main; sys.exit(main.main())"


class InteractiveTest(unittest.TestCase):
    def setUp(self):
        self.root = tempfile.mkdtemp(dir=os.environ["TEST_TMPDIR"])
        for path, text in (("tools/explain/op_facts", FACTS), ("tools/bench/kernels/bench_kernels", BENCH)):
            path = f"{self.root}/bazel-bin/{path}"
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            os.chmod(path, 0o755)
        self.command = [sys.executable, "-B", "-c", SCRIPT, self.root]
        self.environment = {**os.environ, "CALLS": f"{self.root}/calls", "COLUMNS": "80", "LINES": "24", "TERM": "xterm"}

    def calls(self):
        with open(f"{self.root}/calls", encoding="utf-8") as file:
            return [line.split(" --json")[0] + line.partition("/rows")[2].rstrip() for line in file]

    def pipe(self, text):
        return subprocess.run(self.command, input=text, capture_output=True, text=True, env=self.environment, check=False)

    def test_bars(self):
        rows = [{"level": "a", "microseconds": 25}, {"level": "a", "microseconds": 25}, {"level": "b", "microseconds": 100}, {"level": "c", "not_timed": "no"}]
        lines = list(interactive.bars(rows, 70))
        self.assertEqual([line.count("#") for line in lines], [20, 40, 0])
        self.assertTrue(lines[0].endswith(" 50.0 us") and lines[2].endswith("not timed: no"), lines)

    def test_numbers_through_a_pipe(self):
        done = self.pipe("2\n1\n2\n")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(self.calls(), ["--op swiglu --dtype fp32 --shape 8x8 --level aten"])
        self.assertIn(f"aten          {'#' * 25} 100.0 us\n", done.stdout)
        self.assertIn(f"torchscript   {'#' * 50} 200.0 us\n", done.stdout)
        self.assertIn("cuda          not timed: it differs from fp64\n", done.stdout)
        self.assertNotIn("\x1b", done.stdout)

    def test_a_shape_of_ones_own(self):
        self.assertEqual(self.pipe("linear\n7x9->11\n1\n").returncode, 0)
        self.assertEqual(self.calls(), ["--op linear --dtype fp32 --shape 7x9->11"])

    def test_wrong_answers(self):
        for text, words in (("3\n", "op is '3', expected a number from 1 to 2"), ("1\n9\n", "or the text of a shape"), ("1\nwrong\n1\n", "expected another text")):
            done = self.pipe(text)
            self.assertEqual((done.returncode, done.stderr.count("\n")), (3, 1), done.stderr)
            self.assertIn(words, done.stderr)

    def test_the_end_of_the_input_leaves(self):
        self.assertEqual(self.pipe("").returncode, 0)

    def terminal(self, steps, number=None):
        """Types each key after its words have come, and sends a signal. Returns the exit code and the output; the terminal must be as before."""
        main, end = pty.openpty()
        before = termios.tcgetattr(end)
        with subprocess.Popen(self.command, stdin=end, stdout=end, stderr=end, env=self.environment, start_new_session=True) as process:
            try:
                output = self.typed(main, steps)
                if number:
                    self.assertNotEqual(termios.tcgetattr(end), before)
                    process.send_signal(number)
                code = process.wait(60)
            finally:
                process.kill()
        self.assertEqual(termios.tcgetattr(end), before)
        os.close(main)
        os.close(end)
        return code, output

    def typed(self, main, steps):
        output, seen, deadline = "", 0, time.monotonic() + 60
        for words, key in steps:
            while (place := output.find(words, seen)) < 0:
                self.assertLess(time.monotonic(), deadline, f"no {words!r} in {output!r}")
                if select.select([main], [], [], 0.1)[0]:
                    output += os.read(main, 4096).decode()
            seen = place + len(words)
            os.write(main, key.encode())
        return output

    def test_keys_in_a_terminal(self):
        code, output = self.terminal([("> linear", "\x1b[B"), ("> swiglu", "\r"), ("> 8x8", "\x1b[B"), ("> 16x8", "\r"), ("> all levels", "\r"),
                                      ("200.0 us", ""), ("> linear", "q")])  # fmt: skip
        self.assertEqual(code, 0, output)
        self.assertEqual(self.calls(), ["--op swiglu --dtype fp32 --shape 16x8"])
        self.assertIn("not timed: it differs from fp64", output)

    def test_a_narrow_terminal(self):
        """No line is wider, because it would be two, and the next list would be drawn over it."""
        self.environment.update(COLUMNS="7", LINES="2")
        code, output = self.terminal([("> line", "\x1b[B"), ("> swig", "\r"), ("> 8x8", "q")])
        self.assertEqual(code, 0)
        drawn = [line.split("\x1b[K")[-1] for line in output.split("\r\n") if "\x1b[K" in line]
        self.assertLess(max(map(len, drawn)), 7)
        self.assertNotIn("linear", output)

    def test_the_key_escape_takes_no_other_key(self):
        code, _ = self.terminal([("> linear", "\x1b"), ("> linear", "\x1b[B"), ("> swiglu", "q")])
        self.assertEqual(code, 0)

    def test_signals_leave_the_terminal_as_it_was(self):
        self.command = [sys.executable, "-B", "-c", SCRIPT.replace("bad_input.run(interactive.run_interactive)", MAIN), self.root]
        for number, expected in ((signal.SIGINT, 0), (signal.SIGTERM, 143), (signal.SIGHUP, 129)):
            code, output = self.terminal([("> linear", "")], number)
            self.assertEqual(code, expected, output)

    def test_keys_go_round(self):
        code, _ = self.terminal([("> linear", "\x1b[A"), ("> swiglu", "\x1b[B"), ("> linear", "q")])
        self.assertEqual(code, 0)


if __name__ == "__main__":
    unittest.main()

# SPDX-License-Identifier: MIT
"""The program checkpoint_process, and strace around a save of it."""

import os
import resource
import shutil
import subprocess

PROCESS = "tests/trainer/checkpoint/checkpoint_process"


class SavingProcess:
    """The program checkpoint_process. It answers each line with one line, and errors with one or more."""

    def __init__(self, **environment):
        if shutil.which("strace") is None:
            raise RuntimeError("this test needs strace: apt-get install strace")
        self.process = subprocess.Popen([PROCESS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, **environment})

    def ask(self, line):
        self.say(line)
        answer = self.answer()
        if answer.startswith("error"):
            # The text of an error may have several lines. They end where the answer to another line begins.
            self.say("end")
            while (more := self.answer()) != "error unknown command":
                answer += "\n" + more
        return answer

    def say(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError("checkpoint_process has ended")
        return line.rstrip("\n")

    def close(self):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()

    def traced(self, command, calls, trace, *options, most_bytes=None):
        """Returns the answers of the child under strace with these options. The calls are written to the file
        `trace`. No file of the child may become larger than `most_bytes`."""
        child = self.ask(command)
        pid = child.removeprefix("child ")
        if most_bytes is not None:
            resource.prlimit(int(pid), resource.RLIMIT_FSIZE, (most_bytes, most_bytes))
        strace = subprocess.Popen(["strace", "-f", "-p", pid, "-e", "trace=" + ",".join(calls), "-o", trace, *options],
                                  stderr=subprocess.PIPE, text=True)
        attached = strace.stderr.readline()
        if "attached" not in attached:
            subprocess.run(["kill", "-KILL", pid], check=True)
            strace.wait()
            raise RuntimeError("strace could not attach: " + attached)
        subprocess.run(["kill", "-CONT", pid], check=True)
        answers = [self.answer()]
        while not answers[-1].startswith(("exit", "signal")):
            answers.append(self.answer())
        strace.stderr.close()
        strace.wait()
        return answers

# SPDX-License-Identifier: MIT
"""Checks which failed runs the launcher starts again, how often, from where, and on which hosts, with fake ranks."""
import json
import os
import re
import signal
import subprocess
import time
import unittest

from fake_archive import FakeArchive, wait_for_words

# The last rank does the words of line K of `acts` in the K-th attempt. The last line holds for all later attempts.
TRAIN = r"""#!/bin/bash
rank=$OMPI_COMM_WORLD_RANK folder=$(sed -n 's/^run.folder: //p' "$1")
mkdir -p "$folder/checkpoints"
trap 'exit 75' USR1
if ((rank == OMPI_COMM_WORLD_SIZE - 1)); then
  echo "$OMPI_COMM_WORLD_SIZE ${*:2}" >>attempts
  echo "${OMPI_MCA_odls_base_sigkill_timeout:-usual}" >>kill_timeouts
  [[ ! -e $folder/.lock ]] || flock --nonblock "$folder/.lock" true || exit 4
  [[ $(<acts) == early* ]] || rm -f "$folder/error.json"
  number=$(wc -l <attempts) lines=$(wc -l <acts)
  for act in $(sed -n "$((number < lines ? number : lines))p" acts); do
    case $act in
      save=*) mkdir "$folder/checkpoints/step-${act#*=}" ;;
      remove=*) rmdir "$folder/checkpoints/step-${act#*=}" ;;
      report) cp report "$folder/error.json" ;;
      set_back) touch -d @1 "$folder/error.json" ;;  # the time of a report after the clock was set back
      gone=*) touch "${act#*=}.gone" ;;
      once=*) touch "${act#*=}.once" ;;
      back=*) rm "${act#*=}.gone" ;;
      die) kill -KILL $$ ;;
      crash) ulimit -c 0; kill -SEGV $$ ;;
      hold)
        setsid flock "$folder/.lock" bash -c 'touch held; until [[ -e released ]]; do sleep 0.05; done' </dev/null >/dev/null 2>&1 &
        until [[ -e held ]]; do sleep 0.05; done
        ;;
      leave) echo $$ >left; kill -KILL $PPID; exec /bin/sleep 300 ;;
      die_when_asked) trap 'kill -KILL $$' USR1; touch waits; while true; do sleep 0.05; done ;;
      exit=*) exit "${act#*=}" ;;
    esac
  done
fi
"""

# Records each pause of the launcher. The pause then takes as long as the file `pause` says.
SLEEP = r"""#!/bin/bash
[[ $1 == *.* ]] || { echo "$1" >>pauses; set -- "$(<pause)"; }
exec /bin/sleep "$1"
"""

# Replaces mpirun in tests of many starts: becomes the only rank.
MPIRUN = r"""#!/bin/bash
while [[ $1 != */bin/train ]]; do shift; done
OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=1 exec "$@"
"""

# The agent starts a daemon of mpirun on a host. All hosts are this machine. Those with a file HOST.gone are gone, and those
# with HOST.once after the next daemon.
AGENT = r"""#!/bin/bash
export TMPDIR=$PWD/tmp.$1  # daemons of one machine would make the same folders
mkdir -p "$TMPDIR"
[[ ! -e $1.gone ]] || exit 1
[[ ! -e $1.once ]] || mv "$1.once" "$1.gone"
exec sh -c "${*:2}"
"""


class RestartsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.archive = FakeArchive(os.path.join(os.environ["TEST_TMPDIR"], "restarts"))
        cls.archive.write("bin/train", TRAIN, 0o755)
        cls.archive.write("fake/sleep", SLEEP, 0o755)
        cls.archive.write("fake/agent", AGENT, 0o755)
        cls.archive.write("quick/mpirun", MPIRUN, 0o755)
        cls.environment = {"PATH": cls.archive.path("fake") + ":" + os.environ["PATH"]}
        cls.quick = {"PATH": cls.archive.path("quick") + ":" + cls.environment["PATH"]}

    def start(self, *acts, restarts, more=(), ranks=1, pause="0.01", arguments=(), environment=None, errors=subprocess.PIPE, report=None):
        """`report` is an error.json that an earlier command has left."""
        for name in ("attempts", "kill_timeouts", "pauses", "waits", "held", "released"):
            self.archive.write(name, "")
        for name in ("waits", "held", "released"):
            os.remove(self.archive.path(name))
        self.archive.write("acts", "\n".join(acts) + "\n")
        self.archive.write("pause", pause)
        config = self.archive.config(ranks=ranks, more=[f"run.restarts: {restarts}", *more])
        if report:
            self.archive.write("run/error.json", report)
        return self.archive.start("train", config, *arguments, environment={**self.environment, **(environment or {})}, errors=errors)

    def train(self, *acts, **options):
        """Returns (exit code, errors, the lines of restarts without their first word)."""
        process = self.start(*acts, **options)
        errors = process.communicate(timeout=120)[1]
        return process.returncode, errors, re.findall(r"^strata: (exit code .*)$", errors, re.MULTILINE)

    def attempts(self):
        """Returns the number of ranks and the overrides of each attempt, without those that each restart has."""
        first, *others = self.archive.read("attempts").splitlines()
        lines = [first]
        for line in others:
            ranks = line.split()[0]
            end = f"run.ranks={ranks} run.folder='{self.archive.path('run')}' run.overwrite=false"
            self.assertTrue(line.endswith(end), f"a restart may go elsewhere or clear the folder: {line}")
            lines.append(line.removesuffix(end).strip())
        return lines

    def pauses(self):
        return [int(pause) for pause in self.archive.read("pauses").split()]

    def kept(self):
        return sorted(name for name in os.listdir(self.archive.path("run")) if name.startswith("error"))

    def test_goes_on_after_failures_that_may_pass(self):
        report = {"code": 70, "rank": 3, "step": 7, "phase": "forward", "message": 'a "cause"\nof\ttwo \x1b lines', "hint": ""}
        self.archive.write("report", json.dumps(report))
        code, errors, lines = self.train("save=00000400 exit=7", "die", "report exit=70", "crash", "exit=0", restarts=4)
        self.assertEqual(code, 0, errors)
        self.assertIn("the results are in", errors)
        self.assertEqual(self.attempts(), ["1 ", *["1"] * 4])
        self.assertEqual(lines[0], "exit code 7; restart 1 of 4 (1 of 1000 in all) in 1 s, from step 400")
        self.assertRegex(lines[1], r"^exit code 137: rank 0 was killed on \S+ by SIGKILL: .*; restart 2 of 4 \(2 of 1000 in all\) in 2 s, from step 400$")
        self.assertEqual(lines[2], 'exit code 70: rank 3, step 7, forward: a "cause" of two ? lines; restart 3 of 4 (3 of 1000 in all) in 4 s, from step 400')
        self.assertRegex(lines[3], r"^exit code 139: rank 0 was killed on \S+ by SIGSEGV: .*; restart 4 of 4 \(4 of 1000 in all\) in 8 s, from step 400$")
        self.assertEqual(len(lines), 4)
        self.assertEqual(errors.count("was killed"), 2, "a cause is said once")
        self.assertEqual(self.kept(), ["error-1.json", "error-2.json", "error-3.json"], "an attempt has written no report")
        self.assertEqual(json.loads(self.archive.read("run/error-2.json")), report)

    def test_never_after_other_codes(self):
        for wanted in (1, 2, 3, 4, 5, 6, 75, 130, 134, 143):
            code, errors, lines = self.train(f"exit={wanted}", restarts=3, environment=self.quick)
            self.assertEqual((code, lines, len(self.attempts())), (wanted, [], 1), errors)

    def test_never_without_the_key(self):
        code, errors, lines = self.train("die", restarts=0)
        self.assertEqual((code, lines, len(self.attempts()), self.kept()), (137, [], 1, ["error.json"]))
        self.assertRegex(errors, r"by SIGKILL: .*; the same command goes on")  # memory_limit_test tests the cause

    def test_gives_up_after_so_many_without_a_new_checkpoint(self):
        code, errors, lines = self.train("save=00000400 die", "die", restarts=8, environment=self.quick)
        self.assertEqual((code, len(self.attempts())), (137, 9), errors)
        self.assertEqual(self.pauses(), [1, 2, 4, 8, 16, 32, 60, 60])
        self.assertIn("no restart any more: 8 in a row, as many as run.restarts allows, have made no new checkpoint\n", errors)
        self.assertTrue(errors.endswith("the same command goes on from the last checkpoint\n"), errors)
        self.assertEqual(self.kept(), [f"error-{number}.json" for number in range(1, 9)] + ["error.json"])

    def test_a_new_checkpoint_starts_the_count_anew(self):
        acts = ("die", "save=00000400 die", "save=123456789 die", "remove=123456789 save=00000500 die", "die")
        code, errors, lines = self.train(*acts, restarts=1, environment=self.quick)
        self.assertEqual(code, 137, errors)
        self.assertEqual(len(self.attempts()), 5)
        self.assertEqual(self.pauses(), [1, 1, 1, 1])
        self.assertEqual([re.search(r"restart .*", line).group() for line in lines], [
            f"restart 1 of 1 ({number} of 1000 in all) in 1 s, from step {step}" for number, step in ((1, 0), (2, 400), (3, 123456789), (4, 500))])

    def test_a_checkpoint_that_is_gone_is_no_new_one(self):
        code, errors, lines = self.train("save=00000400 save=00000500 die", "remove=00000500 die", "die", restarts=1, environment=self.quick)
        self.assertEqual((code, len(self.attempts())), (137, 2), errors)

    def test_a_command_makes_no_more_than_so_many(self):
        path = "tools/launcher/restarts.sh"
        script = self.archive.read(path)
        self.archive.write(path, script.replace("MOST_RESTARTS=1000\n", "MOST_RESTARTS=2\n"))
        try:
            code, errors, lines = self.train("save=00000001 die", "save=00000002 die", "save=00000003 die", restarts=1, environment=self.quick)
        finally:
            self.archive.write(path, script)
        self.assertEqual((code, len(self.attempts()), len(lines)), (137, 3, 2), errors)
        self.assertIn("restart 1 of 1 (2 of 2 in all)", lines[1])
        self.assertIn("no restart any more: there were 2, which is the limit of a command", errors)

    def test_only_the_first_start_may_replace_a_run(self):
        code, errors, _ = self.train("die", "exit=0", restarts=1, more=["run.overwrite: true"], arguments=["steps=4"], environment=self.quick)
        self.assertEqual(code, 0, errors)
        self.assertEqual(self.attempts(), ["1 steps=4"] * 2)

    def test_a_report_of_an_earlier_command_is_kept_and_no_cause(self):
        report = '{"rank": 0, "step": 2, "message": "of yesterday", "phase": "forward"}'
        code, errors, lines = self.train("early exit=7", "exit=0", restarts=1, environment=self.quick, report=report)
        self.assertEqual((code, lines), (0, ["exit code 7; restart 1 of 1 (1 of 1000 in all) in 1 s, from step 0"]), errors)
        self.assertIn("of yesterday", self.archive.read("run/error-1.json"))

    def test_a_report_is_the_cause_also_if_the_clock_was_set_back(self):
        report = {"code": 7, "rank": 3, "step": 7, "phase": "forward", "message": "a cause", "hint": ""}
        self.archive.write("report", json.dumps(report))
        code, errors, lines = self.train("report set_back exit=7", "report set_back die", restarts=1)
        self.assertEqual((code, lines), (137, ["exit code 7: rank 3, step 7, forward: a cause; restart 1 of 1 (1 of 1000 in all) in 1 s, from step 0"]), errors)
        self.assertNotIn("was killed", errors)
        for name in ("error-1", "error"):
            self.assertEqual(json.loads(self.archive.read(f"run/{name}.json")), report)

    def test_a_signal_in_a_pause_ends_the_command_at_once(self):
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            process = self.start("die", restarts=3, pause="100")
            wait_for_words(process, "restart 1 of 3")
            self.archive.wait_for("pauses")
            begin = time.monotonic()
            process.send_signal(number)
            errors = process.communicate(timeout=60)[1]
            self.assertEqual((process.returncode, len(self.attempts())), (75, 1), errors)
            self.assertLess(time.monotonic() - begin, 30)
            self.assertIn("stopped on request; the same command goes on from the last checkpoint", errors)

    def test_waits_for_a_rank_that_still_holds_the_folder(self):
        process = self.start("hold exit=7", "exit=0", restarts=1)
        wait_for_words(process, "run is still in use: waits at most 120 s until the ranks of the start before have ended\n")
        self.assertEqual(len(self.attempts()), 1)
        self.archive.write("released", "")
        errors = process.communicate(timeout=60)[1]
        self.assertEqual((process.returncode, len(self.attempts())), (0, 2), errors)

    def test_a_signal_ends_the_command_while_the_folder_is_in_use(self):
        process = self.start("hold exit=7", "exit=0", restarts=1)
        wait_for_words(process, "is still in use")
        process.terminate()
        errors = process.communicate(timeout=60)[1]
        self.archive.write("released", "")
        self.assertEqual((process.returncode, len(self.attempts())), (75, 1), errors)

    def test_words_that_cannot_be_printed_change_no_exit_code(self):
        with open("/dev/full", "w", encoding="utf-8") as full:
            process = self.start("die", restarts=1, environment=self.quick, errors=full)
            process.communicate(timeout=60)
        self.assertEqual((process.returncode, len(self.attempts())), (137, 2))

    def test_ranks_that_mpirun_has_left_are_ended(self):
        code, errors, lines = self.train("leave", "exit=0", restarts=1)
        self.assertEqual((code, len(lines), len(self.attempts())), (0, 1, 2), errors)
        left = f"/proc/{self.archive.read('left').strip()}/cmdline"  # what has ended but was not waited for has none
        self.assertFalse(os.path.exists(left) and open(left, encoding="utf-8").read(), "it would hold the folder of the run")

    def on_hosts(self, *acts, hosts="a:2,b:1,c:1", allowed="4 2 1", ranks=4, restarts=4):
        """Trains on names of this machine. The configuration allows the numbers of ranks in `allowed`."""
        check = self.archive.read("bin/check")
        allows = f'for word in "$@"; do case $word in run.ranks=*) [[ " {allowed} " == *" ${{word#*=}} "* ]] || exit 2 ;; esac; done\n'
        self.archive.write("bin/check", check.replace("\n", "\n" + allows, 1), 0o755)
        try:
            return self.train(*acts, restarts=restarts, ranks=ranks, arguments=["--hosts", hosts],
                              environment={"STRATA_MPIRUN_FLAGS": f"--mca plm_rsh_agent {self.archive.path('fake/agent')}"})
        finally:
            self.archive.write("bin/check", check, 0o755)
            for name in ("a.gone", "b.gone", "c.gone"):
                if os.path.exists(self.archive.path(name)):
                    os.remove(self.archive.path(name))

    def test_goes_on_without_a_host_that_is_gone(self):
        file = self.archive.write("hosts", "# the machines\n  a slots=2\n\nb slots = 1 # the second\nc slots=1")
        code, errors, _ = self.on_hosts("gone=b exit=7", "back=b gone=a exit=7", "back=a exit=7", "exit=0")
        self.assertEqual(code, 0, errors)
        self.assertEqual(self.attempts(), ["4 ", "2", "2", "4"])
        self.assertEqual(errors.count("cannot be reached"), 2, errors)
        self.assertIn("strata: b cannot be reached; goes on with 2 of 4 ranks on the other hosts\n", errors)
        self.assertIn("strata: a cannot be reached; goes on with 2 of 4 ranks on the other hosts\n", errors)
        code, errors, _ = self.on_hosts("gone=a exit=7", "exit=0", hosts=file)
        self.assertEqual((code, self.attempts()), (0, ["4 ", "2"]), errors)
        self.assertIn("strata: a cannot be reached; goes on with 2 of 4 ranks on the other hosts\n", errors)

    def test_only_a_rank_without_others_is_ended_at_once(self):
        code, errors, _ = self.on_hosts("gone=b exit=7", "back=b exit=7", "exit=0", hosts="a:1,b:1", ranks=2)
        self.assertEqual((code, self.attempts()), (0, ["2 ", "1", "2"]), errors)
        self.assertEqual(self.archive.read("kill_timeouts").split(), ["usual", "0", "usual"])

    def test_a_host_that_is_lost_before_the_ranks_start_is_another_failure(self):
        code, errors, lines = self.on_hosts("once=b exit=7", "exit=0")
        self.assertEqual((code, self.attempts()), (0, ["4 ", "2"]), errors)
        self.assertEqual(lines[1], "exit code 7; restart 2 of 4 (2 of 1000 in all) in 2 s, from step 0")

    def test_needs_fewer_ranks_only_if_the_other_hosts_have_fewer(self):
        code, errors, _ = self.on_hosts("gone=b gone=c exit=7", "exit=0", ranks=2)
        self.assertEqual((code, self.attempts()), (0, ["2 ", "2"]), errors)
        self.assertIn("strata: b, c cannot be reached; goes on with 2 of 2 ranks on the other hosts\n", errors)

    def test_waits_for_a_host_without_which_no_ranks_are_allowed(self):
        code, errors, lines = self.on_hosts("gone=c exit=7", allowed="4", restarts=2)
        self.assertEqual((code, len(self.attempts())), (7, 1), errors)
        reason = "c cannot be reached, and the configuration allows no number of ranks from 1 to 3"
        self.assertEqual(lines[1], f"exit code 7: {reason}; restart 2 of 2 (2 of 1000 in all) in 2 s, from step 0")
        self.assertTrue(errors.endswith(f"strata: {reason}; the same command goes on from the last checkpoint\n"), errors)
        code, errors, lines = self.on_hosts("gone=a gone=b gone=c exit=7", restarts=1)
        self.assertEqual((code, len(self.attempts())), (7, 1), errors)
        self.assertIn("strata: a, b, c cannot be reached, and --hosts has no other; the same command goes on", errors)
        report = self.archive.report()
        self.assertEqual((report["code"], report["rank"], report["message"]), (7, None, "a, b, c cannot be reached, and --hosts has no other"))

    def test_a_run_that_was_asked_to_stop_is_not_started_again(self):
        process = self.start("die_when_asked", restarts=3)
        self.archive.wait_for("waits")
        process.terminate()
        errors = process.communicate(timeout=60)[1]
        self.assertEqual((process.returncode, len(self.attempts())), (137, 1), errors)
        self.assertNotIn("restart", errors)


if __name__ == "__main__":
    unittest.main()

# SPDX-License-Identifier: MIT
"""Claims are run, judged, written and deleted; a command that fails says nothing of its claim."""
import datetime
import os
import signal
import subprocess
import sys
import time
import unittest

from made_claims import ClaimsTest, claim

NEEDS_GPUS = 1024  # more than any machine has


class CheckTest(ClaimsTest):
    def test_a_claim_that_holds(self):
        self.write_claims(claim())
        before = self.read("tools/claims/claims.yaml")
        self.assertIn("3 times", self.claims("check", "--turns", "2"))
        self.assertEqual(self.read("tools/claims/claims.yaml"), before, "without --update nothing is written")
        self.assertIn("1 holds", self.claims("check", "--turns", "2", "--update"))
        measured = self.tree()["claims"][0]["measured"]
        self.assertEqual(measured, [{"value": 3.0, "low": 3.0, "high": 3.0, "turns": 2, "date": datetime.date.today(), "machine": "a ? machine"}])
        self.assertIn("| 2 times | 3 times | - | holds | ", self.read("docs/claims.md"))
        self.assertIn("3 times", self.claims())

    def test_a_row_of_one_input_says_so_until_it_is_measured_anew(self):
        self.write_claims(claim())
        self.claims("check", "--turns", "1", "--update", SETS="1")
        self.assertEqual(self.tree()["claims"][0]["measured"][0]["sets"], 1)
        for words in (", 1 turn, one input, a ? machine |", "Rows with `one input` were measured before that"):
            self.assertIn(words, self.read("docs/claims.md"))
        self.claims("check", "--turns", "1", "--update", SETS="9")
        self.assertEqual(self.tree()["claims"][0]["measured"][0]["sets"], 9)
        self.assertNotIn("one input", self.read("docs/claims.md"))
        self.claims("check", "--turns", "1", "--update")
        self.assertNotIn("sets", self.tree()["claims"][0]["measured"][0])

    def test_a_claim_that_fails_is_refused_and_deleted(self):
        self.write_claims(claim(), claim("other", least=1.1))
        said = self.claims("check", "--turns", "1", expect=1, FAST="7")
        self.assertRegex(said, r"speed .* 1.286 times .* refused")
        self.assertEqual(len(self.tree()["claims"]), 2, "without --update nothing is deleted")
        said = self.claims("check", "--turns", "1", "--update", expect=1, FAST="7")
        self.assertIn("the claim speed is deleted, because it does not hold here", said)
        tree = self.tree()
        self.assertEqual([each["name"] for each in tree["claims"]], ["other"])
        self.assertEqual(tree["refused"][0]["measured"][0]["value"], 1.286)
        claims, refused = self.read("docs/claims.md").split("## Refused")
        self.assertNotIn("| `speed` |", claims)
        self.assertIn("| `speed` | A step is twice as fast. | CPU | 2 times | 1.286 times | - | refused | ", refused)
        self.assertIn("there is no claim speed; there are other", self.claims("check", "speed", expect=2))
        self.assertIn("\nrefused: speed\n", self.claims())

    def test_each_machine_keeps_its_result(self):
        self.write_claims(claim())
        self.claims("check", "--turns", "1", "--update")
        said = self.claims("check", "--turns", "1", "--update", MACHINE="H200", FAST="2")
        self.assertNotIn("was", said, "another machine has no result of before")
        first, second = self.tree()["claims"][0]["measured"]
        self.assertEqual([(each["machine"], each["value"]) for each in (first, second)], [("a ? machine", 3.0), ("H200", 4.5)])
        today = datetime.date.today().isoformat()
        self.assertIn(f" was 3 times here on {today}\n", self.claims("check", "--turns", "1", "--update", FAST="4"))
        again, other = self.tree()["claims"][0]["measured"]
        self.assertEqual((again["value"], other), (2.25, second))
        self.assertIn(f"| 2 times | 2.25 times | - | holds | {today}, 1 turn, a ? machine |\n"
                      f"|  |  |  |  | 4.5 times | - | holds | {today}, 1 turn, H200 |\n", self.read("docs/claims.md"))
        self.assertRegex(self.claims(), r"speed .* 2.25 times .* a \? machine\n\| speed .* 4.5 times .* H200\n")

    def test_one_machine_that_refuses_deletes_the_claim(self):
        self.write_claims(claim())
        self.claims("check", "--turns", "1", "--update")
        self.claims("check", "--turns", "1", "--update", expect=1, MACHINE="H200", FAST="7")
        tree = self.tree()
        self.assertEqual(tree["claims"], [])
        self.assertEqual([each["machine"] for each in tree["refused"][0]["measured"]], ["a ? machine", "H200"])

    def test_an_interval_around_the_claim_decides_nothing(self):
        self.write_claims(claim())
        said = self.claims("check", "--turns", "1", "--update", expect=8, FAST="4", P90="5")
        self.assertIn("2.25 times (1.8 to 2.25)", said)
        self.assertEqual(len(self.tree()["claims"]), 1)
        self.assertIn("| undecided | ", self.read("docs/claims.md"))

    def test_a_command_that_fails_is_no_refusal(self):
        self.write_claims(claim(), claim("same_command"), claim("missing", commands={"step": "python3 tools/bench/missing.py"}))
        before = self.read("tools/claims/claims.yaml")
        said = self.claims("check", "--update", expect=70, CODE="70", FAST="9")
        self.assertIn("tools/strata bench step a.yaml: exit code 70: this is why", said)
        self.assertIn("\n3 error\n", said)
        self.assertEqual(self.read("calls").count("x"), 1, "a command that failed is not run again")
        self.assertEqual(self.read("tools/claims/claims.yaml"), before)

    def test_rows_that_cannot_be_used_are_errors(self):
        self.write_claims(claim())
        for value in ("-3", "0", "NaN", "Infinity", '"3"', "true", "1" + "0" * 400, "{"):
            self.assertIn("1 error", self.claims("check", "--turns", "1", "--update", expect=70, FAST=value))
        self.write_claims(claim(ours={"rows": "step", "level": "triton"}))
        said = self.claims("check", "--turns", "1", expect=70)
        self.assertIn("no row has milliseconds for rows: step, level: triton; not timed: the level does not agree", said)

    def test_levels_that_are_not_proved_leave_the_others(self):
        self.write_claims(claim())
        self.assertIn("1 holds", self.claims("check", "--turns", "1", CODE="5"))

    def test_a_command_that_hangs_is_ended_with_its_programs(self):
        self.write_claims(claim())
        self.assertIn("it took more than 1 s", self.claims("check", "--limit", "1", expect=70, CODE="hang"))
        self.assert_ended()

    def test_an_interrupt_ends_the_command_that_runs(self):
        """Also one that comes while the command starts: some of these come before the program knows that it has started."""
        self.write_claims(claim())
        for number in (signal.SIGINT, signal.SIGHUP, *[signal.SIGTERM] * 6):
            process = subprocess.Popen([sys.executable, "-B", self.path("tools/claims/main.py"), "check"], env={**os.environ, "CODE": "hang"},
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip
            self.wait_for(lambda: os.path.exists(self.path("sleeper")) and self.read("sleeper").endswith("\n"))
            process.send_signal(number)
            self.assertEqual(process.wait(60), 128 + number)
            self.assert_ended()
            os.remove(self.path("sleeper"))

    def assert_ended(self):
        """A process that ended and that nobody waits for has no open files."""
        self.wait_for(lambda: not os.path.exists(f"/proc/{self.read('sleeper').strip()}/fd/1"))

    def wait_for(self, condition):
        deadline = time.monotonic() + 60
        while not condition():
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.0005)

    def test_what_this_machine_cannot_run_counts_as_neither(self):
        self.write_claims(claim(gpus=NEEDS_GPUS), claim("other"))
        said = self.claims("check", "--turns", "1", "--update", FAST="1")
        self.assertRegex(said, r"speed .* not run here \| needs 1024 GPUs, here are \d")
        self.assertIn("\n1 holds, 1 not run here\n", said)
        self.assertEqual(self.tree()["claims"][0]["measured"], "not yet")

    def test_claims_share_the_rows_of_a_command(self):
        self.write_claims(claim(), claim("other"))
        self.claims("check", "--turns", "3")
        self.assertEqual(self.read("calls").count("x"), 3)

    def test_programs_of_peers_print_their_rows(self):
        self.claim_with_peer('print("words")\nprint(\'{"level": "compile", "us": 6}\')\n')
        self.assertRegex(self.claims(), "torch.compile: not yet")
        self.assertRegex(self.claims("check", "--turns", "2", "--update"), r"speed .* torch.compile: 1 times")
        self.assertEqual(self.tree()["claims"][0]["measured"][0]["peer"], 1.0)

    def test_levels_of_a_peer_that_do_not_end_are_named(self):
        rows = 'print(\'{"level": "compile", "us": 6}\')\nprint(\'{"level": "tuned", "not_timed": "it took | 120 s"}\')\n'
        self.claim_with_peer(rows, ["compile", "tuned"])
        self.assertRegex(self.claims("check", "--turns", "2", "--update"), r"speed .* torch.compile: 1 times, without tuned: it took . 120 s [|] holds")
        (measured,) = self.tree()["claims"][0]["measured"]
        self.assertEqual((measured["peer"], measured["peer_without"]), (1.0, "tuned: it took ? 120 s"))
        self.assertIn("| torch.compile: 1 times, without tuned: it took ? 120 s | holds |", self.read("docs/claims.md"))
        self.claim_with_peer(rows)  # a level that the claim does not choose is not named
        self.assertRegex(self.claims("check", "--turns", "2"), r"torch.compile: 1 times +[|] holds")

    def claim_with_peer(self, program, levels="compile"):
        self.write("tools/bench/peer.py", program)
        ours, theirs = ({"rows": "peers", "level": level} for level in ("compile", levels))
        peer = {"name": "torch.compile", "sum": ["us"], "theirs": theirs, "ours": ours}
        self.write_claims(claim(commands={**claim()["commands"], "peers": "python3 tools/bench/peer.py --op a"}, peer=peer))

    def test_a_peer_that_fails_leaves_the_claim(self):
        row = 'print(\'{"level": "compile", "not_timed": "no | compiler"}\')\n'
        for program, why in (("raise SystemExit('no | compiler')\n", "exit code 1: no . compiler"), (row, "not timed: no . compiler"),
                             ("import time\ntime.sleep(600)\n", "it took more than 1 s")):
            self.claim_with_peer(program)
            said = self.claims("check", "--turns", "2", "--peer-limit", "1", "--update")
            self.assertRegex(said, rf"speed .* torch.compile: failed: .*{why}.* holds")
            (measured,) = self.tree()["claims"][0]["measured"]
            self.assertEqual((measured["value"], "peer" in measured), (3.0, False))
            self.assertRegex(self.read("docs/claims.md"), rf"[|] torch.compile: failed: .*{why} [|] holds [|]")

    def test_memory_of_validate(self):
        sides = {"baseline": {"rows": "a"}, "ours": {"rows": "b"}, "sum": ["most at once"], "unit": "percent less", "least": 50}
        self.write_claims(claim(commands={"a": "tools/strata validate x 1,000", "b": "tools/strata validate x 400"}, **sides))
        self.write("tools/strata", "#!/bin/sh\necho \"bytes per rank:\n  most at once      $3      1.00 MiB\"\n")
        self.assertIn("60 % less", self.claims("check"))

    def test_wrong_use(self):
        self.write_claims(claim())
        for arguments in (("walk",), ("check", "--turns", "0"), ("check", "--turns", "x"), ("check", "--limit", "nan"), ("check", "--limit", "inf"),
                          ("check", "nothing"), ("check", "--upd")):
            self.claims(*arguments, expect=2)


if __name__ == "__main__":
    unittest.main()

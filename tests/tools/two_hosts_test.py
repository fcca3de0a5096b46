# SPDX-License-Identifier: MIT
"""Runs on two simulated hosts: two network namespaces that are connected only by a pair of virtual Ethernet devices."""
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import unittest

from archive import SMALL, Archive

sys.path.insert(0, "tests/trainer")
from training_runs import expect_fault  # noqa: E402

NETWORK = "10.77.0.0/24"
ADDRESSES = ("10.77.0.1", "10.77.0.2")
ONE_EACH = ",".join(f"{address}:1" for address in ADDRESSES)
TIMEOUT = 10  # seconds of run.timeout, in which two ranks start on a busy machine
SLOW = ["fault={at: step 1 rank 0, kind: slow}"]  # so that a run is not over when the link goes down
# This script replaces ssh: it enters the network namespace of the given host.
AGENT = """#!/bin/sh
host=$1; shift
case $host in
  {0[0]}) exec ip netns exec {1[0]} sh -c "$*" ;;
  {0[1]}) exec ip netns exec {1[1]} sh -c "{2}$*" ;;
esac
echo "agent: unknown host $host" >&2; exit 1
"""


def ip(*arguments, check=True):
    subprocess.run(["ip", *arguments], check=check, stdout=subprocess.DEVNULL, stderr=None if check else subprocess.DEVNULL)


def can_make_namespaces():
    """Tries what the tests do. Root in a container often has no right to mount, which `ip netns exec` needs for /sys, or to
    make devices."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        return False
    name = f"strata-{os.getpid()}-trial"
    works = all(subprocess.run(["ip", *words], check=False, capture_output=True).returncode == 0
                for words in (["netns", "add", name], ["netns", "exec", name, "true"],
                              ["-n", name, "link", "add", "end-a", "type", "veth", "peer", "name", "end-b"]))
    ip("netns", "delete", name, check=False)
    return works


@unittest.skipUnless(can_make_namespaces(), "needs ip, and root with the rights to make network namespaces and devices, and to mount")
class TwoHostsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.archive = Archive(os.path.join(os.environ["TEST_TMPDIR"], "hosts"))
        cls.archive.prepare_small_text()
        cls.shorten_the_wait_for_other_hosts()
        cls.names = [f"strata-{os.getpid()}-{letter}" for letter in "ab"]
        cls.devices = devices = [f"strata{os.getpid() % 1000000}{letter}" for letter in "ab"]
        for name in cls.names:
            ip("netns", "add", name)
            cls.addClassCleanup(ip, "netns", "delete", name, check=False)  # also deletes its device
        ip("link", "add", devices[0], "type", "veth", "peer", "name", devices[1])
        for name, device, address in zip(cls.names, devices, ADDRESSES):
            ip("link", "set", device, "netns", name)
            ip("-n", name, "address", "add", f"{address}/24", "dev", device)
            ip("-n", name, "link", "set", device, "up")
            ip("-n", name, "link", "set", "lo", "up")
        cls.on_two_hosts = cls.options()

    @classmethod
    def shorten_the_wait_for_other_hosts(cls):
        """When the ranks of its machine have ended, the launcher waits so much longer for the others than it takes here."""
        path = cls.archive.path("tools/launcher/ranks.sh")
        with open(path, encoding="utf-8") as file:
            script = file.read()
        assert "SECONDS_ALONE=20 " in script
        with open(path, "w", encoding="utf-8") as file:
            file.write(script.replace("SECONDS_ALONE=20 ", "SECONDS_ALONE=6 "))

    @classmethod
    def options(cls, first_on_second_host=""):
        """Returns the options of a command that runs on both hosts. Before its ranks, this command runs on the second host."""
        agent = cls.archive.path("agent")
        with open(agent, "w", encoding="utf-8") as file:
            file.write(AGENT.format(ADDRESSES, cls.names, first_on_second_host))
        os.chmod(agent, 0o755)
        return {"before": ("ip", "netns", "exec", cls.names[0]),
                "environment": {"STRATA_FAULTS": "1", "STRATA_MPIRUN_FLAGS": f"--mca plm_rsh_agent {agent} --mca oob_tcp_if_include {NETWORK} "
                                                       f"--mca btl_tcp_if_include {NETWORK} --mca btl tcp,self"}}

    def arguments(self, folder, ranks, *more):
        return ["train", "configs/quickstart.yaml", *SMALL, f"run.folder={folder}", f"run.ranks={ranks}", *more]

    def bytes_sent(self):
        """Returns the bytes that were sent between the two hosts so far."""
        link = subprocess.run(["ip", "-n", self.names[0], "-s", "-o", "link", "show", "type", "veth"], check=True, capture_output=True, text=True)
        return int(link.stdout.split("TX:")[1].split("\\")[1].split()[0])

    def compare(self, slots):
        ranks = sum(slots)
        hosts = ",".join(f"{address}:{count}" for address, count in zip(ADDRESSES, slots))
        words, code = self.archive.run(*self.arguments(f"runs/one{ranks}", ranks, "steps=4"))
        self.assertEqual(code, 0, words)
        before = self.bytes_sent()
        words, code = self.archive.run(*self.arguments(f"runs/two{ranks}", ranks, "steps=4", "--hosts", hosts), **self.on_two_hosts)
        self.assertEqual(code, 0, words)
        self.assertGreater(self.bytes_sent() - before, 100_000, "the ranks did not talk over the wire")
        self.assertEqual(self.archive.losses(f"runs/two{ranks}"), self.archive.losses(f"runs/one{ranks}"))
        self.assertEqual(len(self.archive.losses(f"runs/two{ranks}")), 4)

    def test_one_and_one(self):
        self.compare((1, 1))

    def test_two_and_one(self):
        self.compare((2, 1))

    def test_hosts_file(self):
        with open(self.archive.path("hosts"), "w", encoding="utf-8") as file:
            file.writelines(f"{address} slots=1\n" for address in ADDRESSES)
        words, code = self.archive.run(*self.arguments("runs/file", 2, "steps=2", "--hosts", "hosts"), **self.on_two_hosts)
        self.assertEqual(code, 0, words)

    def start(self, folder, *more):
        """Starts a run on both hosts, and waits until it trains."""
        process = self.archive.start(*self.arguments(folder, 2, *more, "--hosts", ONE_EACH), **self.on_two_hosts)
        self.wait_for_steps(process, folder, 3)
        return process

    def wait_for_steps(self, process, folder, count):
        """Waits until the run has trained `count` steps since it began."""
        metrics, end = self.archive.path(folder + "/metrics.jsonl"), time.monotonic() + 120
        while not (os.path.exists(metrics) and len(self.archive.losses(folder)) >= count):
            self.assertIsNone(process.poll())
            self.assertLess(time.monotonic(), end, "the run does not train")
            time.sleep(0.1)

    def set_link(self, state):
        ip("-n", self.names[0], "link", "set", self.devices[0], state)

    def reconnect(self):
        """Ends when the hosts reach each other again: a host that did not answer is remembered for some seconds."""
        self.set_link("up")
        for name, device in zip(self.names, self.devices):
            while "LOWER_UP" not in subprocess.run(["ip", "-n", name, "link", "show", device], check=True, capture_output=True, text=True).stdout:
                time.sleep(0.05)
            ip("-n", name, "neighbor", "flush", "dev", device)

    def ranks_on_second_host(self):
        processes = subprocess.run(["ip", "netns", "pids", self.names[1]], check=True, capture_output=True, text=True).stdout.split()
        names = subprocess.run(["ps", "-o", "comm=", "-p", ",".join(processes)], check=False, capture_output=True, text=True).stdout
        return names.split().count("train")

    def test_a_link_that_comes_back_costs_only_time(self):
        words, code = self.archive.run(*self.arguments("runs/one-link", 2, "steps=20"))
        self.assertEqual(code, 0, words)
        process = self.start("runs/link", "steps=20", *SLOW)
        for seconds in (0.2, 2, 1):
            self.wait_for_steps(process, "runs/link", len(self.archive.losses("runs/link")) + 2)
            self.set_link("down")
            time.sleep(seconds)
            self.set_link("up")
        words = process.communicate(timeout=240)[0]
        self.assertEqual(process.returncode, 0, words)
        self.assertEqual(self.archive.losses("runs/link"), self.archive.losses("runs/one-link"))

    def test_a_link_that_stays_away_ends_the_run_which_goes_on_later(self):
        words, code = self.archive.run(*self.arguments("runs/one-away", 2, "steps=20"))
        self.assertEqual(code, 0, words)
        steps = ["steps=20", "checkpoint.every=2", f"run.timeout={TIMEOUT}"]
        process = self.start("runs/away", *steps, *SLOW)
        self.assertEqual(self.ranks_on_second_host(), 1)
        self.set_link("down")
        self.addCleanup(self.set_link, "up")
        begin = time.monotonic()
        words = process.communicate(timeout=100)[0]
        expect_fault(self, "a link that stays away", 7, process.returncode, words)
        self.assertLess(time.monotonic() - begin, TIMEOUT + 21, words)
        self.assertIn("mpirun has waited 6 s for other hosts", words)
        with open(self.archive.path("runs/away/error.json"), encoding="utf-8") as file:
            report = json.load(file)
        self.assertEqual(report["code"], 7)
        self.assertRegex(report["message"], "^(all )?ranks.* did not end within .* s: rank [01] did not answer")
        self.assertEqual(self.ranks_on_second_host(), 0)
        self.reconnect()
        words, code = self.archive.run(*self.arguments("runs/away", 2, *steps, "--hosts", ONE_EACH), **self.on_two_hosts)
        self.assertEqual(code, 0, words)
        self.assertIn("resumed from step", words)
        self.assertEqual(self.archive.losses("runs/away"), self.archive.losses("runs/one-away"))

    def test_stops_on_both(self):
        process = self.start("runs/stop", "steps=100000")
        process.send_signal(signal.SIGTERM)
        words = process.communicate(timeout=60)[0]
        self.assertEqual(process.returncode, 75, words)
        self.assertTrue(os.listdir(self.archive.path("runs/stop/checkpoints")))

    def test_a_disk_of_its_own_on_one_host_is_refused(self):
        folder = self.archive.path("runs/apart")
        os.makedirs(folder)
        self.addCleanup(self.options)  # the other tests have one disk on both hosts
        options = self.options(f"mount -t tmpfs none {folder} && ")  # `ip netns exec` makes mounts that only its command sees
        words, code = self.archive.run(*self.arguments(folder, 2, "steps=2", "--hosts", ONE_EACH), **options)
        self.assertEqual(code, 4, words)
        self.assertRegex(words, rf"run\.folder {folder}: rank 1 on host \S+ does not find the file that rank 0 on host \S+ has just written there")
        self.assertFalse(os.path.exists(folder + "/metrics.jsonl"))

    def test_unknown_host(self):
        words, code = self.archive.run(*self.arguments("runs/none", 2, "steps=2", "--hosts", f"{ADDRESSES[0]}:1,10.77.0.9:1"), **self.on_two_hosts)
        self.assertNotEqual(code, 0)
        self.assertIn("unknown host 10.77.0.9", words)


if __name__ == "__main__":
    unittest.main()

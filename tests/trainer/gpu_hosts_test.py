# SPDX-License-Identifier: MIT
"""NCCL between hosts, on the GPUs of one machine: ranks that give different names of hosts exchange data over sockets."""

import os
import signal
import time
import unittest

from training_runs import DEVICE, MOST_RANKS, TrainingRuns, rank_processes

RANKS = MOST_RANKS
BATCH = 8 * RANKS  # one micro-batch per rank
BFLOAT16 = "precision={compute: bfloat16, reduce: float32}"
SOCKETS = {"NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1", "NCCL_SOCKET_IFNAME": "lo", "NCCL_NET": "Socket", "NCCL_DEBUG": "INFO"}
ENDLESS = ["cuda_graph=on", "steps=100000", "schedule={type: constant}", "evaluation={every: 0}", BFLOAT16]


@unittest.skipUnless(DEVICE == "cuda" and RANKS > 1, "needs STRATA_TEST_DEVICE=cuda and two GPUs")
class GpuHostsTest(TrainingRuns):
    def over_hosts(self, ranks_of_host=1):
        """Options of a run whose hosts have `ranks_of_host` ranks each."""
        name = "NCCL_HOSTID=host-$((OMPI_COMM_WORLD_RANK / %d)) exec \"$@\"" % ranks_of_host
        return {"ranks": RANKS, "batch": BATCH, "environment": SOCKETS, "under": ["sh", "-c", name, "sh"]}

    def expect_the_run_of_one_host(self, run, *overrides, ranks_of_host=1):
        self.train(run + "-on-one-host", BFLOAT16, *overrides, ranks=RANKS, batch=BATCH)
        self.train(run, BFLOAT16, *overrides, **self.over_hosts(ranks_of_host))
        self.assertIn("NET/Socket", self.output + self.errors)
        self.expect_same_losses(run, run + "-on-one-host")

    def test_every_strategy_trains_as_on_one_host(self):
        for strategy in ("full", "none"):
            for graph in ("off", "on"):
                with self.subTest("%s, graph %s" % (strategy, graph)):
                    self.expect_the_run_of_one_host("%s-%s" % (strategy, graph), "sharding.strategy=" + strategy, "cuda_graph=" + graph)

    def test_shards_inside_of_a_host_and_replicas_across(self):
        shards = max(RANKS // 2, 1)
        self.expect_the_run_of_one_host("hybrid", "sharding.strategy=hybrid", "sharding.shard_ranks=%d" % shards, ranks_of_host=shards)

    def test_a_checkpoint_of_several_hosts_goes_on_on_one_and_back(self):
        self.train("whole", BFLOAT16, ranks=RANKS, batch=BATCH)
        for last, options in ((5, self.over_hosts()), (10, {"ranks": RANKS, "batch": BATCH}), (20, self.over_hosts())):
            self.train("travels", BFLOAT16, "run.stop_after=%d" % last, **options)
        self.assertIn("resumed from step 10", self.output)
        self.expect_same_losses("travels", "whole")

    def test_a_rank_that_dies_ends_the_run_on_all_hosts(self):
        process = self.start("killed", *ENDLESS, **self.over_hosts())
        self.wait_for_a_step(process, "killed")
        begin = time.monotonic()
        os.kill(rank_processes(process.pid)[RANKS - 1], signal.SIGKILL)
        output, errors = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 137, output + errors)
        self.assertLess(time.monotonic() - begin, 10)

    def test_a_rank_that_hangs_is_named(self):
        process = self.start("hung", *ENDLESS, "run.timeout=15", **self.over_hosts())
        self.wait_for_a_step(process, "hung")
        begin = time.monotonic()
        os.kill(rank_processes(process.pid)[RANKS - 1], signal.SIGSTOP)
        output, errors = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 7, output + errors)
        self.assertLess(time.monotonic() - begin, 25)
        self.assertRegex(self.error("hung")["message"], "rank %d did not answer" % (RANKS - 1))

    def test_copy_engines_are_refused_between_hosts(self):
        self.train("copied", "sharding.gather=copy_engines", expect=2, **self.over_hosts())
        self.assertIn("are on different hosts; choose separate or shared", self.errors)


if __name__ == "__main__":
    unittest.main()

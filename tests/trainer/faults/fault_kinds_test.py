# SPDX-License-Identifier: MIT
"""Counts the kinds of faults that tests inject, each with the exit code that the test expects, and compares the number
with the scorecard of docs/faults.md. Faults of GPUs are not among them."""

import collections
import os
import re
import sys
import unittest

sys.path.insert(0, "tests")

import sources  # noqa: E402

# Of each test: the case (or the helper of cases) that expects the exit code, the code, and what injects each kind.
KINDS = {
    "tests/sharding/fault_test.cc": [
        ("IsNamedWithinASecond", 7, ['"skip"', '"resize"', '"reorder"', '"dtype"', '"counts"', '"late_fewer"']),
        ("RanksOfDifferentGroups", 7, ['"groups"']),
        ("ARankThatNeverStartsIsMissed", 7, ['"start"']),
        ("IsNamedAfterTheTimeout", 7, ['{"late_stop", 0}', '{"late_hang", 1}']),
        ("KilledRankTakesAllWithIt", 137, ['"late_kill"']),
        ("EarlyExitOfARankEndsAll", 7, ['"late_exit"']),
        ("ARankThatEndsMpiBeforeTheOthers", 7, ['"late_finalize"']),
        ("ARankThatFailsAfterTheEndOfMpi", 4, ['"afterwards"']),
        ("TheFirstCauseIsReported", 3, ['"late_error"']),
        ("AnErrorOfMpiWhileARankComputes", 7, ['"late_long_question"']),
        ("CrashesNameRankStepAndPhase", 139, ['"late_segfault"', '"late_overflow"']),
        ("CrashesNameRankStepAndPhase", 134, ['"late_abort"']),
    ],
    "tests/trainer/unequal_ranks_test.py": [
        ("refused", 2, ['"batch":', '"steps":', '"seed":', '"dtype":', '"width of the model":', '"optimizer":', '"level of the kernels":', '"sharding":',
                        '("vision", "train.images"', '("language", "train.bin"']),
    ],
    "tests/trainer/storage_faults_test.py": [
        ("test_a_checkpoint_that_could_not_be_read_is_not_given_up", 4, [
            '(manifest, "openat:error=EIO"', '(manifest, "openat:error=ESTALE"', '(manifest, "openat:error=EMFILE"', '(manifest, "newfstatat:error=EIO"',
            '(manifest, "pread64:error=EIO"', '(manifest, "pread64:error=ESTALE"', '(other, "openat:error=EIO"', '(other, "openat:error=ESTALE"',
            '(other, "openat:error=EMFILE"', '(other, "pread64:error=EIO:when=1"', '(other, "pread64:error=ESTALE:when=1"', '(folder, "openat:error=EMFILE"',
            '(folder, "getdents64:error=EIO"', '(checkpoints, "openat:error=EIO:when=2"']),
        ("test_a_checkpoint_that_must_be_there", 4, ["checkpoint.resume=require"]),
    ],
    "tests/trainer/disk_full_test.py": [
        ("test_three_failed_saves_in_a_row_stop_the_run_and_lose_nothing", 4, ["self.fill()"]),
        ("test_a_disk_that_is_read_only_is_refused_at_the_start", 4, ['"remount,ro"']),
    ],
    "tests/trainer/unshared_folder_test.py": [("refused", 4, ["OWN_DISK % "])],
    "tests/trainer/faults/pairs_of_runs_test.py": [("pair", 4, ["test_one_of_two_runs_trains"])],
    "tests/trainer/training_test.py": [
        ("test_a_gradient_that_is_not_finite_stops_the_run_and_is_named", 5, [": nan}"]),
        ("test_a_collective_too_many_names_both_sides", 7, [": extra_collective}"]),
        ("test_an_exception_is_the_first_cause", 70, [": exception}"]),
        ("test_a_stop_request_saves_and_the_run_goes_on", 75, ["one rank is asked, and all stop"]),
        ("test_data_that_cannot_be_used", 3, ["/foreign.bin", "/missing.bin", "data.train_labels=", 'os.truncate(self.data + "/validation.images"']),
        ("test_a_token_file_that_shrinks_while_training", 3, ['os.truncate(self.data + "/train.bin"']),
        ("test_gpus_that_are_not_there_are_refused_before_the_first_collective", 2, ['"CUDA_VISIBLE_DEVICES": ""']),
        ("test_a_run_folder_that_is_a_file_is_refused", 4, ['open(self.path("file"), "w"']),
    ],
    "tests/trainer/nonfinite_training_test.py": [
        ("test_a_loss_that_is_not_finite_counts_though_the_gradients_are", 5, ["nan_loss"]),
        ("test_a_fault_that_stays_stops_the_run_and_the_next_start_resumes", 5, ["stays: true"]),
        ("test_a_run_that_has_lost_its_checkpoints_does_not_begin_anew", 4, ["shutil.rmtree(checkpoints)"]),
    ],
    "tests/trainer/precision/float16_training_test.py": [("test_what_no_scale_helps_ends_the_run", 5, [": nan_weights}"])],
    "tests/trainer/refused_start_test.py": [
        ("test_memory_that_no_host_has", 6, ["HUGE"]),
        ("test_memory_beyond_a_limit_of_the_address_space", 6, ["ulimit -v"]),
        ("test_memory_that_torchscript_asks_for", 6, ["kernels.default=torchscript"]),
    ],
    "tests/trainer/start_test.py": [("test_only_a_tokenizer_is_copied_into_the_folder", 4, ["os.symlink(secret, tokenizer)", "os.mkfifo(tokenizer)"])],
    "tests/trainer/gpus/refused_gpus_test.py": [("refusal", 2, ["test_a_gpu_that_is_too_old", "test_gpus_of_two_kinds"])],
    "tests/trainer/data/image_folder_test.py": [
        ("test_a_failure_of_the_storage_is_no_bad_image", 4, ['"openat:error=EMFILE"', '"openat:error=EIO"', '"read:error=EIO"', '"read:error=ESTALE"']),
        ("test_folders_that_do_not_fit", 3, ['os.symlink("loop"']),
    ],
    "tests/tools/launcher_signals_test.py": [
        ("test_signals_become_a_clean_stop", 75, ["signal.SIGTERM", "signal.SIGINT", "signal.SIGHUP"]),
        ("test_second_control_c_ends_at_once", 130, ["Ctrl-C once more"]),
    ],
    "tests/tools/memory_limit_test.py": [("test_the_kernel_is_named", 137, ['act="eat"'])],
    "tests/tools/two_hosts_test.py": [("test_a_link_that_stays_away_ends_the_run_which_goes_on_later", 7, ['self.set_link("down")'])],
}

ROW = re.compile(r"^\| kinds of faults .* \| (\d+) \| (\d+), with the exit codes ([\d, ]+) and (\d+) \|", re.MULTILINE)


def read(path):
    with open(os.path.join(sources.root(), path), encoding="utf-8") as file:
        return file.read()


def case_of(text, name):
    """Returns the text of the function whose first line has the name."""
    begins = [match.start() for match in re.finditer(r"^(?:TEST\w*\(|    def )", text, re.MULTILINE)] + [len(text)]
    return "".join(text[begin:end] for begin, end in zip(begins, begins[1:]) if name in text[begin:].partition("\n")[0])


def missing(text, cases):
    """Yields what a test does not have."""
    for name, code, kinds in cases:
        if not re.search(r"(?<![\d.])%d(?![\d.])" % code, case_of(text, name)):
            yield "no case %s that expects exit code %d" % (name, code)
        yield from ("nothing that injects %s" % kind for kind in kinds if kind not in text)


class FaultKindsTest(unittest.TestCase):
    def test_each_kind_is_in_its_test(self):
        for path, cases in KINDS.items():
            self.assertEqual(list(missing(read(path), cases)), [], path)

    def test_a_kind_or_a_code_that_is_gone_is_named(self):
        text = 'TEST(Fault, Ends) {\n  Job job("kill");\n  EXPECT_EQ(job.wait(), 137);\n}\nTEST(Fault, Waits) {\n  EXPECT_EQ(job.wait(), 7);\n}\n'
        self.assertEqual(list(missing(text, [("Ends", 137, ['"kill"']), ("Waits", 7, [])])), [])
        self.assertEqual(list(missing(text, [("Ends", 7, ['"stop"'])])), ["no case Ends that expects exit code 7", 'nothing that injects "stop"'])

    def test_the_scorecard_has_their_number(self):
        numbers = collections.Counter()
        for cases in KINDS.values():
            for _, code, kinds in cases:
                numbers[code] += len(set(kinds))
        print("kinds of faults by exit code:", dict(sorted(numbers.items())), "together", sum(numbers.values()))
        row = ROW.search(read("docs/faults.md"))
        self.assertIsNotNone(row, "docs/faults.md has no such row")
        goal, number, codes, last = row.groups()
        self.assertEqual(int(number), sum(numbers.values()))
        self.assertGreaterEqual(int(number), int(goal))
        self.assertEqual([*map(int, codes.split(", ")), int(last)], sorted(numbers))


if __name__ == "__main__":
    unittest.main()

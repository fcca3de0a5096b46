# SPDX-License-Identifier: MIT
"""Counts the kinds of faults that tests have seen, each with its exit code, from what they printed when they ran last:

    .venv/bin/python tests/trainer/faults/fault_kinds.py --test     # runs them first
    .venv/bin/python tests/trainer/faults/fault_kinds.py

A test prints `fault: KIND, CODE` after a run with this kind of fault has ended with this exit code. A case that was skipped, or that does
not inject the fault any more, prints nothing, so its kind is missing. Faults of GPUs are not among them."""

import argparse
import collections
import os
import re
import subprocess
import sys

# Of each test: the cases (or the helper of cases) that see the faults, and the kinds by exit code.
KINDS = {
    "tests/sharding/fault_test.cc": {
        "IsNamedWithinASecond": {7: ["skip", "resize", "reorder", "dtype", "counts", "fewer"]},
        "RanksOfDifferentGroups": {7: ["groups"]},
        "ARankThatNeverStartsIsMissed": {7: ["start"]},
        "IsNamedAfterTheTimeout": {7: ["stop", "hang"]},
        "KilledRankTakesAllWithIt": {137: ["kill"]},
        "EarlyExitOfARankEndsAll": {7: ["exit"]},
        "ARankThatEndsMpiBeforeTheOthers": {7: ["finalize"]},
        "ARankThatFailsAfterTheEndOfMpi": {4: ["afterwards"]},
        "TheFirstCauseIsReported": {3: ["error"]},
        "AnErrorOfMpiWhileARankComputes": {7: ["long_question"]},
        "CrashesNameRankStepAndPhase": {139: ["segfault", "overflow"], 134: ["abort"]},
    },
    "tests/trainer/unequal_ranks_test.py": {
        "refused": {2: ["ranks differ in " + what for what in (
            "batch", "steps", "seed", "dtype", "width of the model", "optimizer", "level of the kernels", "sharding", "data of vision", "data of language")]},
    },
    "tests/trainer/storage_faults_test.py": {
        "test_a_checkpoint_that_could_not_be_read_is_not_given_up": {4: [
            *("%s of manifest.json" % call for call in (
                "openat:error=EIO", "openat:error=ESTALE", "openat:error=EMFILE", "newfstatat:error=EIO", "pread64:error=EIO", "pread64:error=ESTALE")),
            *("%s of rank-00001.safetensors" % call for call in (
                "openat:error=EIO", "openat:error=ESTALE", "openat:error=EMFILE", "pread64:error=EIO", "pread64:error=ESTALE")),
            "openat:error=EMFILE of step-00000010", "getdents64:error=EIO of step-00000010", "openat:error=EIO of checkpoints"]},
        "test_a_checkpoint_that_must_be_there": {4: ["no checkpoint where one must be"]},
    },
    "tests/trainer/disk_full_test.py": {
        "test_three_failed_saves_in_a_row_stop_the_run_and_lose_nothing": {4: ["full disk"]},
        "test_a_disk_that_is_read_only_is_refused_at_the_start": {4: ["read-only disk"]},
    },
    "tests/trainer/unshared_folder_test.py": {"refused": {4: ["folder of another disk"]}},
    "tests/trainer/faults/pairs_of_runs_test.py": {"pair": {4: ["two runs in one folder"]}},
    "tests/trainer/training_test.py": {
        "test_a_gradient_that_is_not_finite_stops_the_run_and_is_named": {5: ["NaN in a gradient"]},
        "test_a_collective_too_many_names_both_sides": {7: ["a collective too many"]},
        "test_an_exception_is_the_first_cause": {70: ["exception"]},
        "test_a_stop_request_saves_and_the_run_goes_on": {75: ["SIGUSR1 to one rank"]},
        "test_data_that_cannot_be_used": {3: ["tokens of another vocabulary", "missing token file", "images in the place of labels", "truncated images"]},
        "test_a_token_file_that_shrinks_while_training": {3: ["a token file shrinks"]},
        "test_gpus_that_are_not_there_are_refused_before_the_first_collective": {2: ["no GPU"]},
        "test_a_run_folder_that_is_a_file_is_refused": {4: ["a file in the place of the folder"]},
    },
    "tests/trainer/nonfinite_training_test.py": {
        "test_a_loss_that_is_not_finite_counts_though_the_gradients_are": {5: ["NaN in the loss"]},
        "test_a_fault_that_stays_stops_the_run_and_the_next_start_resumes": {5: ["a NaN that stays"]},
        "test_a_run_that_has_lost_its_checkpoints_does_not_begin_anew": {4: ["the checkpoints are removed"]},
    },
    "tests/trainer/precision/float16_training_test.py": {"test_what_no_scale_helps_ends_the_run": {5: ["NaN in the weights"]}},
    "tests/trainer/refused_start_test.py": {
        "test_memory_that_no_host_has": {6: ["memory that no host has"]},
        "test_memory_beyond_a_limit_of_the_address_space": {6: ["limit of the address space"]},
        "test_memory_that_torchscript_asks_for": {6: ["memory that torchscript asks for"]},
    },
    "tests/trainer/start_test.py": {
        "test_only_a_tokenizer_is_copied_into_the_folder": {4: ["a tokenizer that is a symbolic link", "a tokenizer that is a pipe"]},
    },
    "tests/trainer/gpus/refused_gpus_test.py": {
        "test_a_gpu_that_is_too_old": {2: ["a GPU that is too old"]},
        "test_gpus_of_two_kinds": {2: ["GPUs of two kinds"]},
    },
    "tests/trainer/data/image_folder_test.py": {
        "test_a_failure_of_the_storage_is_no_bad_image": {4: [
            "openat:error=EMFILE of an image", "openat:error=EIO of an image", "read:error=EIO of an image", "read:error=ESTALE of an image"]},
        "test_folders_that_do_not_fit": {3: ["a symbolic link to itself"]},
    },
    "tests/tools/launcher_signals_test.py": {
        "test_signals_become_a_clean_stop": {75: ["SIGTERM", "SIGINT", "SIGHUP"]},
        "test_second_control_c_ends_at_once": {130: ["Ctrl-C twice"]},
    },
    "tests/tools/memory_limit_test.py": {"test_the_kernel_is_named": {137: ["memory limit of a cgroup"]}},
    "tests/tools/two_hosts_test.py": {"test_a_link_that_stays_away_ends_the_run_which_goes_on_later": {7: ["a link that stays away"]}},
}

LINE = re.compile(r"\bfault: (.+), (\d+)$", re.MULTILINE)  # a dot of unittest may stand before it


def target(path):
    folder, name = os.path.split(os.path.splitext(path)[0])
    return "//%s:%s" % (folder, name)


def wanted():
    """Returns all kinds: (test, kind, exit code)."""
    return {(path, kind, code) for path, cases in KINDS.items() for codes in cases.values() for code, kinds in codes.items() for kind in kinds}


def logged(folder, path):
    """Returns what a test, or each of its shards, printed when it ran last."""
    text = ""
    for place, _, names in os.walk(os.path.join(folder, os.path.splitext(path)[0])):
        if "test.log" in names:
            with open(os.path.join(place, "test.log"), encoding="utf-8", errors="replace") as file:
                text += file.read()
    return text


def seen(folder):
    """Returns the kinds that the tests below `folder` have seen, of those that are wanted."""
    found = {(path, kind, int(code)) for path in KINDS for kind, code in LINE.findall(logged(folder, path))}
    return found & wanted()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--logs", default="bazel-testlogs", help="the folder of the logs")
    parser.add_argument("--test", action="store_true", help="run the tests first")
    arguments = parser.parse_args()
    if arguments.test:
        subprocess.run(["bazel", "test", "--keep_going", *sorted(map(target, KINDS))], check=False)
    found = seen(arguments.logs)
    for path, kind, code in sorted(wanted() - found):
        print("%s has not seen: %s, %d" % (path, kind, code))
    numbers = collections.Counter(code for _, _, code in found)
    print("%d of %d kinds of faults were seen, by exit code: %s" % (len(found), len(wanted()), dict(sorted(numbers.items()))))
    return 0 if found == wanted() else 1


if __name__ == "__main__":
    sys.exit(main())

# SPDX-License-Identifier: MIT
"""Writes the page of runs again and again while they train."""
import time

from bad_input import BadInput
from run_folder import Run
from waiting import Pauses, is_done

PAUSE = 9  # times as long as a page took, so that pages of many steps take a tenth of a processor at most


def read_new(run):
    """Returns the run with what it has written since, and whether that is something."""
    new, errors = run.read_new_metrics(), run.errors
    if new is None:
        try:
            return Run(run.folder, watched=True), True
        except BadInput:  # its files are just being replaced by files of another run
            return run, False
    run.read_errors()
    if not new and run.errors == errors:
        return run, False
    run.read_other_files()
    return run, True


def watch(folders, every, write_page, say):
    """Ends when each run has taken its last step, or by a signal. The last page is the same as of a report without --watch."""
    pauses, took = Pauses(), 0.0
    runs = [Run(folder, watched=True) for folder in folders]
    write_page(runs, every)
    say()
    while not pauses.asked_to_end(max(every, PAUSE * took)):
        begin = time.monotonic()
        found = [read_new(run) for run in runs]
        runs = [run for run, _ in found]
        if any(is_new for _, is_new in found):
            write_page(runs, every)
        elif all(is_done(run.folder, run.last_step(), run.configuration) for run in runs):
            break
        took = time.monotonic() - begin
    write_page([Run(folder) for folder in folders])

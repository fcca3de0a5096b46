# SPDX-License-Identifier: MIT
"""tools/strata report RUN... [--output report.html] [--watch [--every SECONDS]]: writes a page with the curves, times, memory, evaluations,
faults, configuration and environment of runs. It opens in a browser without a network. With --watch it is written again as the runs go on.
Exit codes: 2 wrong use, or --output names a file that is not a page, 3 not the folder of a run, 4 a file that cannot be read or written,
70 dygraphs is not installed.
"""
import argparse
import os
import sys

sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))  # for the modules that tools share

from bad_input import printable, run, stop  # noqa: E402
from page import beginning, page  # noqa: E402
from run_folder import Run  # noqa: E402
from sections import all_of  # noqa: E402
from waiting import seconds  # noqa: E402
from watch import watch  # noqa: E402
from whole_file import replace_file  # noqa: E402


def check_output(path):
    """Refuses whatever is there and is not a page: a page that replaced a device or a file of a run would be a loss."""
    if not path:
        stop("--output wants a value that is not empty: which file", 2)
    if os.path.isfile(path):
        wanted = beginning().encode()
        with open(path, "rb") as file:
            if file.read(len(wanted)) in (b"", wanted):
                return
    elif not os.path.lexists(path):
        return
    stop(f"--output {path}: expected a new name or a page to replace; it is something else, and stays as it is", 2)


def write(path, text):
    """Replaces the page as a whole. A link to a page stays a link."""
    try:
        replace_file(os.path.realpath(path), text)
    except OSError as failure:
        stop(f"--output {path}: {failure.strerror}", 4)


def main():
    parser = argparse.ArgumentParser(prog="tools/strata report", description=__doc__.split("\n\n")[0], allow_abbrev=False)
    parser.add_argument("runs", nargs="+", metavar="RUN", help="the folder of a run; several are drawn into the same charts")
    parser.add_argument("--output", default="report.html", help="the page (report.html)")
    parser.add_argument("--watch", action="store_true", help="write the page again when a run has new lines, until all have done their last step")
    parser.add_argument("--every", type=seconds, metavar="SECONDS", help="with --watch: how often to look, and to load the page again (5)")
    arguments = parser.parse_args()
    if arguments.every and not arguments.watch:
        parser.error("--every is an option of --watch")
    check_output(arguments.output)
    sys.stdout.reconfigure(errors="backslashreplace")  # for names that are not UTF-8

    def write_page(runs, reload=None):
        write(arguments.output, page(runs, *all_of(runs), reload))

    if arguments.watch:
        said = f"the page is {arguments.output}, and follows {'the run' if len(arguments.runs) == 1 else 'the runs'}; Ctrl-C ends that"
        watch(arguments.runs, arguments.every or 5, write_page, lambda: print(printable(said), flush=True))
    else:
        write_page([Run(folder) for folder in arguments.runs])
        print(printable(f"the page is {arguments.output}"))


if __name__ == "__main__":
    run(main)

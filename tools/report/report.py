# SPDX-License-Identifier: MIT
"""tools/strata report RUN... [--output report.html]: writes a page with the curves, times, memory, evaluations, faults, configuration and
environment of runs. It opens in a browser without a network.
Exit codes: 2 wrong use, 3 not the folder of a run, 4 a file that cannot be read or written, 70 dygraphs is not installed.
"""
import argparse
import os
import sys
import tempfile

sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))  # for bad_input

from bad_input import BadInput, run  # noqa: E402
from page import page  # noqa: E402
from run_folder import Run  # noqa: E402
from sections import all_of  # noqa: E402


def write(path, text):
    """Replaces the file as a whole. A device or a pipe is refused, because it would be replaced for all programs."""
    if os.path.exists(path) and not os.path.isfile(path):
        raise BadInput(f"--output {path}: expected a file or a new name; it is something else")
    with tempfile.NamedTemporaryFile("w", dir=os.path.dirname(path) or ".", prefix=".report.", encoding="utf-8", delete=False) as file:
        try:
            file.write(text)
            file.close()
            os.chmod(file.name, 0o666 & ~umask())
            os.replace(file.name, path)
        except BaseException:
            os.unlink(file.name)
            raise


def umask():
    mask = os.umask(0)
    os.umask(mask)
    return mask


def main():
    parser = argparse.ArgumentParser(prog="tools/strata report", description=__doc__.split("\n\n")[0], allow_abbrev=False)
    parser.add_argument("runs", nargs="+", metavar="RUN", help="the folder of a run; several are drawn into the same charts")
    parser.add_argument("--output", default="report.html", help="the page (report.html)")
    arguments = parser.parse_args()
    runs = [Run(folder) for folder in arguments.runs]
    write(arguments.output, page(runs, *all_of(runs)))
    print(f"the page is {arguments.output}")


if __name__ == "__main__":
    run(main)

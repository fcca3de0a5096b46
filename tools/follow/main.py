# SPDX-License-Identifier: MIT
"""follow RUN --to wandb|mlflow: sends steps, evaluations and the configuration of a run to W&B or MLflow while it trains.

It uses the client of the Python that starts it, with the settings and keys that this client finds. It goes on where it
ended the last time, and ends when the run has taken its last step. Ctrl-C ends it earlier.
Exit codes: 2 wrong use, or the client is not installed; 3 not the folder of a run; 4 a file that cannot be read or written;
7 the client failed."""
import os
import sys

sys.path[1:1] = [os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), name) for name in ("", "report")]

from bad_input import Parser, run  # noqa: E402
from command_group import exit_on_signals  # noqa: E402
from place import Place  # noqa: E402
from run_folder import check_is_run, configuration_of, text_of  # noqa: E402
from sender import CLIENTS, Sender  # noqa: E402
from waiting import Pauses, is_done, is_training, seconds  # noqa: E402

ROWS_AT_ONCE = 50  # lines after which the place is written


def status_of(folder, done):
    """Returns the status of the run as MLflow names it, and "" for a run that trains or may go on."""
    if done:
        return "FINISHED"
    return "FAILED" if os.path.isfile(os.path.join(folder, "error.json")) and not is_training(folder) else ""


def follow(folder, target, project, once, every):
    pauses, place = Pauses(), Place(folder, target)
    sender = Sender(folder, target, project, place)

    def look():
        """Returns resolved.yaml, and whether the run is done. That is asked before lines are read, so that none comes later."""
        text = text_of(folder, "resolved.yaml")
        return text, is_done(folder, place.kept["step"], configuration_of(text))

    text, done = look()
    if (done or once) and place.kept["run"] and place.new_rows(1) == [] and place.kept["status"] == status_of(folder, done):
        print("there are no new lines")
        return
    sender.open()
    while True:
        text, done = look()
        rows = place.new_rows(ROWS_AT_ONCE)
        if rows is None:
            if not place.go_back_to_save():
                sender.close("KILLED")
                place.begin_another_run(place.kept["project"])
                sender.open()
            continue
        sender.configure(text)
        if rows:
            sender.send(rows)
        elif done or once:
            break
        if pauses.asked_to_end(0 if rows else every):
            break
    exit_on_signals()  # the client may wait for a network
    sender.close(status_of(folder, done))
    print(f"{place.kept['row']} lines are sent")


def main():
    parser = Parser(prog="follow", description=__doc__)
    parser.add_argument("run", metavar="RUN", help="the folder of a run")
    parser.add_argument("--to", required=True, choices=CLIENTS)
    parser.add_argument("--project", help="the project of W&B, or the experiment of MLflow (strata)")
    parser.add_argument("--once", action="store_true", help="send what is there now, and end")
    parser.add_argument("--every", type=seconds, default=5, metavar="SECONDS", help="how often to look for new lines (5)")
    options = parser.parse_args()
    sys.stdout.reconfigure(errors="backslashreplace")  # for names that are not UTF-8
    check_is_run(options.run)
    follow(options.run, options.to, options.project, options.once, options.every)


if __name__ == "__main__":
    run(main)

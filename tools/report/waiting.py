# SPDX-License-Identifier: MIT
"""What a command that follows a run waits for: the next look at the run, its end, or a signal."""
import argparse
import fcntl
import os
import select
import signal

from command_group import SIGNALS, exit_on_signals


class Pauses:
    """From here on the first signal ends a pause and interrupts nothing else, so that whatever was begun is finished. The next one ends
    the program, which may wait for a network. A signal that is ignored, as after nohup, stays ignored."""

    def __init__(self):
        self.reader, self.writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(self.writer, warn_on_full_buffer=False)
        for each in SIGNALS:
            if signal.getsignal(each) is not signal.SIG_IGN:
                signal.signal(each, lambda *_: exit_on_signals())

    def asked_to_end(self, seconds=0.0):
        """Waits, and returns at once with True if a signal asks for the end or has asked for it."""
        return bool(select.select([self.reader], [], [], seconds)[0])


def seconds(text):
    value = float(text)
    if not 0.1 <= value <= 86400:
        raise argparse.ArgumentTypeError(f"is {text}, expected 0.1 to 86400 seconds")
    return value


def is_training(folder):
    """Returns whether a process has the lock of the folder. Where there are no locks, none has."""
    try:
        file = os.open(os.path.join(folder, ".lock"), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        pass
    finally:
        os.close(file)
    return False


def is_done(folder, last_step, configuration):
    """Returns whether a run has taken all its steps, and its process has ended. A run that stops earlier may be resumed."""
    return str(last_step) == configuration.get("steps", ("", ""))[0] and not is_training(folder)

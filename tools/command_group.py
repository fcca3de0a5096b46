# SPDX-License-Identifier: MIT
"""Starts a command in a process group of its own, and ends it with the programs that it started."""
import os
import signal
import subprocess
import sys

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)  # those that end a program which waits for a command


def exit_on_signals():
    """An exit by an exception ends the running command too. A signal that is ignored, as after nohup, stays ignored."""
    for number in SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, lambda number, _: sys.exit(128 + number))


def hold_signals(how):
    """SIG_BLOCK: signals that end this program wait until SIG_UNBLOCK."""
    signal.pthread_sigmask(how, SIGNALS)


def start(words, **options):
    """Starts a command, and returns with signals held: one that came while it starts would end this program and leave the command running.
    The caller calls hold_signals(signal.SIG_UNBLOCK) where it is ready to end the command. `options` are those of Popen."""
    hold_signals(signal.SIG_BLOCK)
    try:
        return subprocess.Popen(words, start_new_session=True, preexec_fn=lambda: hold_signals(signal.SIG_UNBLOCK), **options)
    except BaseException:
        hold_signals(signal.SIG_UNBLOCK)
        raise


def outputs_of(words, grace, seconds=None, **options):
    """Runs a command to its end and returns its exit code, what it printed and its messages. If `seconds` are over, which raises
    subprocess.TimeoutExpired, or a signal ends this program, the command is ended too."""
    with start(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace", **options) as process:
        try:
            hold_signals(signal.SIG_UNBLOCK)
            out, messages = process.communicate(timeout=seconds)
        except BaseException:  # nothing may go on, or write into a folder that is removed
            end(process, grace)
            raise
    return process.returncode, out, messages


def end(process, grace):
    """Asks a command and its programs to end, and kills those that are left when the command has ended, or after `grace` seconds."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
            process.wait(grace)
        except subprocess.TimeoutExpired:
            continue
        except ProcessLookupError:
            break
    process.wait()

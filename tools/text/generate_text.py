# SPDX-License-Identifier: MIT
"""Samples text from a run with a tokenizer. The program `generate` reads and prints ids; this script encodes the prompts and
decodes what comes back.

generate_text.py PROGRAM RUN [--prompt TEXT | --prompts FILE] [--chat] [OPTIONS of the program ...]
"""
import json
import os
import signal
import subprocess
import sys
import tempfile

sys.path.insert(1, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))  # of the modules that tools share

import bad_input  # noqa: E402
from text_tokens import RunTokenizer, StreamingDecoder, is_id  # noqa: E402


def split(words):
    """Returns the pairs (option, value) of prompts, whether it is a chat, and the words for the program."""
    prompts, is_chat, others = [], False, []
    words = iter(words)
    for word in words:
        name, has_value, value = word.partition("=")
        if word == "--chat":
            is_chat = True
        elif name in ("--prompt", "--prompts"):
            prompts.append((name, value if has_value else next(words, "")))
        else:
            others.append(word)
    return prompts, is_chat, others


def with_ids(option, ids):
    return [option, *map(str, ids)] if ids else []


def lines_of(command):
    """Yields the lines that a program prints. If it fails, this script ends with its exit code."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        yield from process.stdout
    if process.returncode != 0:
        sys.exit(process.returncode if process.returncode > 0 else 128 - process.returncode)


def write(text):
    sys.stdout.write(bad_input.printable(text) if sys.stdout.isatty() else text)
    sys.stdout.flush()


def sample(text, prompt, command):
    """Prints the prompt, and each token when it comes."""
    try:
        prompt = os.fsencode(prompt).decode()
    except UnicodeDecodeError as error:
        raise bad_input.BadInput(f"--prompt: expected text in UTF-8 ({error})") from error
    ids, hidden = text.encode(prompt, "--prompt")
    stream = StreamingDecoder(text.decode)
    for number, line in enumerate(lines_of([*command, *with_ids("--prompt-ids", ids), *with_ids("--stop-ids", text.stop_ids())])):
        if number >= hidden:
            write(stream.add([int(line)]))
    write(stream.rest() + "\n")


class Prompt:
    """A line of a file of prompts."""

    def __init__(self, text, line, place):
        try:
            pairs = json.loads(line.decode("utf-8-sig"), object_pairs_hook=tuple)  # a dict keeps the last of two equal keys
            ((key, value),) = pairs if isinstance(pairs, tuple) else ()
        except (ValueError, RecursionError):
            key = value = None
        self.is_text, self.ids, self.hidden = key == "text", value, 0
        if not (isinstance(value, str) if self.is_text else key == "ids" and isinstance(value, list) and all(map(is_id, value))):
            raise bad_input.BadInput(f'{place}: expected a JSON object such as {{"text": "Once"}} or {{"ids": [5, 6]}}')
        if self.is_text:
            self.ids, self.hidden = text.encode(value, place)
        if not self.ids:
            raise bad_input.BadInput(f"{place}: the prompt is empty; expected one token at least")


def sample_file(text, path, command):
    """Prints a line for each prompt of a file, after the last token of all."""
    with open(path, "rb") as file:
        prompts = [Prompt(text, line, f"{path}:{number}") for number, line in enumerate(file, 1) if line.strip()]
    if not prompts:
        raise bad_input.BadInput(f"{path}: there is no prompt in it")
    stops = text.stop_ids()  # also of lines with ids, so that what ends a line does not depend on the others
    with tempfile.NamedTemporaryFile("w", prefix="prompts") as file:
        file.writelines(json.dumps({"ids": prompt.ids}) + "\n" for prompt in prompts)
        file.flush()
        results = list(lines_of([*command, "--prompts", file.name, *with_ids("--stop-ids", stops)]))
    for prompt, line in zip(prompts, results, strict=True):
        ids = json.loads(line)["ids"]
        print(json.dumps({"text": text.decode(ids[prompt.hidden :])} if prompt.is_text else {"ids": ids}))


def main():
    program, run, *words = sys.argv[1:]
    prompts, is_chat, others = split(words)
    has_ids = any(word.partition("=")[0] == "--prompt-ids" for word in others)
    text = RunTokenizer(run, is_chat) if len(prompts) == 1 and not has_ids else None
    if text is None or text.tokenizer is None:  # ids, bytes, or options that the program refuses
        os.execv(program, [program, run, *words])
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # as `| head` expects
    sys.stdout.reconfigure(encoding="utf-8")
    (option, value), command = prompts[0], [program, run, *others]
    (sample if option == "--prompt" else sample_file)(text, value, command)


if __name__ == "__main__":
    try:
        bad_input.run(main)
    except KeyboardInterrupt:
        sys.exit(130)

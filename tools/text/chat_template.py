# SPDX-License-Identifier: MIT
"""The chat template of imported weights, rendered as transformers renders it."""
import contextlib
import datetime
import json
import os
import resource

import jinja2
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

from bad_input import BadInput
from tokenizer_files import read_object, special_tokens


MOST_MEMORY = 1 << 28  # of a template, in bytes
MOST_LETTERS = 1 << 24  # of what it renders


def template_of(folder):
    """The file chat_template.jinja, or the key of tokenizer_config.json: a text, or named texts of which one is default."""
    path = os.path.join(folder, "chat_template.jinja")
    if folder and os.path.exists(path):
        try:
            with open(path, encoding="utf-8") as file:
                return file.read()
        except UnicodeDecodeError as error:
            raise BadInput(f"{path}: expected text in UTF-8 ({error})") from error
    given = read_object(folder, "tokenizer_config.json").get("chat_template")
    if isinstance(given, list):
        given = next((one.get("template") for one in given if isinstance(one, dict) and one.get("name") == "default"), None)
    if not isinstance(given, str):
        where = f"{folder} has" if folder else "the run began without imported weights, so there is"
        raise BadInput(f"--chat needs a chat template, and {where} none: neither chat_template.jinja nor a chat_template in "
                       "tokenizer_config.json; sample without --chat")
    return given


class Generation(Extension):
    """{% generation %} marks the words of the model for training. Here it prints what is in it."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("inside"), [], [], body).set_lineno(line)

    def inside(self, caller):
        return caller()


def require_public(name):
    if str(name).startswith("_"):
        raise jinja2.exceptions.SecurityError(f"{name} begins with an underscore, so it is unsafe in a namespace")


class TemplateNamespace(jinja2.utils.Namespace):
    """Python finds the attributes of a namespace before its own, so a template must not set internal ones."""

    def __init__(self, /, *arguments, **named):
        values = dict(*arguments, **named)
        for name in values:
            require_public(name)
        super().__init__(values)

    def __setitem__(self, name, value):
        require_public(name)
        super().__setitem__(name, value)


def raise_exception(message):
    raise jinja2.TemplateError(message)


def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def strftime_now(form):
    return datetime.datetime.now().strftime(form)


@contextlib.contextmanager
def memory_limit():
    """Limits what this process takes from now on. Half a line of a template can ask for all memory."""
    with open("/proc/self/statm", encoding="ascii") as file:
        taken = int(file.read().split()[0]) * resource.getpagesize()
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    limits = [limit for limit in (soft, taken + MOST_MEMORY) if limit != resource.RLIM_INFINITY]
    resource.setrlimit(resource.RLIMIT_AS, (min(limits), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def render(folder, text):
    """Returns what the model reads for one message of a user. The template comes from somebody else, so it runs in a sandbox."""
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols])
    environment.filters["tojson"] = tojson
    environment.globals.update(raise_exception=raise_exception, strftime_now=strftime_now, namespace=TemplateNamespace)
    template, special = template_of(folder), special_tokens(folder)
    try:
        with memory_limit():
            rendered = environment.from_string(template).render(
                messages=[{"role": "user", "content": text}], tools=None, documents=None, add_generation_prompt=True, **special)
    except Exception as error:  # a template may also divide by zero, or add a number to a text
        raise BadInput(f"the chat template of {folder} cannot be used: {str(error) or type(error).__name__}") from error
    if len(rendered) > MOST_LETTERS:
        raise BadInput(f"the chat template of {folder} cannot be used: it renders {len(rendered)} characters, expected at most {MOST_LETTERS}")
    return rendered

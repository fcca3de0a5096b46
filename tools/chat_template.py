# SPDX-License-Identifier: MIT
"""The chat template of imported weights, rendered as transformers renders it."""
import datetime
import json
import os

import bad_input

LARGEST_TEMPLATE = 1_000_000


def read_object(folder, name):
    """Returns the JSON object of a file, or an empty one if there is no such file."""
    path = os.path.join(folder, name)
    if not folder or not os.path.exists(path):
        return {}
    try:
        with open(path, encoding="utf-8") as file:
            value = json.load(file)
    except (ValueError, RecursionError) as error:
        raise bad_input.BadInput(f"{path}: expected a JSON object ({error})") from error
    if not isinstance(value, dict):
        raise bad_input.BadInput(f"{path}: expected a JSON object")
    return value


def template_of(folder):
    """The file chat_template.jinja, or the key of tokenizer_config.json: a text, or named texts of which one is default."""
    path = os.path.join(folder, "chat_template.jinja")
    if folder and os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            return file.read(LARGEST_TEMPLATE)
    given = read_object(folder, "tokenizer_config.json").get("chat_template")
    if isinstance(given, list):
        given = next((one.get("template") for one in given if isinstance(one, dict) and one.get("name") == "default"), None)
    if not isinstance(given, str):
        where = f"{folder} has" if folder else "the run began without imported weights, so there is"
        raise bad_input.BadInput(f"--chat needs a chat template, and {where} none: neither chat_template.jinja nor a chat_template in "
                                 "tokenizer_config.json; sample without --chat")
    return given


def render(folder, text):
    """Returns what the model reads for one message of a user. The template comes from somebody else, so it runs in a sandbox."""
    from jinja2 import TemplateError
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    def raise_exception(message):
        raise TemplateError(message)

    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"])
    environment.filters["tojson"] = lambda value, **options: json.dumps(value, **{"ensure_ascii": False, **options})
    environment.globals["raise_exception"] = raise_exception
    environment.globals["strftime_now"] = lambda form: datetime.datetime.now().strftime(form)
    config = read_object(folder, "tokenizer_config.json")
    special = {key: value.get("content") if isinstance(value, dict) else value for key, value in config.items() if key.endswith("_token")}
    try:
        return environment.from_string(template_of(folder)).render(
            messages=[{"role": "user", "content": text}], add_generation_prompt=True, **special)
    except TemplateError as error:
        raise bad_input.BadInput(f"the chat template of {folder} cannot be used: {error}") from error

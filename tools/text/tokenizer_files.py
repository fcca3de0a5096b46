# SPDX-License-Identifier: MIT
"""The files of a tokenizer of Hugging Face: tokenizer.json, and the JSON files beside it."""
import json
import os

from bad_input import BadInput

END_NAME = "<|endoftext|>"  # of a byte-pair encoding that `prepare text` trains
KNOWN_ENDS = (END_NAME, "<|end_of_text|>", "<eos>", "</s>")  # of GPT-2, Llama 3, Gemma, Llama 2


def load_tokenizer(path):
    """Returns the tokenizer of the package `tokenizers`. Loading the package takes 0.2 s, which tokens of bytes avoid."""
    import tokenizers

    try:
        tokenizer = tokenizers.Tokenizer.from_file(path)
    except Exception as error:  # the package raises no narrower one
        raise BadInput(f"{path}: cannot be read as the tokenizer.json of a model: {error}") from error
    # The run decides the length of samples, so the tokenizer must not cut or pad.
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def read_object(folder, name):
    """Returns the JSON object of a file, or an empty one if there is no such file."""
    path = os.path.join(folder, name)
    if not folder or not os.path.exists(path):
        return {}
    try:
        with open(path, encoding="utf-8") as file:
            value = json.load(file)
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{path}: expected a JSON object ({error})") from error
    if not isinstance(value, dict):
        raise BadInput(f"{path}: expected a JSON object")
    return value


def special_tokens(folder):
    """Returns the texts of tokens by name, such as bos_token. Older models have them in special_tokens_map.json."""
    given = {**read_object(folder, "special_tokens_map.json"), **read_object(folder, "tokenizer_config.json")}
    texts = {key: value.get("content") if isinstance(value, dict) else value for key, value in given.items() if key.endswith("_token")}
    return {key: text for key, text in texts.items() if isinstance(text, str)}


def end_of_model(folder, tokenizer):
    """Returns the token that ends a document: the eos_token of the files in the tokenizer's folder, otherwise the first
    known name that the tokenizer has, otherwise None."""
    names = (special_tokens(folder).get("eos_token"), *KNOWN_ENDS)
    return next((name for name in names if name is not None and tokenizer.token_to_id(name) is not None), None)

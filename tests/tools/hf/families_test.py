# SPDX-License-Identifier: MIT
"""Checks that random models of the families of transformers compute the same here, in both directions. Sizes and
weights are drawn anew in each run; the seed of a failure is in its message, and STRATA_TEST_SEED sets it."""

import json
import os
import random

import torch
import transformers
from safetensors.torch import load_file

from imported_models import EXPORT, GENERATE, IMPORT, TRAIN, LanguageModels, command, write_tokens

REST = """
run: {{folder: {folder}/run}}
steps: 3
batch: 4
micro_batch: 2
data: {{type: text, train: {folder}/tokens.bin, validation: {folder}/tokens.bin}}
optimizer: {{type: adamw, learning_rate: 1e-2}}
schedule: {{type: constant}}
{more}
"""


class Draw(random.Random):
    positions = (9, 16)  # least and most
    half_head_widths = (1, 6)


class LongDraw(Draw):
    positions = (280, 290)


class WideDraw(Draw):
    half_head_widths = (32, 32)


def sizes(draw, own_head_width):
    shared, group = draw.randint(1, 2), draw.randint(1, 3)
    heads = shared * group
    least, most = draw.half_head_widths
    result = {
        "num_hidden_layers": draw.randint(2, 5), "num_attention_heads": heads, "num_key_value_heads": shared,
        "hidden_size": heads * 2 * draw.randint(max(2, least), most), "intermediate_size": draw.randint(9, 60),
        "max_position_embeddings": draw.randint(*draw.positions), "vocab_size": draw.randint(30, 60), "rms_norm_eps": draw.choice((1e-5, 1e-6)),
        "tie_word_embeddings": draw.random() < 0.5, "pad_token_id": None, "bos_token_id": 1, "eos_token_id": 2}
    return {**result, "head_dim": 2 * draw.randint(least, most)} if own_head_width else result


def rotary(draw, sequence):
    parameters = {"rope_type": draw.choice(("default", "linear", "yarn", "llama3")), "rope_theta": draw.choice((100.0, 1e4, 5e5))}
    if parameters["rope_type"] != "default":
        parameters["factor"] = draw.choice((2.0, 8.0))
    if parameters["rope_type"] == "llama3":
        parameters.update(low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=sequence // 2)
    if parameters["rope_type"] == "yarn":
        # Positions are within the original context, or far beyond it.
        original = draw.choice((40 * sequence, sequence // 4, max(1, sequence // 16)))
        parameters.update(original_max_position_embeddings=original, beta_fast=draw.choice((8.0, 32.0)), beta_slow=draw.choice((0.5, 1.0)))
        if draw.random() < 0.5:
            parameters["attention_factor"] = 1.3
    return parameters


def any_width(draw, chosen):
    """Heads have a width of their own, and need not divide that of the model."""
    return {**chosen, "hidden_size": draw.randint(8, 40)}


def one_rotary(draw, chosen):
    return {**chosen, "rope_parameters": rotary(draw, chosen["max_position_embeddings"])}


def layer_types(draw, layers):
    return [draw.choice(("full_attention", "sliding_attention")) for _ in range(layers)]


def llama(draw):
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**one_rotary(draw, sizes(draw, True))))


def mistral(draw):
    window = draw.choice((None, draw.randint(1, 8)))
    return transformers.MistralForCausalLM(transformers.MistralConfig(**one_rotary(draw, any_width(draw, sizes(draw, True))), sliding_window=window))


def windows(draw, chosen):
    return {**chosen, "use_sliding_window": True, "sliding_window": draw.randint(1, 8),
            "layer_types": layer_types(draw, chosen["num_hidden_layers"])}


def qwen2(draw):
    return transformers.Qwen2ForCausalLM(transformers.Qwen2Config(**windows(draw, one_rotary(draw, sizes(draw, False)))))


def qwen3(draw):
    return transformers.Qwen3ForCausalLM(transformers.Qwen3Config(**windows(draw, one_rotary(draw, any_width(draw, sizes(draw, True))))))


def olmo2(draw):
    return transformers.Olmo2ForCausalLM(transformers.Olmo2Config(**one_rotary(draw, sizes(draw, False))))


def gemma2(draw):
    """Small caps, so that many scores and logits are beyond them."""
    chosen = one_rotary(draw, sizes(draw, True))
    return transformers.Gemma2ForCausalLM(transformers.Gemma2Config(
        **chosen, query_pre_attn_scalar=chosen["head_dim"], sliding_window=draw.randint(1, 8),
        layer_types=layer_types(draw, chosen["num_hidden_layers"]), attn_logit_softcapping=draw.choice((None, 0.5, 2.0)),
        final_logit_softcapping=draw.choice((None, 1.0, 5.0))))


def gemma3(draw):
    chosen = sizes(draw, True)
    full = draw.choice(({"rope_type": "default", "rope_theta": 1e6}, {"rope_type": "linear", "rope_theta": 1e5, "factor": 8.0}))
    return transformers.Gemma3ForCausalLM(transformers.Gemma3TextConfig(
        **chosen, query_pre_attn_scalar=chosen["head_dim"], sliding_window=draw.randint(1, 8),
        layer_types=layer_types(draw, chosen["num_hidden_layers"]),
        rope_parameters={"sliding_attention": {"rope_type": "default", "rope_theta": 100.0}, "full_attention": full}))


FAMILIES = {"llama": llama, "mistral": mistral, "qwen2": qwen2, "qwen3": qwen3, "olmo2": olmo2, "gemma2": gemma2, "gemma3_text": gemma3}


def gpt2(draw):
    heads = draw.randint(1, 4)
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(
        n_layer=draw.randint(1, 3), n_head=heads, n_embd=heads * draw.randint(3, 9), n_positions=draw.randint(*draw.positions),
        vocab_size=draw.randint(30, 60), bos_token_id=1, eos_token_id=2))


def random_model(name, draw, seed):
    """Every parameter is far from its initial value, so that a lost or swapped one is found."""
    torch.manual_seed(seed)
    model = {**FAMILIES, "gpt2": gpt2}[name](draw(seed)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.2)
    return model


def norm_of(values):
    return sum(value.double().square().sum() for name, value in values.items() if name not in ("logits", "loss")).sqrt().item()


class FamiliesTest(LanguageModels):
    rest = REST

    def each(self, check, families=tuple(FAMILIES), draw=Draw):
        for name in families:
            seed = int(os.environ.get("STRATA_TEST_SEED") or random.SystemRandom().randrange(2**32))
            with self.subTest(name, seed=seed):
                self.setUp()
                model = random_model(name, draw, seed)
                sequence, vocabulary = model.config.max_position_embeddings, model.config.vocab_size
                tokens = torch.randint(vocabulary, (40 * sequence + 1,))
                write_tokens(self.path("tokens.bin"), tokens)
                self.ids = tokens[: 5 * (sequence + 1)].view(5, sequence + 1)
                self.write_ids()
                model.save_pretrained(self.path("theirs"))
                check(model)

    def assert_same(self, ours, theirs, tolerance):
        """The root mean square of the errors of logits is within the tolerance, and of those of gradients within 10 times as much: peaked attention
        multiplies roundings, and its gradients are differences. A single error may be 10 times as large again."""
        self.assertEqual(set(ours), set(theirs))
        for name, value in theirs.items():
            errors, allowed = (ours[name] - value).double(), tolerance * (1 if name in ("logits", "loss") else 10)
            self.assertLess(errors.abs().max().item(), 10 * allowed * max(1.0, value.abs().max().item()), name)
            self.assertLess(errors.norm().item(), allowed * max(errors.numel() ** 0.5, value.double().norm().item()), name)

    def assert_same_values(self, model):
        command(IMPORT, self.path("theirs"), self.path("weights"))
        ours, theirs = self.values_here("weights", self.config("weights")), self.values_there(model)
        self.assert_same(ours, theirs, 1e-4)
        self.assertLess(abs(ours["loss"] - theirs["loss"]).item(), 1e-5 * theirs["loss"].item())
        self.assertLess(abs(norm_of(ours) - norm_of(theirs)), 1e-3 * norm_of(theirs))

    def test_their_models_here(self):
        self.each(self.assert_same_values)

    def test_their_models_with_heads_of_64(self):
        self.each(self.assert_same_values, ("llama", "qwen3", "olmo2", "gemma2"), WideDraw)

    def test_files_of_version_4(self):
        """They have rope_theta, rope_scaling and rope_local_base_freq, and no layer_types."""

        def check(model):
            with open(self.path("theirs/config.json"), encoding="utf-8") as file:
                config = json.load(file)
            rope = config.pop("rope_parameters")
            if "full_attention" in rope:
                config["rope_local_base_freq"] = rope["sliding_attention"]["rope_theta"]
                rope = rope["full_attention"]
                config["sliding_window_pattern"] = 2
                config.pop("_sliding_window_pattern", None)
            if model.config.model_type.startswith("gemma"):
                model.config.layer_types[:] = ["full_attention" if i % 2 else "sliding_attention" for i in range(len(model.config.layer_types))]
            elif "layer_types" in config:
                first = len(config["layer_types"]) // 2
                model.config.layer_types[:] = ["full_attention" if i < first else "sliding_attention" for i in range(len(config["layer_types"]))]
                config["max_window_layers"] = first
            config.pop("layer_types", None)
            config["rope_theta"] = rope.pop("rope_theta")
            if rope["rope_type"] != "default":
                config["rope_scaling"] = rope
            # A model reads layer_types when it is constructed.
            again = type(model)(model.config).eval()
            again.load_state_dict(model.state_dict())
            with open(self.path("theirs/config.json"), "w", encoding="utf-8") as file:
                json.dump(config, file)
            self.assert_same_values(again)

        self.each(check)

    def test_our_runs_there(self):
        def check(model):
            command(IMPORT, self.path("theirs"), self.path("start"))
            config = self.config("start", "checkpoint: {initial_weights: %s}" % self.path("start"))
            command(TRAIN, config)
            for folder, more in (("native", []), ("exported", ["--format", "hf"]), ("half", ["--format", "hf", "--dtype", "bfloat16"])):
                command(EXPORT, self.path("run"), self.path(folder), *more)
            trained = transformers.AutoModelForCausalLM.from_pretrained(self.path("exported"))
            # A window of no layer is lost, and then a Mistral is a Llama.
            self.assertIn(trained.config.model_type, (model.config.model_type, "llama"))
            ours = self.values_here("native", config)
            self.assertGreater((ours["logits"] - model(self.ids[:, :-1]).logits).abs().max().item(), 0.01)
            self.assert_same(ours, self.values_there(trained.eval()), 1e-4)
            command(IMPORT, self.path("exported"), self.path("again"))
            before, after = (load_file(self.path(name) + "/model.safetensors") for name in ("native", "again"))
            for name, value in before.items():
                is_shifted = model.config.model_type.startswith("gemma") and "norm" in name
                self.assertLessEqual((value - after[name]).abs().max().item(), 2.0**-24 if is_shifted else 0, name)
            with open(self.path("half/config.json"), encoding="utf-8") as file:
                self.assertEqual(json.load(file)["torch_dtype"], "bfloat16")
            whole, half = (load_file(self.path(name) + "/model.safetensors") for name in ("exported", "half"))
            for name, value in whole.items():
                self.assertTrue(torch.equal(value.bfloat16(), half[name]), name)

        self.each(check)

    def test_greedy_tokens_are_those_of_transformers(self):
        """256 tokens after prompts of different lengths, together and alone. The windows are shorter than that."""

        def check(model):
            command(IMPORT, self.path("theirs"), self.path("start"))
            command(TRAIN, self.config("start", "checkpoint: {initial_weights: %s}" % self.path("start")))
            command(EXPORT, self.path("run"), self.path("exported"), "--format", "hf")
            theirs = transformers.AutoModelForCausalLM.from_pretrained(self.path("exported"), attn_implementation="eager").eval()
            prompts = [self.ids[0, :length].tolist() for length in (11, 1, 20)]
            with open(self.path("prompts.jsonl"), "w", encoding="utf-8") as file:
                file.writelines(json.dumps({"ids": prompt}) + "\n" for prompt in prompts)
            greedy = ["--tokens", "256", "--temperature", "0"]
            lines = command(GENERATE, self.path("run"), "--prompts", self.path("prompts.jsonl"), *greedy).splitlines()
            alone = command(GENERATE, self.path("run"), "--prompt-ids", *map(str, prompts[0]), *greedy).split()
            together = [json.loads(line)["ids"] for line in lines]
            for prompt, ids in zip([prompts[0], *prompts], [[int(token) for token in alone], *together], strict=True):
                self.assert_likeliest_tokens(theirs, prompt, ids)

        self.each(check, [*FAMILIES, "gpt2"], LongDraw)

    def test_lines_of_a_file_end_alike(self):
        """A document of bytes ends with 256, also after ids beside a text. Likeliest tokens are drawn from all, so 256 comes soon."""
        write_tokens(self.path("tokens.bin"), torch.randint(257, (400,), generator=torch.manual_seed(5)))
        model = "type: transformer, family: llama, layers: 1, width: 8, heads: 2, feed_forward: 8, sequence: 40, vocabulary: 257"
        with open(self.path("config.yaml"), "w", encoding="utf-8") as file:
            file.write(REST.format(folder=self.path(""), more="model: {%s}" % model))
        command(TRAIN, self.path("config.yaml"))
        lines = [{"ids": [number, 7]} for number in range(8)]
        words = ["--temperature", "1e6", "--top-k", "0", "--tokens", "300"]

        def generated(name, lines):
            with open(self.path(name), "w", encoding="utf-8") as file:
                file.writelines(json.dumps(line) + "\n" for line in lines)
            return [json.loads(line) for line in command(GENERATE, self.path("run"), "--prompts", self.path(name), *words).splitlines()]

        alone = generated("ids.jsonl", lines)
        self.assertLess(min(len(line["ids"]) for line in alone), 302)
        self.assertEqual(generated("more.jsonl", [*lines, {"text": "a"}])[:8], alone)

    def assert_likeliest_tokens(self, model, prompt, ids):
        """Each token after the prompt is the likeliest after those before it, or as good up to rounding. No place sees a later one, so one call gives
        the logits of all beginnings."""
        self.assertEqual((ids[:len(prompt)], len(ids)), (prompt, len(prompt) + 256))
        with torch.no_grad():
            logits = model(torch.tensor([ids]), use_cache=False).logits[0, len(prompt) - 1:-1]
        less = logits.amax(1) - logits.gather(1, torch.tensor(ids[len(prompt):])[:, None])[:, 0]
        self.assertLess((less / logits.abs().amax(1).clamp(min=1)).max().item(), 1e-4, (prompt, ids))

    def test_models_whose_keys_transformers_needs_open_there(self):
        """A Gemma without windows needs the size of one, and a Mistral whose heads do not divide its width is no Llama."""
        small = {"num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 6, "intermediate_size": 20,
                 "max_position_embeddings": 12, "vocab_size": 40}
        theirs = {
            "gemma3_text": transformers.Gemma3ForCausalLM(transformers.Gemma3TextConfig(
                **small, hidden_size=24, query_pre_attn_scalar=6, sliding_window=5, layer_types=["full_attention"] * 2)),
            "mistral": transformers.MistralForCausalLM(transformers.MistralConfig(**small, hidden_size=25, sliding_window=None))}
        for name, model in theirs.items():
            with self.subTest(name):
                self.setUp()
                write_tokens(self.path("tokens.bin"), torch.randint(40, (40 * 12 + 1,)))
                model.save_pretrained(self.path("theirs"))
                command(IMPORT, self.path("theirs"), self.path("start"))
                command(TRAIN, self.config("start"))  # a run without imported weights
                command(EXPORT, self.path("run"), self.path("exported"), "--format", "hf")
                opened = transformers.AutoModelForCausalLM.from_pretrained(self.path("exported"))
                self.assertEqual(opened.config.model_type, name)
                self.assertEqual(opened(torch.zeros(1, 12, dtype=torch.long)).logits.shape, (1, 12, 40))
                # The family has ids of its own tokenizer for absent keys.
                self.assertEqual([opened.config.bos_token_id, opened.config.eos_token_id, opened.config.pad_token_id], [None] * 3)

    def test_what_does_not_fit_is_refused(self):
        cases = {
            "llama": (({"attention_bias": True}, "attention_bias: expected false"), ({"mlp_bias": True}, "mlp_bias: expected false"),
                      ({"rope_parameters": {"rope_type": "dynamic", "factor": 2.0}}, "rope_type: expected default, linear, llama3 or yarn"),
                      ({"rope_parameters": {"rope_type": "yarn", "factor": 2.0, "mscale": 0.7}}, "mscale: expected no such key"),
                      ({"rope_parameters": {"rope_type": "yarn", "factor": 2.0, "attention_factor": 0.0}},
                       "attention_factor: expected a number above 0 up to 1000000, got 0.0"),
                      ({"rope_parameters": {"rope_type": "linear", "factor": 0.5}}, "factor: expected a number from 1 up to 1000000, got 0.5"),
                      ({"rope_parameters": {"rope_type": "default", "partial_rotary_factor": 0.5}}, "partial_rotary_factor: expected 1.0")),
            "mistral": (({"layer_types": ["full_attention"]}, "layer_types: expected no such key"),),
            "qwen2": (({"dual_chunk_attention_config": {"chunk_size": 8}}, "dual_chunk_attention_config: expected no such key"),
                      ({"layer_types": ["full_attention"]}, "layer_types: expected one for each of"),
                      ({"use_sliding_window": False, "layer_types": None}, None)),
            "qwen3": (({"quantization_config": {"bits": 8}}, "quantization_config: expected no such key, because Strata does not have"),),
            "olmo2": (({"clip_qkv": 8.0}, "clip_qkv: expected no such key"), ({"hidden_act": "gelu"}, 'hidden_act: expected "silu"')),
            "gemma2": (({"attn_logit_softcapping": 1e-4}, "attn_logit_softcapping: expected a number from 0.001 to 1000000, or null"),
                       ({"final_logit_softcapping": -30.0}, "final_logit_softcapping: expected"),
                       ({"query_pre_attn_scalar": 144}, "query_pre_attn_scalar: expected"),
                       ({"hidden_activation": "silu"}, 'hidden_activation: expected "gelu_pytorch_tanh"'),
                       ({"hidden_act": "gelu_pytorch_tanh"}, None)),
            "gemma3_text": (({"final_logit_softcapping": 30.0}, "final_logit_softcapping: expected no such key"),
                            ({"query_pre_attn_scalar": 168}, "query_pre_attn_scalar: expected"),
                            ({"use_bidirectional_attention": True}, "use_bidirectional_attention: expected false"))}

        def check(model):
            with open(self.path("theirs/config.json"), encoding="utf-8") as file:
                settings = json.load(file)
            for changes, expected in cases[model.config.model_type]:
                with open(self.path("theirs/config.json"), "w", encoding="utf-8") as file:
                    json.dump({**settings, **changes}, file)
                text = command(IMPORT, self.path("theirs"), self.path("weights"), expected=0 if expected is None else 3)
                self.assertIn(expected or "model: {", text)
                self.assertEqual(os.path.exists(self.path("weights/model.safetensors")), expected is None)

        self.each(check)

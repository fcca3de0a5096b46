# SPDX-License-Identifier: MIT
"""Checks that models of Hugging Face's transformers compute the same here, in both directions, and that damaged
folders are refused."""

import json
import os
import resource

import tokenizers
import torch
import transformers
from safetensors.torch import load_file, save_file

from imported_models import EXPORT, GENERATE, IMPORT, TRAIN, LanguageModels, command, write_tokens

SEQUENCE, VOCABULARY = 12, 37

REST = """
run: {{folder: {folder}/run}}
steps: 5
batch: 8
micro_batch: 4
data: {{type: text, train: {folder}/tokens.bin, validation: {folder}/tokens.bin}}
optimizer: {{type: adamw, learning_rate: 2e-2}}
schedule: {{type: constant}}
{more}
"""

GPT2 = transformers.GPT2Config(
    n_layer=2, n_embd=24, n_head=3, n_positions=SEQUENCE, vocab_size=VOCABULARY, n_inner=70, resid_pdrop=0.0,
    embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=0, eos_token_id=0)
LLAMA = {
    "num_hidden_layers": 2, "hidden_size": 24, "num_attention_heads": 6, "num_key_value_heads": 2,
    "intermediate_size": 41, "max_position_embeddings": SEQUENCE, "vocab_size": VOCABULARY}
LLAMA3 = {
    "rope_type": "llama3", "rope_theta": 500.0, "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 6}
WIDE_HEADS = {**LLAMA, "head_dim": 6}
MODELS = {
    "gpt2": lambda: transformers.GPT2LMHeadModel(GPT2),
    "llama": lambda: transformers.LlamaForCausalLM(transformers.LlamaConfig(**LLAMA, tie_word_embeddings=False)),
    "llama3_tied": lambda: transformers.LlamaForCausalLM(
        transformers.LlamaConfig(**LLAMA, tie_word_embeddings=True, rope_parameters=LLAMA3)),
    "wide_heads": lambda: transformers.LlamaForCausalLM(transformers.LlamaConfig(**WIDE_HEADS)),
}


def random_model(name):
    """Every parameter is far from its initial value, so that a lost or swapped one is found."""
    torch.manual_seed(7)
    model = MODELS[name]().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.2)
    return model


class HuggingFaceTest(LanguageModels):
    rest = REST

    def setUp(self):
        super().setUp()
        tokens = torch.tensor([(i * i + 7 * (i // 5)) % VOCABULARY for i in range(40 * SEQUENCE + 1)])
        write_tokens(self.path("tokens.bin"), tokens)
        self.ids = tokens[: 5 * (SEQUENCE + 1)].view(5, SEQUENCE + 1)
        self.write_ids()

    def test_their_models_here(self):
        for self.name in MODELS:
            with self.subTest(self.name):
                self.setUp()
                model = random_model(self.name)
                model.save_pretrained(self.path("theirs"), max_shard_size="10KB")
                self.assertTrue(os.path.exists(self.path("theirs/model.safetensors.index.json")))
                command(IMPORT, self.path("theirs"), self.path("weights"))
                with open(self.path("weights/model.yaml"), encoding="utf-8") as file:
                    self.assertNotRegex(file.read(), r"\d{12}", "a number has more digits than it needs")
                ours = self.values_here("weights", self.config("weights"))
                self.assert_same(ours, self.values_there(model), 1e-5)

    def test_our_runs_there(self):
        for self.name in MODELS:
            with self.subTest(self.name):
                self.setUp()
                model = random_model(self.name)
                model.save_pretrained(self.path("theirs"))
                command(IMPORT, self.path("theirs"), self.path("start"))
                config = self.config("start", "checkpoint: {initial_weights: %s}" % self.path("start"))
                command(TRAIN, config)
                with open(self.path("run/metrics.jsonl"), encoding="utf-8") as file:
                    first = next(line for line in map(json.loads, file) if "loss" in line)
                self.assertEqual(first["step"], 1)

                words = tokenizers.Tokenizer(tokenizers.models.WordLevel({"unknown": 0, "In": 1, "the": 2, "beginning": 3}, "unknown"))
                words.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
                words.save(self.path("run/tokenizer.json"))

                command(EXPORT, self.path("run"), self.path("native"))
                command(EXPORT, self.path("run"), self.path("exported"), "--format", "hf", "--file-bytes", "9000")
                trained = transformers.AutoModelForCausalLM.from_pretrained(self.path("exported"))
                self.assertEqual(trained.dtype, torch.float32)
                tokenizer = tokenizers.Tokenizer.from_file(self.path("exported/tokenizer.json"))
                self.assertEqual(tokenizer.encode("In the beginning").ids, [1, 2, 3])
                ours = self.values_here("native", config)
                self.assertGreater((ours["logits"] - model(self.ids[:, :-1]).logits).abs().max().item(), 0.1)
                self.assert_same(ours, self.values_there(trained.eval()), 1e-5)
                # The way back is exact, bit for bit.
                command(IMPORT, self.path("exported"), self.path("again"))
                self.assert_same_bits("native", "again")

    def test_attention_that_no_exported_model_has_is_refused(self):
        self.name = "llama"
        random_model("llama").save_pretrained(self.path("theirs"))
        command(IMPORT, self.path("theirs"), self.path("start"))
        config = self.config("start", "checkpoint: {initial_weights: %s}" % self.path("start"))
        block = "no model of transformers has this block:\n  llama: attention in %s, expected causal\n"
        terms = "the scores of attention have terms (%s), expected none but a softcap: the exported models have no others"
        for number, (override, refusal) in enumerate((
                ("model.attention=causal | prefix(2)", block % "layers 0-1 is causal | prefix(2)"),
                ("layers=[{only: 1, attention: causal & window(4)}]", block % "layer 1 is causal & window(4)"),
                ("model.attention=causal & dilated(2, 2)", block % "layers 0-1 is causal & dilated(2, 2)"),
                ("model.softcap=30", "no model of transformers has this block:\n  llama: model.softcap is 30, expected 0\n"),
                ("model.logit_softcap=30", "no model of transformers has this block:\n  llama: model.logit_softcap is 30, expected 0\n"),
                ("model.alibi=true", terms % "alibi"))):
            run = self.path("run%d" % number)
            command(TRAIN, config, override, "run.folder=" + run)
            text = command(EXPORT, run, self.path("exported"), "--format", "hf", expected=2)
            self.assertIn(refusal, text)
            if "block" in refusal:
                self.assertIn("  qwen2: model.qkv_biases is false, expected true\n", text)
            self.assertFalse(os.path.exists(self.path("exported/config.json")))
            command(EXPORT, run, run + "-native")

    def test_what_training_does_not_read_comes_out_again(self):
        self.name = "gpt2"
        secret, theirs = self.path("secret"), self.path("theirs")
        random_model("gpt2").save_pretrained(theirs)
        files = {"generation_config.json": '{"top_k": 3}', "tokenizer_config.json": '{"model_max_length": 12}', "chat_template.jinja": "{{ text }}"}
        for name, text in {**files, "special_tokens_map.json": "[1]"}.items():
            with open(os.path.join(theirs, name), "w", encoding="utf-8") as file:
                file.write(text)
        with open(secret, "w", encoding="utf-8") as file:
            file.write("a key that no export may have")
        for name in ("tokenizer.json", "merges.txt"):
            os.symlink(secret, os.path.join(theirs, name))
        with open(os.path.join(theirs, "config.json"), encoding="utf-8") as file:
            config = json.load(file)
        config.update(bos_token_id=5, eos_token_id=[6, 7])
        config.pop("pad_token_id", None)
        with open(os.path.join(theirs, "config.json"), "w", encoding="utf-8") as file:
            json.dump(config, file)
        command(IMPORT, theirs, self.path("start"))
        command(TRAIN, self.config("start", "checkpoint: {initial_weights: %s}" % self.path("start")))
        command(EXPORT, self.path("run"), self.path("exported"), "--format", "hf")
        for name, text in files.items():
            with open(self.path("exported/" + name), encoding="utf-8") as file:
                self.assertEqual(file.read(), text)
        self.assertEqual(sorted(os.listdir(self.path("exported"))), sorted([*files, "config.json", "model.safetensors"]))
        with open(self.path("exported/config.json"), encoding="utf-8") as file:
            written = json.load(file)
        self.assertEqual((written["bos_token_id"], written["eos_token_id"]), (5, [6, 7]))
        self.assertNotIn("pad_token_id", written)
        # Another import into the folder, whose weights were removed, replaces what the first one left.
        os.remove(self.path("start/model.safetensors"))
        with open(os.path.join(theirs, "chat_template.jinja"), "w", encoding="utf-8") as file:
            file.write("{{ other }}")
        command(IMPORT, theirs, self.path("start"))
        with open(self.path("start/chat_template.jinja"), encoding="utf-8") as file:
            self.assertEqual(file.read(), "{{ other }}")

    def test_ids_that_an_imported_file_leaves_to_transformers_stay_absent(self):
        self.name = "llama"
        random_model("llama").save_pretrained(self.path("theirs"))
        with open(self.path("theirs/config.json"), encoding="utf-8") as file:
            config = json.load(file)
        del config["eos_token_id"]
        with open(self.path("theirs/config.json"), "w", encoding="utf-8") as file:
            json.dump({**config, "bos_token_id": 5, "pad_token_id": None}, file)
        command(IMPORT, self.path("theirs"), self.path("start"))
        command(TRAIN, self.config("start", "checkpoint: {initial_weights: %s}" % self.path("start")))
        command(EXPORT, self.path("run"), self.path("exported"), "--format", "hf")
        with open(self.path("exported/config.json"), encoding="utf-8") as file:
            written = json.load(file)
        self.assertEqual({key: value for key, value in written.items() if key.endswith("_token_id")}, {"bos_token_id": 5, "pad_token_id": None})

    def test_names_without_a_prefix_half_floats_and_masks(self):
        for half in (torch.bfloat16, torch.float16):
            with self.subTest(str(half)):
                self.setUp()
                self.name = "gpt2"
                model = random_model("gpt2").to(half).float()
                model.save_pretrained(self.path("theirs"))
                tensors = load_file(self.path("theirs/model.safetensors"))
                old = {name.removeprefix("transformer."): value.to(half) for name, value in tensors.items()}
                old["h.0.attn.bias"] = torch.ones(1, 1, SEQUENCE, SEQUENCE)
                save_file(old, self.path("theirs/model.safetensors"), {"format": "pt"})
                command(IMPORT, self.path("theirs"), self.path("weights"))
                self.assertEqual({value.dtype for value in load_file(self.path("weights/model.safetensors")).values()}, {torch.float32})
                ours = self.values_here("weights", self.config("weights"))
                self.assert_same(ours, self.values_there(model), 1e-5)

    def test_weights_in_float16(self):
        """A float16 model comes in, is trained from, goes out and generates."""
        self.name = "llama"
        random_model("llama").half().save_pretrained(self.path("theirs"))
        command(IMPORT, self.path("theirs"), self.path("start"))
        command(TRAIN, self.config("start", "checkpoint: {initial_weights: %s}" % self.path("start")))
        for folder, more in (("whole", []), ("half", ["--dtype", "float16"])):
            command(EXPORT, self.path("run"), self.path(folder), "--format", "hf", *more)
        whole, half = (load_file(self.path(name) + "/model.safetensors") for name in ("whole", "half"))
        for name, value in whole.items():
            self.assertEqual(half[name].dtype, torch.float16)
            self.assertTrue(torch.equal(value.half(), half[name]), name)
        model = transformers.AutoModelForCausalLM.from_pretrained(self.path("half"))
        self.assertEqual(model.dtype, torch.float16)
        prompt = self.ids[0, :3]
        likeliest = model.float()(prompt[None]).logits[0, -1].topk(2)
        self.assertGreater((likeliest.values[0] - likeliest.values[1]).item(), 0.05)  # more than roundings
        ids = command(GENERATE, self.path("run"), "--prompt-ids", *map(str, prompt.tolist()), "--tokens", "1", "--temperature", "0", "--dtype", "fp16")
        self.assertEqual(ids.split()[-1], str(likeliest.indices[0].item()))

    def test_weights_that_float16_cannot_hold_are_refused(self):
        self.name = "llama"
        model = random_model("llama")
        with torch.no_grad():
            model.model.layers[1].mlp.down_proj.weight[2, :2] = torch.tensor([-70000.0, 65519.0])  # the second is rounded to 65504
        model.save_pretrained(self.path("theirs"))
        command(IMPORT, self.path("theirs"), self.path("start"))
        command(TRAIN, self.config("start", "checkpoint: {initial_weights: %s}" % self.path("start")), "optimizer.learning_rate=1e-9")
        too_large = ": 1 of %d numbers are too large for float16, up to 70000; expected at most 65504; choose a type with a wider range" % (24 * 41)
        text = command(EXPORT, self.path("run"), self.path("half"), "--format", "hf", "--dtype", "float16", "--file-bytes", "9000", expected=5)
        self.assertIn("model.layers.1.mlp.down_proj.weight" + too_large, text)
        self.assertEqual(os.listdir(self.path("half")), [])
        text = command(GENERATE, self.path("run"), "--prompt-ids", "1", "--tokens", "1", "--dtype", "fp16", expected=5)
        self.assertIn("blocks.1.mlp.down.weight" + too_large, text)
        command(EXPORT, self.path("run"), self.path("half"), "--format", "hf", "--dtype", "bfloat16")

    def test_what_does_not_fit_is_refused(self):
        random_model("gpt2").save_pretrained(self.path("theirs"))
        weights, config = self.path("theirs/model.safetensors"), self.path("theirs/config.json")
        tensors, listed = load_file(weights), sorted(os.listdir(self.path("theirs")))
        with open(config, encoding="utf-8") as file:
            settings = json.load(file)

        def refused(*expected, code=3):
            text = command(IMPORT, self.path("theirs"), self.path("weights"), expected=code)
            for part in expected:
                self.assertIn(part, text)
            self.assertFalse(os.path.exists(self.path("weights/model.safetensors")))

        def with_settings(**changes):
            with open(config, "w", encoding="utf-8") as file:
                json.dump({**settings, **changes}, file)

        for changes, expected in (
                ({"model_type": "bert"}, "model_type: expected gpt2, llama, mistral, qwen2, qwen3, olmo2, gemma2 or gemma3_text"),
                ({"n_layer": -1}, "n_layer: expected a positive integer up to 10000, got -1"),
                ({"n_layer": 1e30}, "n_layer: expected a positive integer"),
                ({"n_layer": 10**9}, "n_layer: expected a positive integer up to 10000, got 1000000000"),
                ({"n_head": 5}, "5 heads do not divide the width 24"),
                ({"activation_function": "relu"}, 'activation_function: expected "gelu_new"'),
                ({"n_embd": None}, "n_embd is missing"),
                ({"scale_attn_by_inverse_layer_idx": True}, "scale_attn_by_inverse_layer_idx: expected false"),
                ({"is_encoder_decoder": True}, "is_encoder_decoder: expected false"),
                ({"eos_token_id": 2**64 - 1}, "eos_token_id: expected an integer, got 18446744073709551615"),
                ({"n_layer": 3}, "transformer.h.2.attn.c_attn.weight is missing"),
                ({"n_positions": 13}, "transformer.wpe.weight has another shape than config.json says: expected [13, 24], got [12, 24]")):
            with_settings(**changes)
            refused(expected)
        with open(config, "w", encoding="utf-8") as file:
            file.write('{"model_type": %s}' % ("[" * 400_000 + "]" * 400_000))
        refused("model_type: expected a text, got an array")
        with_settings()
        save_file({**tensors, "evil\nname": torch.ones(2)}, weights)
        refused("evil?name is no tensor of this model")
        save_file({name: value.double() for name, value in tensors.items()}, weights)
        refused("transformer.wte.weight is F64, expected F32, BF16 or F16")
        self.assertFalse(os.path.exists(self.path("weights")))
        save_file(tensors, weights)
        self.assertIn("theirs has weights already", command(IMPORT, self.path("theirs"), self.path("theirs"), expected=4))
        self.assertEqual(sorted(os.listdir(self.path("theirs"))), listed)
        os.rename(weights, self.path("elsewhere.safetensors"))
        refused("no weights here", code=4)
        os.symlink(self.path("elsewhere.safetensors"), weights)
        refused("model.safetensors: is a symbolic link", code=4)

    def test_hostile_indexes_are_refused(self):
        random_model("gpt2").save_pretrained(self.path("theirs"), max_shard_size="10KB")
        path = self.path("theirs/model.safetensors.index.json")
        with open(path, encoding="utf-8") as file:
            index = json.load(file)
        name = "transformer.wte.weight"
        files = sorted(set(index["weight_map"].values()))
        other = next(file for file in files if file != index["weight_map"][name])
        for file in ("../../etc/passwd", "/etc/passwd", "..", "", "a/b.safetensors", 7, None, ["x"], "missing.safetensors", other):
            with open(path, "w", encoding="utf-8") as out:
                json.dump({**index, "weight_map": {**index["weight_map"], name: file}}, out)
            code = 4 if file == "missing.safetensors" else 3
            text = command(IMPORT, self.path("theirs"), self.path("weights"), expected=code)
            self.assertTrue(name in text or "missing.safetensors" in text, text)
        deep = "[" * 400_000 + "]" * 400_000
        for text in ("", "[]", "{", '{"weight_map": []}', '{"weight_map": {}}', "[" * 100000, '{"weight_map": {"%s": %s}}' % (name, deep)):
            with open(path, "w", encoding="utf-8") as out:
                out.write(text)
            text = command(IMPORT, self.path("theirs"), self.path("weights"), expected=3)
        self.assertIn("'%s' lies in array, expected the name of a .safetensors file" % name, text)
        with open(path, "w", encoding="utf-8") as out:
            out.write(" " * 10_000_001)
        self.assertIn("expected at most 10000000", command(IMPORT, self.path("theirs"), self.path("weights"), expected=3))
        partial = {key: value for key, value in index["weight_map"].items() if key != name}
        with open(path, "w", encoding="utf-8") as out:
            json.dump({"weight_map": partial}, out)
        self.assertIn("is not listed", command(IMPORT, self.path("theirs"), self.path("weights"), expected=3))

    def test_what_cannot_be_read_is_a_failure_of_the_storage(self):
        """What is wrong in a file that was read has another exit code."""
        random_model("gpt2").save_pretrained(self.path("theirs"))
        weights, config = os.path.realpath(self.path("theirs/model.safetensors")), os.path.realpath(self.path("theirs/config.json"))
        words = IMPORT, self.path("theirs"), self.path("weights")
        for path in (weights, config):
            trace = "strace", "-qq", "-f", "-o", self.path("trace"), "-P", path, "-e", "trace=pread64", "-e", "inject=pread64:error=EIO"
            self.assertIn("read failed: %s: Input/output error" % path, command(*trace, *words, expected=4))
        with open(weights, "r+b") as file:
            file.truncate(os.path.getsize(weights) - 8)
        self.assertIn("model.safetensors: not a safetensors file: the tensors have", command(*words, expected=3))
        with open(config, "w", encoding="utf-8") as file:
            file.write(" " * 1_000_001)
        self.assertIn("config.json: has 1000001 bytes, expected at most 1000000", command(*words, expected=3))
        os.remove(config)
        self.assertIn("open for reading failed: %s: No such file" % config, command(*words, expected=4))

    def test_initial_weights_must_fit_the_model(self):
        self.name = "llama"
        random_model("llama").save_pretrained(self.path("theirs"))
        command(IMPORT, self.path("theirs"), self.path("weights"))
        config = self.config("weights", "checkpoint: {initial_weights: %s}" % self.path("weights"))
        text = command(TRAIN, config, "model.layers=3", expected=2)
        self.assertIn("blocks.2.attention.qkv.weight: missing", text)
        text = command(TRAIN, config, "model.feed_forward=40", "run.folder=%s" % self.path("other"), expected=2)
        self.assertIn("blocks.0.mlp.gate_up.weight: [82, 24] there, the model has [80, 24]", text)
        text = command(TRAIN, config, "checkpoint.initial_weights=%s" % self.path("theirs"), "run.folder=%s" % self.path("third"),
                       expected=2)
        self.assertIn("tools/strata import", text)
        command(TRAIN, config, "checkpoint.initial_weights=%s" % self.path("nowhere"), "run.folder=%s" % self.path("fourth"), expected=4)

    def test_only_lines_that_are_shown_are_compared_with_all_names(self):
        self.name = "llama"
        random_model("llama").save_pretrained(self.path("theirs"))
        command(IMPORT, self.path("theirs"), self.path("weights"))
        config = self.config("weights", "checkpoint: {initial_weights: %s}" % self.path("weights"))
        save_file({"blocks.%05d.attention." % i + 40 * "x": torch.empty(0) for i in range(10_000)}, self.path("weights/model.safetensors"))

        def processor_seconds(layers):
            begin = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
            text = command(TRAIN, config, "model.layers=%d" % layers, "run.folder=" + self.path("run%d" % layers), expected=2)
            self.assertIn("does not fit the model", text)
            return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - begin

        self.assertLess(processor_seconds(60), 3 * processor_seconds(6))

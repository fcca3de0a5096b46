# SPDX-License-Identifier: MIT
"""Checks packages of level aot_inductor for a user's widths: those that a configuration needs are made once and
found by their key."""
import fcntl
import hashlib
import importlib.metadata
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, "tools/aot_inductor")
sys.dont_write_bytecode = True

import fingerprint  # noqa: E402
import make_for_config  # noqa: E402
import make_packages  # noqa: E402
import package  # noqa: E402

os.umask(0o022)  # with another one, files that are written here would not count as packages
VERSION = importlib.metadata.version("torch").split("+")[0]


def formulas():
    return sorted(os.path.join("kernels", op, f"{op}.py") for op in os.listdir("kernels") if os.path.exists(f"kernels/{op}/{op}_programs.py"))


def calls_of(config, *overrides):
    """Returns the calls of a configuration that the launcher passes on."""
    command = ["trainer/validate", "--aot-shapes", f"configs/{config}.yaml", *overrides]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


def needed(config, architecture, *overrides, ops="all"):
    return make_for_config.needed(formulas(), calls_of(config, *overrides), architecture, VERSION, ops)


class Needed(unittest.TestCase):
    def test_the_build_has_what_the_shipped_configurations_need(self):
        arguments = type("Arguments", (), {"dtypes": "float32,bfloat16,float16"})()
        for arguments.architecture in ("x86-64-v3", "sm_90"):
            built = set()
            for path in formulas():
                module = make_packages.loaded(path[:-3] + "_programs.py")
                for program, dtype, widths in make_packages.all_functions(module, arguments):
                    op = os.path.basename(path)[:-3]
                    built.add(make_packages.key_of(VERSION, op, program.function, dtype, make_packages.text_of(widths), arguments.architecture, path))
            for config in ("gpt2_124m", "llama_1b", "llama_8b"):
                requests = needed(config, arguments.architecture)
                self.assertGreater(len(requests), 18)
                missing = [request for key, request in requests.items() if key not in built]
                self.assertEqual(missing, [], f"{config} on {arguments.architecture}")

    def test_a_key_is_of_all_files_that_a_package_is_made_from(self):
        folder = os.path.join(os.environ["TEST_TMPDIR"], "sources")
        compiler = os.path.join(folder, "compiler")
        shutil.copytree("tools/aot_inductor", compiler, ignore=shutil.ignore_patterns("__pycache__"))
        for name in ("rms_norm.py", "rms_norm_programs.py"):
            shutil.copy(f"kernels/rms_norm/{name}", folder)
        formula = os.path.join(folder, "rms_norm.py")

        def lines():
            fingerprint.compiler_facts.cache_clear()
            fingerprint.lines_of.cache_clear()
            return [*fingerprint.lines_of(formula)[:2], fingerprint.compiler_facts(compiler)]

        before = lines()
        self.assertEqual(before, [*fingerprint.lines_of("kernels/rms_norm/rms_norm.py")[:2], fingerprint.compiler_facts()])
        for path, changed in ((formula, 0), (os.path.join(folder, "rms_norm_programs.py"), 1), (os.path.join(compiler, "package.py"), 2),
                              (os.path.join(compiler, "make_for_config.py"), None)):
            os.chmod(path, 0o644)
            with open(path, "a", encoding="utf-8") as file:
                file.write("# more\n")
            after = lines()
            self.assertEqual([i for i in range(3) if after[i] != before[i]], [] if changed is None else [changed], path)
            before = after

    def test_widths_are_those_of_the_model(self):
        requests = set(needed("llama_8b", "sm_90").values())
        for request in ("rms_norm rms_norm_forward bfloat16 d=4096", "swiglu swiglu_backward bfloat16 f=14336",
                        "rotary rotary_by_head bfloat16 a=48,e=64", "cross_entropy cross_entropy_gradient bfloat16 v=128256",
                        "adamw adamw float32 c=16", "linear linear_none bfloat16 *"):
            self.assertIn(request, requests)
        for request in requests:
            self.assertNotRegex(request, "^(layer_norm|activation|dropout)|gelu|float16$")
        self.assertIn("rotary rotary_by_head float32 a=12,e=16", needed("quickstart", "sm_90").values())

    def test_every_function_is_called_for_some_shape(self):
        kinds = ("gelu", "gelu_tanh", "relu", "silu")
        shapes = {"activation": [f"16x768 {kind}" for kind in kinds], "swiglu": ["16x768", "16x768 gelu_tanh"],
                  **dict.fromkeys(("rotary", "rms_norm_rotary"), ["8x1024 positions, 32/8 heads of 128"]),
                  "linear": ["16x768->3072", *(f"16x768->3072{kind} bias" for kind in ("", " gelu", " gelu_tanh", " relu"))]}
        shapes["attention"] = [f"2x150 positions, 4/2 heads of 64, {pattern}{alibi}{softcap}{sinks}"
                               for pattern in ("causal", "causal & documents", "blocks(0.5, 7)", "causal & documents | global(3)")
                               for alibi in ("", ", alibi") for softcap in ("", ", softcap 1e-3") for sinks in ("", ", sinks")]  # fmt: skip
        for path in formulas():
            module = make_packages.loaded(path[:-3] + "_programs.py")
            called = {function for op, entry in module.CALLED_BY.items() for shape in shapes.get(op, ["16x768->256"]) for function in entry(shape)}
            self.assertEqual(called, {program.function for program in module.PROGRAMS}, path)

    def test_attention_is_for_gpus_and_its_own_widths(self):
        model = ["model.width=192", "model.heads=6", "model.key_value_heads=2", "model.sinks=true", "data.documents=separate"]
        patterns = {"causal & window(9)": "band", "causal & (window(9) | global(2))": "bits"}
        for pattern, mask in patterns.items():
            overrides = [*model, f"model.attention={pattern}"]
            requests = set(needed("quickstart", "sm_90", *overrides, ops="attention").values())
            self.assertEqual(requests, {f"attention {direction}_{mask}_documents_sinks float32 e=5,g=3,d=32" for direction in ("forward", "backward")})
            self.assertEqual(needed("quickstart", "x86-64-v3", *overrides, ops="attention"), {})
            self.assertEqual(needed("quickstart", "sm_90", *overrides, "run.ranks=2", "sharding.sequence=2", ops="attention"), {})

    def test_the_calls_of_the_proof_of_attention(self):
        done = subprocess.run([sys.executable, "tests/kernels/attention/proof_calls.py"], capture_output=True, text=True, check=True)
        lines = done.stdout.splitlines()
        found = make_for_config.needed(formulas(), lines, "sm_90", "2")
        self.assertEqual(len(found), 2 * len(lines))  # a forward and a backward for each
        self.assertGreater(len(found), 200)

    def test_images(self):
        requests = set(needed("quickstart_vision", "x86-64-v3").values())
        for request in ("linear linear_gelu float32 *", "linear gelu_gradient float32 *", "layer_norm layer_norm_forward float32 *"):
            self.assertIn(request, requests)
        for request in requests:
            self.assertNotRegex(request, "^(rms_norm|rotary|swiglu|embedding|dropout)|gelu_tanh|relu")

    def test_widths_of_a_mixer(self):
        model = "model={type: mixer, layers: 2, width: 512, token_width: 256, feed_forward: 1024, image_size: 28, patch: 7, channels: 1, classes: 10}"
        requests = set(needed("quickstart_vision", "sm_90", model).values())
        for request in ("linear linear_gelu float32 o=256", "linear gelu_gradient float32 o=1024", "linear bias_gradient float32 o=512",
                        "layer_norm add_layer_norm_backward float32 d=512"):
            self.assertIn(request, requests)
        for request in requests:  # 16 patches and 10 classes have no packages of their own
            self.assertNotRegex(request, r"^(rms_norm|rotary|swiglu|embedding)|gelu_tanh|relu|o=1[06]$")

    def test_evaluations_of_sampled_graphs_multiply_aggregated_features(self):
        graph = ["data.nodes=60", "data.edges=400", "model.features=512", "model.layers=2"]
        epilogue, activation = "linear linear_relu bfloat16 o=256", "activation relu_forward bfloat16 c=16"
        for sampling, both in ([], False), (["data.neighbors=[5, 5]", "batch=8", "micro_batch=8"], True):
            requests = set(needed("arxiv_size", "sm_90", *graph, *sampling).values())
            self.assertIn(epilogue, requests)
            self.assertEqual(activation in requests, both)

    def test_stochastic_depth_draws_in_float32(self):
        for share, there in ("0", False), ("0.1", True):
            requests = needed("quickstart_vision", "x86-64-v3", "precision.compute=bfloat16", f"model.stochastic_depth={share}").values()
            self.assertEqual("dropout dropout_rows float32 *" in requests, there)

    def test_types_of_all_groups(self):
        precision = "precision={compute: bfloat16, modules: [{only: root, compute: float32}]}"
        requests = set(needed("quickstart", "x86-64-v3", precision).values())
        for dtype in ("bfloat16", "float32"):
            self.assertIn(f"rms_norm rms_norm_forward {dtype} *", requests)

    def test_float16_uses_packages_for_any_width(self):
        """Except attention, which has none."""
        requests = set(needed("llama_1b", "sm_90", "precision={compute: float16, reduce: float16}").values())
        for request in ("rms_norm rms_norm_forward float16 *", "sum_of_squares add_squares float16 *", "attention forward_band float16 e=6,g=4,d=64"):
            self.assertIn(request, requests)
        for request in requests:
            self.assertRegex(request, r"(float16 \*|float32 \S+)$|^attention ")

    def test_only_the_ops_that_are_asked_for(self):
        requests = needed("llama_8b", "x86-64-v3", ops="rms_norm,linear_cross_entropy").values()
        self.assertEqual({request.split()[0] for request in requests}, {"rms_norm", "cross_entropy"})
        # linear recomputes its gelu with activation.
        requests = needed("gpt2_124m", "x86-64-v3", ops="linear").values()
        self.assertEqual({request.split()[0] for request in requests}, {"linear", "activation"})


class Made(unittest.TestCase):
    def start(self, output):
        """Starts the command of tools/strata packages, for one small op."""
        command = [sys.executable, "tools/aot_inductor/make_for_config.py", "--ops", "sum_of_squares", "--architecture", "x86-64-v3", "--root", ".",
                   "--built", "nowhere", "--output", output]
        with tempfile.TemporaryFile("w+") as calls:
            calls.write("\n".join(calls_of("gpt2_124m")))
            calls.seek(0)
            return subprocess.Popen(command, stdin=calls, stderr=subprocess.PIPE, text=True)

    def make(self, output):
        """Returns the output of the command."""
        process = self.start(output)
        errors = process.communicate()[1]
        self.assertEqual(process.returncode, 0, errors)
        return errors

    def test_what_another_command_compiles_meanwhile_is_found(self):
        output = os.path.join(os.environ["TEST_TMPDIR"], "shared")
        os.mkdir(output)
        with open(output + "/.lock", "w", encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            process = self.start(output)
            self.assertIn("waiting for another command", process.stderr.readline())
            library = output + "/theirs.so"
            with open(library, "wb") as file:
                file.write(b"code")
            package.write_text(library, [[key, *["-"] * 8] for key in needed("gpt2_124m", "x86-64-v3", ops="sum_of_squares")])
        self.assertEqual(process.communicate()[1], "")
        self.assertEqual((process.returncode, sorted(os.listdir(output))), (0, [".lock", "theirs.so", "theirs.txt"]))

    def test_once(self):
        """A package with a damaged library is made again, in the place of its old text. Of other texts, only those that promise what
        is needed are removed."""
        output = os.path.join(os.environ["TEST_TMPDIR"], "packages")
        os.mkdir(output)
        wanted = needed("gpt2_124m", "x86-64-v3", ops="sum_of_squares")
        old = f"{output}/x86-64-v3-{hashlib.sha1(''.join(wanted).encode()).hexdigest()[:12]}"
        with open(old + ".so", "wb") as file:
            file.write(b"code")
        package.write_text(old + ".so", [[key, *["-"] * 8] for key in wanted])
        os.truncate(old + ".so", 3)
        os.remove(self.write_others(output))
        self.assertIn("compiling 2 functions of level aot_inductor for x86-64-v3", self.make(output))
        found = make_for_config.functions_of_packages(output)
        self.assertEqual({path: functions for path, functions in found.items() if functions}, {old + ".txt": set(wanted)})
        left = {".lock", "notes.txt", "empty.txt", "unneeded.txt", *(os.path.basename(old) + end for end in (".so", ".txt"))}
        self.assertEqual(set(os.listdir(output)), left)
        self.assertEqual(self.make(output), "", "everything was there")

    def write_others(self, output):
        """Writes a package of what is needed, the text of one that is not needed, and texts of no package. Returns the library of the first."""
        theirs, library = output + "/theirs.so", output + "/unneeded.so"
        for path in (theirs, library, output + "/notes.txt", output + "/empty.txt"):
            with open(path, "wb") as file:
                file.write(b"" if "empty" in path else b"some words\n")
        package.write_text(theirs, [[key, *["-"] * 8] for key in needed("gpt2_124m", "x86-64-v3", ops="sum_of_squares")])
        package.write_text(library, [["key", *["-"] * 8]])
        os.remove(library)
        return theirs

    def test_a_package_is_a_library_with_its_own_text(self):
        output = os.path.join(os.environ["TEST_TMPDIR"], "damaged")
        os.mkdir(output)
        library, text = output + "/some.so", output + "/some.txt"

        def made(content=b"code", **replaced):
            with open(library, "wb") as file:
                file.write(b"code")
            package.write_text(library, [["key", *["-"] * 8]])
            with open(library, "wb") as file:
                file.write(content)
            with open(text, encoding="utf-8") as file:
                lines = file.read()
            for before, after in replaced.items():
                lines = lines.replace(before, after)
            with open(text, "w", encoding="utf-8") as file:
                file.write(lines)
            return make_for_config.functions_of_packages(output)[text]

        self.assertEqual(made(), {"key"})
        for content in (b"", b"cod", b"more code", b"eode"):
            self.assertEqual(made(content), set(), content)
        for name in ("../damaged/some.so", library, ""):
            self.assertEqual(made(**{"some.so": name}), set(), name)
        for before, after in (("package 1", "package 2"), ("\t-\n", "\n"), ("function", "functio"), ("sha1 ", "sha1 0")):
            self.assertEqual(made(**{before: after}), set(), before)
        for path in (library, text):
            made()
            os.chmod(path, 0o664)
            self.assertEqual(make_for_config.functions_of_packages(output), {text: set()}, path)
            os.chmod(path, 0o644)
        self.assertEqual(make_for_config.functions_of_packages(output), {text: {"key"}})
        os.remove(library)
        self.assertEqual(make_for_config.functions_of_packages(output), {text: set()})
        for other in (b"", b"strata \xff", b"strata package 2\nlibrary some.so\n"):
            with open(text, "wb") as file:
                file.write(other)
            self.assertEqual(make_for_config.functions_of_packages(output), {text: set()}, other)

    def test_a_folder_with_all_that_is_needed_stays_as_it_is(self):
        output = os.path.join(os.environ["TEST_TMPDIR"], "with_other_files")
        os.mkdir(output)
        self.write_others(output)
        before = sorted(os.listdir(output))
        self.assertEqual(self.make(output), "")
        self.assertEqual(sorted(os.listdir(output)), before, "everything was there, so nothing was written")


if __name__ == "__main__":
    unittest.main()

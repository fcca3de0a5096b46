"""fuzz_target: one source file is an ordinary test by g++, and a libFuzzer program by Debian's clang for who asks for it."""

load("@wheels//:site.bzl", "SITE")

# Objects and headers of a library and of all that it depends on.
_Instrumented = provider(fields = ["objects", "headers"])

# libFuzzer reports what a sanitizer finds as a crash, so nothing may recover. Debian's libraries and LibTorch are
# linked as they are: their code is not instrumented, and the search learns nothing from its branches.
_SEARCH = ["-g", "-fno-omit-frame-pointer", "-fsanitize=fuzzer-no-link,address,undefined", "-fno-sanitize-recover=undefined"]
_LINK_SEARCH = ["-g", "-fsanitize=fuzzer,address,undefined"]

# With --define=fuzz=coverage the programs count how often each line runs instead. They name sources as in the checkout.
_COVERAGE = ["-fsanitize=fuzzer-no-link", "-fprofile-instr-generate", "-fcoverage-mapping", "-fcoverage-compilation-dir=."]
_LINK_COVERAGE = ["-fsanitize=fuzzer", "-fprofile-instr-generate"]
_COMPILE = [
    "-std=c++20",
    "-O1",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-DAT_PER_OPERATOR_HEADERS",
    "-isystem" + SITE + "/torch/include",
    "-isystem" + SITE + "/torch/include/torch/csrc/api/include",
    "-I.",
    "-c",
]
_LIBRARIES = [
    "-Wl,--as-needed",
    "-lyaml-cpp",
    "-lcrypto",
    "-lz",
    "-lpng16",
    "-ljpeg",
    "-larchive",
    "-L" + SITE + "/torch/lib",
    "-Wl,-rpath," + SITE + "/torch/lib",
    "-ltorch_cpu",
    "-lc10",
]

def _counts_lines(ctx):
    return ctx.var.get("fuzz") == "coverage"

def _is_header(file):
    return file.extension in ["h", "inc"]

def _compile(ctx, folder, sources, headers):
    objects = []
    for source in sources:
        object = ctx.actions.declare_file("_fuzz/%s/%s.o" % (folder, source.basename))
        ctx.actions.run(
            executable = "/usr/bin/clang++-14",
            # Generated headers are in the folder of what was built.
            arguments = (_COVERAGE if _counts_lines(ctx) else _SEARCH) + _COMPILE + ["-I" + ctx.bin_dir.path, source.path, "-o", object.path],
            inputs = depset([source], transitive = [headers]),
            outputs = [object],
            env = {"PATH": "/usr/bin:/bin"},
            mnemonic = "FuzzCompile",
            progress_message = "Compiling %s for libFuzzer" % source.short_path,
        )
        objects.append(object)
    return objects

def _instrument(target, ctx):
    below = [dep[_Instrumented] for dep in getattr(ctx.rule.attr, "deps", []) if _Instrumented in dep]

    # The libraries of Debian and of the wheels are linked by name.
    ours = target.label.workspace_name == ""
    sources = getattr(ctx.rule.files, "srcs", []) if ours else []
    headers = depset(
        [file for file in sources if _is_header(file)] + (getattr(ctx.rule.files, "hdrs", []) if ours else []),
        transitive = [info.headers for info in below],
    )
    objects = _compile(ctx, target.label.name, [file for file in sources if file.extension == "cc"], headers)
    return [_Instrumented(objects = depset(objects, transitive = [info.objects for info in below]), headers = headers)]

# Compiles a library once for all programs that need it.
_instrumented = aspect(implementation = _instrument, attr_aspects = ["deps"])

def _program(ctx):
    below = [dep[_Instrumented] for dep in ctx.attr.deps]
    headers = depset(transitive = [info.headers for info in below])
    objects = depset(_compile(ctx, ctx.label.name, ctx.files.srcs, headers), transitive = [info.objects for info in below])
    program = ctx.actions.declare_file(ctx.label.name)
    ctx.actions.run(
        executable = "/usr/bin/clang++-14",
        arguments = (_LINK_COVERAGE if _counts_lines(ctx) else _LINK_SEARCH) + [object.path for object in objects.to_list()] + _LIBRARIES + ["-o", program.path],
        inputs = objects,
        outputs = [program],
        env = {"PATH": "/usr/bin:/bin"},
        mnemonic = "FuzzLink",
    )
    return [DefaultInfo(files = depset([program]), executable = program)]

_fuzz_program = rule(
    implementation = _program,
    executable = True,
    attrs = {
        "srcs": attr.label_list(allow_files = [".cc"]),
        "deps": attr.label_list(aspects = [_instrumented]),
    },
)

def fuzz_target(name, deps, mutations = 20000, size = "small"):
    """The target of <name>_fuzz.cc, whose seeds are in corpus/<name>.

    <name>_fuzz_test replays the seeds and a number of mutations of them. <name>_fuzz is the libFuzzer program; it is manual,
    because clang is installed only for `tools/strata fuzz`.
    """
    source = name + "_fuzz.cc"
    seeds = native.glob(["corpus/%s/*" % name])
    native.cc_test(
        name = name + "_fuzz_test",
        size = size,
        timeout = "long",  # with STRATA_TEST_ALL it takes 50 times as long
        srcs = [source],
        args = ["tests/fuzz/corpus/" + name, str(mutations)],
        data = seeds,
        deps = deps + ["//tests/fuzz/harness:target", "//tests/fuzz/harness:replay"],
    )
    _fuzz_program(
        name = name + "_fuzz",
        testonly = True,
        srcs = [source],
        tags = ["manual"],
        deps = deps + ["//tests/fuzz/harness:target", "//tests/fuzz/harness:libfuzzer"],
    )

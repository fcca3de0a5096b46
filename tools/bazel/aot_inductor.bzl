"""aot_inductor_packages: an op's formula compiled ahead of time by Inductor, for CPUs or for GPUs that need not be there."""

load("@wheels//:site.bzl", "PYTHON")

def _packages(ctx):
    folder = ctx.actions.declare_directory(ctx.label.name)
    arguments = [ctx.file._tool.path, ctx.file.formula.path, "--architecture", ctx.attr.architecture, "--dtypes", ",".join(ctx.attr.dtypes), "--output", folder.path]
    for widths in ctx.attr.widths:
        arguments += ["--widths", widths]
    ctx.actions.run(
        executable = PYTHON,
        arguments = arguments,
        inputs = [ctx.file._tool, ctx.file.formula] + ctx.files._parts,
        outputs = [folder],
        # g++ and ld are found by it.
        env = {"PATH": "/usr/bin:/bin", "HOME": "/tmp"},
        mnemonic = "AotInductor",
        progress_message = "Compiling %s by Inductor for %s" % (ctx.file.formula.short_path, ctx.attr.architecture),
    )
    return [DefaultInfo(files = depset([folder]), runfiles = ctx.runfiles(files = [folder]))]

# The folder of the target's name holds the library and its text. One action for an op: importing torch costs 5 s, a
# function 1 s.
aot_inductor_packages = rule(
    implementation = _packages,
    attrs = {
        "formula": attr.label(allow_single_file = [".py"], mandatory = True),
        "architecture": attr.string(values = ["x86-64-v3", "sm_90"], mandatory = True),
        "dtypes": attr.string_list(default = ["float32", "bfloat16", "float16"]),
        "widths": attr.string_list(mandatory = True, doc = "d=* or d=4096, see make_packages.py"),
        "_tool": attr.label(default = "//tools/aot_inductor:make_packages.py", allow_single_file = True),
        "_parts": attr.label(default = "//tools/aot_inductor:parts"),
    },
)

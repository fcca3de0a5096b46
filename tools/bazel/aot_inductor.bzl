"""aot_inductor_packages: Inductor compiles formulas ahead of time, for CPUs or GPUs. No GPU is needed for it."""

load("@wheels//:site.bzl", "PYTHON")

def _packages(ctx):
    folder = ctx.actions.declare_directory(ctx.label.name)
    formulas = [file.path for file in ctx.files.formulas if not file.path.endswith("_programs.py")]
    ctx.actions.run(
        executable = PYTHON,
        arguments = ["-W", "ignore", ctx.file._tool.path] + formulas + ["--architecture", ctx.attr.architecture, "--output", folder.path],
        inputs = ctx.files.formulas + ctx.files._compiler,
        outputs = [folder],
        # Inductor finds g++ and ld by this PATH.
        env = {"PATH": "/usr/bin:/bin", "HOME": "/tmp"},
        mnemonic = "AotInductor",
        progress_message = "Compiling %d formulas by Inductor for %s" % (len(formulas), ctx.attr.architecture),
    )
    return [DefaultInfo(files = depset([folder]), runfiles = ctx.runfiles(files = [folder]))]

# The folder has the target's name, which ends in _packages, and holds one shared library and the text file that lists its
# functions. Ops share a library, because a fixed 20 s of CPU go into torch, Inductor's start and LibTorch's headers. A
# function costs 1 s.
aot_inductor_packages = rule(
    implementation = _packages,
    attrs = {
        "formulas": attr.label_list(allow_files = [".py"], mandatory = True, doc = "<op>.py and <op>_programs.py of each op"),
        "architecture": attr.string(values = ["x86-64-v3", "sm_90"], mandatory = True),
        "_tool": attr.label(default = "//tools/aot_inductor:make_packages.py", allow_single_file = True),
        "_compiler": attr.label(default = "//tools/aot_inductor:compiler"),
    },
)

"""program: a command that is part of the executable //tools:programs, and a link to it with the name of the command."""

load("//tools/bazel:library.bzl", "torch_library")

def _link_impl(ctx):
    link = ctx.actions.declare_file(ctx.label.name)
    ctx.actions.symlink(output = link, target_file = ctx.executable.executable, is_executable = True)
    runfiles = ctx.runfiles([link]).merge(ctx.attr.executable[DefaultInfo].default_runfiles)
    return DefaultInfo(executable = link, files = depset([link]), runfiles = runfiles)

# The arguments of a rule whose target is a link. It also says executable = True or test = True.
LINK = {
    "implementation": _link_impl,
    "attrs": {"executable": attr.label(executable = True, cfg = "target")},
}

link = rule(executable = True, **LINK)

def program(name, srcs = None, deps = [], **kwargs):
    """The program `name`, whose main function is <name>_main of tools/programs.h. It stands in <name>.cc, unless srcs are given.

    A new one has its name in tools/programs.h and PROGRAMS of tools/launcher/build.sh. It is in the deps of //tools:programs as
    <name>_main, and in PROGRAMS of tools/BUILD if the archive has it.
    """
    torch_library(
        name = name + "_main",
        srcs = srcs or [name + ".cc"],
        deps = deps + ["//tools:programs_header"],
        visibility = ["//tools:__pkg__"],
    )
    link(name = name, executable = "//tools:programs", **kwargs)

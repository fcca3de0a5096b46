"""gpu_table: a header that says on which GPUs the code of each op runs, read from the code that the op links."""

load("@wheels//:site.bzl", "PYTHON")

GpuCode = provider(doc = "Files with code for GPUs: objects of cuda_library, and sources of triton_library.", fields = ["files"])

def _is_gpu_code(file):
    return file.basename.endswith(".cu.o") or file.basename.endswith("_triton_kernels.cc")

def _gpu_code_impl(_target, ctx):
    # Kernels that are called on some GPUs alone, because is_on_hopper() is asked first, do not keep an op from others.
    is_asked = "asked" in getattr(ctx.rule.attr, "tags", [])
    own = [file for file in getattr(ctx.rule.files, "srcs", []) if _is_gpu_code(file) and not is_asked]
    linked = [dep[GpuCode].files for dep in getattr(ctx.rule.attr, "deps", []) if GpuCode in dep]
    return [GpuCode(files = depset(own, transitive = linked))]

_gpu_code = aspect(implementation = _gpu_code_impl, attr_aspects = ["deps"])

def _gpu_table_impl(ctx):
    out = ctx.actions.declare_file(ctx.label.name + ".h")
    words = ["--packages", ctx.attr.packages]
    code = []
    for op in ctx.attr.ops:
        files = op[GpuCode].files.to_list()
        code += files
        libraries = ctx.attr.libraries.get(op.label.name, "0")
        words += ["--op", op.label.name, libraries] + [file.path for file in files]
    arguments = ctx.actions.args()
    arguments.add_all(words)
    ctx.actions.run_shell(
        outputs = [out],
        inputs = code + [ctx.file._reader],
        arguments = [arguments],
        command = "%s %s \"$@\" > %s" % (PYTHON, ctx.file._reader.path, out.path),
    )
    return [DefaultInfo(files = depset([out]))]

gpu_table = rule(
    implementation = _gpu_table_impl,
    doc = "The header name.h. `packages` is the architecture of the packages of level aot_inductor.",
    attrs = {
        "ops": attr.label_list(aspects = [_gpu_code], mandatory = True),
        "libraries": attr.string_dict(doc = "Ops whose level cuda calls a library: the oldest compute capability for which the library has the function."),
        "packages": attr.string(mandatory = True),
        "_reader": attr.label(default = "//tools/bazel:gpu_code.py", allow_single_file = True),
    },
)

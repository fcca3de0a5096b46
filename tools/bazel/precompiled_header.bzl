"""precompiled_header: headers that g++ reads once for all files that start with them; headers of LibTorch take it 4 s."""

load("@bazel_tools//tools/cpp:toolchain_utils.bzl", "find_cpp_toolchain")

def _precompiled_header(ctx):
    toolchain = find_cpp_toolchain(ctx)
    features = cc_common.configure_features(
        ctx = ctx,
        cc_toolchain = toolchain,
        requested_features = ctx.features,
        unsupported_features = ctx.disabled_features,
    )
    headers = cc_common.merge_cc_infos(cc_infos = [dep[CcInfo] for dep in ctx.attr.deps]).compilation_context
    source = ctx.actions.declare_file(ctx.label.name + ".h")
    compiled = ctx.actions.declare_file(ctx.label.name + ".h.gch")  # g++ takes it if it lies beside the header
    ctx.actions.write(source, "".join(["#include <%s>\n" % header for header in ctx.attr.includes]))

    # g++ ignores it in a file that is compiled with other options, so these are the options of all files.
    variables = cc_common.create_compile_variables(
        feature_configuration = features,
        cc_toolchain = toolchain,
        source_file = source.path,
        output_file = compiled.path,
        user_compile_flags = ctx.fragments.cpp.copts + ctx.fragments.cpp.cxxopts + ["-x", "c++-header"],
        quote_include_directories = headers.quote_includes,
        include_directories = headers.includes,
        system_include_directories = headers.system_includes,
        preprocessor_defines = headers.defines,
    )
    command = {"feature_configuration": features, "action_name": "c++-compile"}
    ctx.actions.run(
        executable = cc_common.get_tool_for_action(**command),
        arguments = cc_common.get_memory_inefficient_command_line(variables = variables, **command),
        env = cc_common.get_environment_variables(variables = variables, **command),
        inputs = depset([source], transitive = [headers.headers, toolchain.all_files]),
        outputs = [compiled],
        mnemonic = "CppHeader",
        progress_message = "Compiling the headers of " + str(ctx.label),
    )
    files = depset([source, compiled])
    return [DefaultInfo(files = files), CcInfo(compilation_context = cc_common.create_compilation_context(headers = files))]

precompiled_header = rule(
    implementation = _precompiled_header,
    attrs = {
        "includes": attr.string_list(mandatory = True),
        "deps": attr.label_list(providers = [CcInfo]),
        "_cc_toolchain": attr.label(default = "@bazel_tools//tools/cpp:current_cc_toolchain"),
    },
    fragments = ["cpp"],
    toolchains = ["@bazel_tools//tools/cpp:toolchain_type"],
)

"""Repositories made from what Debian and pip installed; nothing is downloaded."""

def _debian_rules_cc(ctx):
    # Debian's rules_cc asks for a newer Bazel; the rules it wraps are native in 4.2.3.
    for name in ["action_names", "cc_toolchain_config_lib", "find_cc_toolchain"]:
        ctx.symlink("/usr/share/bazel/rules/cc/cc/" + name + ".bzl", "cc/" + name + ".bzl")
    rules = ["binary", "import", "library", "proto_library", "test", "toolchain", "toolchain_suite"]
    ctx.file("cc/defs.bzl", "\n".join(["cc_%s = native.cc_%s" % (rule, rule) for rule in rules]))
    ctx.file("cc/BUILD", "")
    ctx.file("BUILD", "")

debian_rules_cc = repository_rule(implementation = _debian_rules_cc)

def _empty_coverage_tools(ctx):
    # Bazel asks for this repository when it runs tests; without it, it would try the network.
    ctx.file("noop.sh", "true\n", executable = True)
    ctx.file("BUILD", """
package(default_visibility = ["//visibility:public"])
sh_binary(name = "coverage_report_generator", srcs = ["noop.sh"])
sh_binary(name = "lcov_merger", srcs = ["noop.sh"])
""")

empty_coverage_tools = repository_rule(implementation = _empty_coverage_tools)

# RUNPATH names torch/lib by its real path: the wheel's own $ORIGIN paths find the nvidia wheels from there.
_WHEELS_BUILD = """
package(default_visibility = ["//visibility:public"])

cc_library(
    name = "libtorch",
    hdrs = glob(["torch/include/%s/**/*.h" % room for room in ["ATen", "c10", "torch", "caffe2"]] + ["torch/include/torch/**/*.hpp"]),
    includes = ["torch/include", "torch/include/torch/csrc/api/include"],
    linkopts = [
        "-L{site}/torch/lib",
        "-Wl,-rpath,{site}/torch/lib",
        "-Wl,--no-as-needed",
        "-ltorch_cpu",
        "-ltorch_cuda",
        "-lc10",
        "-lc10_cuda",
        "-Wl,--as-needed",
    ],
    deps = [":cuda_headers"],
)

cc_library(
    name = "fmt",
    hdrs = glob(["torch/include/fmt/**/*.h"]),
    defines = ["FMT_HEADER_ONLY=1"],
    includes = ["torch/include"],
)

cc_library(
    name = "cuda_headers",
    hdrs = glob(["nvidia/cu13/include/**"]),
    includes = ["nvidia/cu13/include"],
)

cc_library(
    name = "nccl",
    hdrs = glob(["nvidia/nccl/include/*.h"]),
    includes = ["nvidia/nccl/include"],
    linkopts = ["{site}/nvidia/nccl/lib/libnccl.so.2", "-Wl,-rpath,{site}/nvidia/nccl/lib"],
    deps = [":cuda_headers"],
)

cc_library(
    name = "cudart",
    linkopts = ["{site}/nvidia/cu13/lib/libcudart.so.13", "-Wl,-rpath,{site}/nvidia/cu13/lib"],
    deps = [":cuda_headers"],
)

cc_library(
    name = "cublaslt",
    linkopts = ["{site}/nvidia/cu13/lib/libcublasLt.so.13", "-Wl,-rpath,{site}/nvidia/cu13/lib"],
    deps = [":cuda_headers"],
)

cc_library(
    name = "cusparselt",
    hdrs = glob(["nvidia/cusparselt/include/*.h"]),
    includes = ["nvidia/cusparselt/include"],
    linkopts = ["{site}/nvidia/cusparselt/lib/libcusparseLt.so.0", "-Wl,-rpath,{site}/nvidia/cusparselt/lib"],
    deps = [":cuda_headers"],
)

# Headers only: they find cuDNN in the process, where LibTorch has loaded it. Their warnings are not ours.
cc_library(
    name = "cudnn_frontend",
    hdrs = glob(["include/cudnn*.h", "include/cudnn_frontend/**", "nvidia/cudnn/include/*.h"]),
    defines = ["CUDNN_FRONTEND_SKIP_JSON_LIB", "NV_CUDNN_FRONTEND_USE_DYNAMIC_LOADING"],
    includes = ["include", "nvidia/cudnn/include"],
    linkopts = ["-ldl"],
    deps = [":cuda_headers"],
)
"""

def _wheels(ctx):
    root = str(ctx.path(Label("//:WORKSPACE")).dirname)
    program = "import importlib.metadata, os, sysconfig; print(os.path.realpath(sysconfig.get_path('purelib')), importlib.metadata.version('torch'))"
    found = ctx.execute([root + "/.venv/bin/python", "-c", program])
    if found.return_code:
        fail("no Python environment in .venv: run tools/strata setup")
    site, _, version = found.stdout.strip().rpartition(" ")
    for package in ["torch", "nvidia", "include"]:
        ctx.symlink(site + "/" + package, package)
    ctx.file("BUILD", _WHEELS_BUILD.replace("{site}", site))
    python = site.rpartition("/lib/")[0] + "/bin/python"
    ctx.file("site.bzl", "SITE = '%s'\nPYTHON = '%s'\nLIBTORCH_VERSION = '%s'\n" % (site, python, version))

wheels = repository_rule(implementation = _wheels, local = True, configure = True)

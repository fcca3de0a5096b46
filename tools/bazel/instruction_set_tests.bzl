"""instruction_set_tests: runs a GoogleTest binary with the instruction sets of older processors."""

# For each set: the required flags of the processor, and the variables that limit ATen, oneDNN and MKL to it. Without
# them the libraries use the best kernels of the processor, with wider vectors and sums in another order.
_SETS = {
    "sse": (
        ["sse4_2"],
        ["ATEN_CPU_CAPABILITY=default", "ONEDNN_MAX_CPU_ISA=SSE41", "MKL_ENABLE_INSTRUCTIONS=SSE4_2"],
    ),
    "avx2": (
        ["avx2", "fma"],
        ["ATEN_CPU_CAPABILITY=avx2", "ONEDNN_MAX_CPU_ISA=AVX2", "MKL_ENABLE_INSTRUCTIONS=AVX2"],
    ),
    "avx512": (
        ["avx512f", "avx512bw", "avx512dq", "avx512vl"],
        ["ATEN_CPU_CAPABILITY=avx512", "ONEDNN_MAX_CPU_ISA=AVX512_CORE", "MKL_ENABLE_INSTRUCTIONS=AVX512"],
    ),
}

def instruction_set_tests(name, binary, args = [], size = "medium", **kwargs):
    """One test `<name>_<set>` per instruction set; `<name>` is the suite of them. Sets that the processor lacks are skipped."""
    for (kind, (flags, variables)) in _SETS.items():
        native.sh_test(
            name = name + "_" + kind,
            size = size,
            srcs = ["//tools/bazel:instruction_set_test.sh"],
            args = [",".join(flags), ",".join(variables), "$(rootpath %s)" % binary] + args,
            data = [binary],
            **kwargs
        )
    native.test_suite(
        name = name,
        tests = [":%s_%s" % (name, kind) for kind in _SETS],
    )

# SPDX-License-Identifier: MIT
"""Generates C++ code and cubins from exported functions with Inductor; package.py compiles them to a library.

Inductor would make one library per function, each with 280 KB of the same container code and 5 s of g++. Its last step
is therefore replaced by one that keeps the code, and package.py compiles the code of all functions of a package at once.
"""
import os
import re
from dataclasses import dataclass, field
from typing import Dict

import torch._inductor
from torch._inductor import codecache
from torch._inductor.virtualized import V

OPTIONS = {
    "aot_inductor.check_lowerbound": False,  # allows zero rows and one row
    "aot_inductor.dynamic_linkage": False,  # names the class of a function after the function
    "compile_threads": 1,
}
CPU_OPTIONS = {
    "cpp.dynamic_threads": True,  # reads the number of threads in each call
    "cpp.simdlen": 256,  # AVX2
}


@dataclass
class Generated:
    """The code that Inductor generated for one function."""

    name: str
    wrapper: str
    kernels: str
    cubins: Dict[str, str] = field(default_factory=dict)  # name of the kernel -> path of its cubin


def generate(exported, name, options) -> Generated:
    kept = []

    def keep(graph, wrapper_code, kernel_code, serialized_extern_kernel_nodes, *, device_type, additional_files):
        wanted = getattr(V.graph.wrapper_code, "_kernel_name_to_body", {})
        cubins = {kernel: entry["cubin_path"] for kernel, entry in codecache.CudaKernelParamCache.cache.items() if kernel in wanted}
        kept.append(Generated(name, wrapper_code, kernel_code, cubins))
        return os.devnull

    original = codecache.AotCodeCompiler.compile
    codecache.AotCodeCompiler.compile = staticmethod(keep)
    try:
        arguments, keywords = exported.example_inputs
        torch._inductor.aot_compile(
            exported.module(check_guards=False),
            arguments,
            keywords,
            options={**OPTIONS, **options, "aot_inductor.model_name_for_generated_files": name},
        )
    finally:
        codecache.AotCodeCompiler.compile = original
    (generated,) = kept
    if "proxy_executor_call_function" in generated.wrapper:
        operators = re.findall(r"proxy_executor_call_function.*", generated.wrapper)
        raise SystemExit(f"{name}: an operator has no C entry in LibTorch: {operators}")
    return generated

"""cuda_library: .cu files compiled for Hopper by the nvcc of the wheels; no CUDA toolkit is installed."""

load("@wheels//:site.bzl", "SITE")

def cuda_library(name, srcs, hdrs = [], deps = [], **kwargs):
    """A cc_library of .cu files. They include only CUDA headers, which takes 4 s per file instead of 24 s with LibTorch's."""
    objects = []
    for src in srcs:
        out = src + ".o"
        native.genrule(
            name = out + "_nvcc",
            srcs = [src] + hdrs,
            outs = [out],
            cmd = SITE + "/nvidia/cu13/bin/nvcc -std=c++20 -O3 -lineinfo -I. -isystem " + SITE + "/nvidia/cu13/include/cccl -Xcompiler=-fPIC,-Wall,-Wextra -Werror=all-warnings " +
                  "-gencode arch=compute_90a,code=sm_90a -c $(location " + src + ") -o $@",
        )
        objects.append(out)
    native.cc_library(
        name = name,
        srcs = objects,
        hdrs = hdrs,
        linkstatic = True,
        deps = deps + ["@wheels//:cudart"],
        **kwargs
    )

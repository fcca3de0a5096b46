"""cuda_library: .cu files compiled by the nvcc of the wheels; no CUDA toolkit is installed."""

load("@wheels//:site.bzl", "SITE")

HOPPER = "-gencode arch=compute_90a,code=sm_90a "

# The driver compiles it for the GPU that is there.
PTX = "-gencode arch=compute_{0},code=compute_{0} "

def cuda_library(name, srcs, hdrs = [], deps = [], oldest = None, **kwargs):
    """A cc_library of .cu files. They include only CUDA headers, which takes 4 s per file instead of 24 s with LibTorch's.

    Their kernels run on Hopper, and on all GPUs from compute capability `oldest` on, if it is given: "75", "80". Such
    files use nothing of Hopper. The code is compressed, because each program and each test has a copy of it; the driver
    reads it so.
    """
    objects = []
    for src in srcs:
        out = src + ".o"
        native.genrule(
            name = out + "_nvcc",
            srcs = [src] + hdrs,
            outs = [out],
            cmd = SITE + "/nvidia/cu13/bin/nvcc -std=c++20 -O3 -lineinfo -I. -isystem " + SITE + "/nvidia/cu13/include/cccl -Xcompiler=-fPIC,-Wall,-Wextra -Werror=all-warnings " +
                  "--compress-mode=size " + HOPPER + (PTX.format(oldest) if oldest else "") + "-c $(location " + src + ") -o $@",
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

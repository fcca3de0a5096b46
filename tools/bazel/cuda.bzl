"""cuda_library: .cu files compiled by the nvcc of the wheels; no CUDA toolkit is installed."""

load("@wheels//:site.bzl", "SITE")

NVCC = SITE + "/nvidia/cu13/bin/nvcc -std=c++20 -O3 -I. -isystem " + SITE + "/nvidia/cu13/include/cccl -Xcompiler=-fPIC,-Wall,-Wextra -Werror=all-warnings --compress-mode=size "

HOPPER = "-lineinfo -gencode arch=compute_90a,code=sm_90a "

# The driver compiles it for the GPU that is there.
PTX = "-gencode arch=compute_{0},code=compute_{0} "

def _object(src, hdrs, out, flags):
    native.genrule(
        name = out + "_nvcc",
        srcs = [src] + hdrs,
        outs = [out],
        cmd = NVCC + flags + "-c $(location " + src + ") -o $@",
    )

def cuda_library(name, srcs, hdrs = [], deps = [], oldest = None, portable = False, **kwargs):
    """A cc_library of .cu files. They include only CUDA headers, which takes 4 s per file instead of 24 s with LibTorch's.

    Their kernels run on Hopper, and on all GPUs from compute capability `oldest` on, if it is given: "75", "80", "90". Such
    files use nothing of Hopper. Files that do, and have another way for other GPUs, are `portable`: they are compiled a
    second time with STRATA_PORTABLE, for all GPUs from 8.0 on (kernels/cuda/code.h). The code is compressed, because each
    program and each test has a copy of it; the driver reads it so.
    """
    objects = []
    for src in srcs:
        out = src + ".o"
        if portable:
            hopper_object, portable_object = out.replace(".cu.o", "_hopper.o"), out.replace(".cu.o", "_portable.o")
            _object(src, hdrs, hopper_object, HOPPER)
            _object(src, hdrs, portable_object, "-DSTRATA_PORTABLE " + PTX.format("80"))
            native.genrule(name = out + "_both", srcs = [hopper_object, portable_object], outs = [out], cmd = "ld -r $(SRCS) -o $@")
        else:
            _object(src, hdrs, out, HOPPER + (PTX.format(oldest) if oldest else ""))
        objects.append(out)
    native.cc_library(
        name = name,
        srcs = objects,
        hdrs = hdrs,
        linkstatic = True,
        deps = deps + ["@wheels//:cudart"],
        **kwargs
    )

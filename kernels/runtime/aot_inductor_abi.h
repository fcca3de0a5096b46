// SPDX-License-Identifier: MIT
// The border between Strata and the library of a package: two C functions, made by tools/aot_inductor/package.py.
#pragma once

#include <cstddef>

struct AtenTensorOpaque;  // LibTorch's own handle of a tensor in C

namespace strata::kernels {

// Functions of a package are numbered in the order of its text. Both return nullptr, or what went wrong, to be freed.
// create: one model of one function for "cpu" or "cuda:0".
using PackageCreate = char*(size_t function, const char* device, void** model);
// run: the handles of the inputs are taken over, those of the outputs are given. A model runs one call at a time.
using PackageRun = char*(size_t function, void* model, AtenTensorOpaque** inputs, AtenTensorOpaque** outputs,
                         void* stream);

inline constexpr const char* kPackageCreate = "strata_package_create";
inline constexpr const char* kPackageRun = "strata_package_run";

}  // namespace strata::kernels

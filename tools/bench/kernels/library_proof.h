// SPDX-License-Identifier: MIT
// Proves the kernels of a library that is not part of the tree, before `bench kernels` times them.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <string_view>
#include <vector>

namespace strata::tools {

// Loads the library and proves each of its kernels for one of `ops` in each of `dtypes`, and prints a line for each.
// Without `ops`, these are all that the library has. Returns the ops that are proved.
//
// Throws an Error of code configuration if the library is refused or lacks one of `ops`, and of code numerics if a
// kernel does not agree; the message has the first failures of each op and type.
std::vector<std::string_view> prove_library(const std::string& path, const std::vector<std::string>& ops,
                                            const std::vector<at::ScalarType>& dtypes, at::Device device);

}  // namespace strata::tools

// SPDX-License-Identifier: MIT
// sparse_product: the product of a matrix and a pruned weight on sparse tensor cores, by cuSPARSELt.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string_view>

namespace strata::kernels {

// A matrix [N, K] with 2:4 zeros along K, as sparse tensor cores read it: half of its elements, and where they were.
struct CompressedWeight {
  at::Tensor bytes;                 // uint8; the library alone knows how they are ordered
  int64_t outputs = 0, inputs = 0;  // N, K
  at::ScalarType type = at::kBFloat16;
  bool is_transpose = false;  // of the weight that was compressed
};

// Compresses a pruned weight [N, K] of a GPU, bf16, with N and K that are multiples of kSparseMultiple. Of each
// four neighboring elements of a row at least two must be zeros; this is not checked. A meta tensor gives meta tensors.
// With `transpose` it is the transpose of the given weight [K, N], which has the zeros along its columns. Errors begin
// with `op`: a ValueError if a size or dtype is another, a c10::Error if the library fails.
CompressedWeight compressed(std::string_view op, const at::Tensor& weight, bool transpose = false);

// Returns x [M, K] weight^T + bias [N], contiguous [M, N], with sums in fp32. x has the type of the weight, and the
// elements of a row are adjacent. `bias` has the same type, or is undefined. M may be any number: rows are added up to
// a multiple of eight, which takes a copy of x.
//
// An algorithm is chosen once for each kind of call (sizes, types, bias) and kept for the process, as gemm() does:
// eager calls time all algorithms of cuSPARSELt. During the capture of a CUDA graph and under
// at::globalContext().deterministicAlgorithms() it is the one that the library proposes. None splits K.
at::Tensor sparse_product(std::string_view op, const at::Tensor& x, const CompressedWeight& weight,
                          const at::Tensor& bias = {});

}  // namespace strata::kernels

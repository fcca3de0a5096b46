// SPDX-License-Identifier: MIT
// A matrix as the kernels of operands read it, and pointers to what they write.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace strata::kernels {

using at::Tensor;

inline constexpr int64_t kOperandAlignment = 16;  // bytes, of rows and of codes

// Returns the matrix if the elements of each row are contiguous and all rows are at 16-byte boundaries, or a copy.
inline Tensor with_vectors(const Tensor& x) {
  const bool has_vectors = x.stride(1) == 1 && x.stride(0) * x.element_size() % kOperandAlignment == 0 &&
                           reinterpret_cast<uintptr_t>(x.const_data_ptr()) % kOperandAlignment == 0;
  return has_vectors ? x : x.clone(at::MemoryFormat::Contiguous);
}

// Null for an undefined tensor.
template <class T>
T* data_or_null(const Tensor& tensor) {
  return tensor.defined() ? static_cast<T*>(tensor.mutable_data_ptr()) : nullptr;
}

// True for the types of matrices that become operands.
inline bool is_operand_type(at::ScalarType type) {
  return type == at::kFloat || type == at::kBFloat16 || type == at::kHalf;
}

}  // namespace strata::kernels

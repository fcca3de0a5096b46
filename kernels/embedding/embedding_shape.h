// SPDX-License-Identifier: MIT
// EmbeddingShape: the sizes of embedding.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "kernels/runtime/op_shape.h"

namespace strata::kernels {

struct EmbeddingShape {
  int64_t rows, width;  // sizes of the result
  int64_t vocabulary;   // rows of the table

  bool operator==(const EmbeddingShape&) const = default;
  std::string_view op() const { return "embedding"; }
  std::string text() const { return sizes_text({rows, width}) + " of " + std::to_string(vocabulary); }
  Work forward_work(double element_bytes) const {
    return {double(rows) * kIndexBytes + 2 * double(rows) * double(width) * element_bytes, 0};
  }
  Work backward_work(double element_bytes) const {
    return {double(rows) * kIndexBytes + double(rows) * double(width) * element_bytes +
                double(vocabulary) * double(width) * element_bytes,
            0};
  }
};

}  // namespace strata::kernels

// SPDX-License-Identifier: MIT
// LayerNormShape: the sizes of layer_norm, add_layer_norm and layer_norm_gelu_tanh.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "kernels/norms/norm_work.h"
#include "kernels/runtime/op_shape.h"

namespace strata::kernels {

struct LayerNormShape {
  int64_t rows, width;
  bool bias = false;
  bool adds = false;       // the residual is added first: add_layer_norm
  bool gelu_tanh = false;  // applied to the result: layer_norm_gelu_tanh

  bool operator==(const LayerNormShape&) const = default;
  std::string_view op() const { return gelu_tanh ? "layer_norm_gelu_tanh" : adds ? "add_layer_norm" : "layer_norm"; }
  std::string_view key() const { return "layer_norm"; }
  std::string text() const { return sizes_text({rows, width}) + (bias ? " bias" : ""); }
  Work forward_work(double element_bytes) const { return work().forward(element_bytes); }
  Work backward_work(double element_bytes) const { return work().backward(element_bytes); }

 private:
  NormWork work() const { return {rows, width, adds, /*vectors=*/bias ? 2 : 1, /*statistics_of_row=*/2}; }
};

}  // namespace strata::kernels

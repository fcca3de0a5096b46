// SPDX-License-Identifier: MIT
#include "tools/bench/kernels/parsed_shape.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <vector>

#include "base/errors.h"
#include "kernels/activation/activation_shape.h"
#include "kernels/attention/attention_shape.h"
#include "kernels/attention/pattern/parse_pattern.h"
#include "kernels/cross_entropy/cross_entropy_shape.h"
#include "kernels/dropout/dropout_shape.h"
#include "kernels/embedding/embedding_shape.h"
#include "kernels/layer_norm/layer_norm_shape.h"
#include "kernels/linear/linear_shape.h"
#include "kernels/linear_cross_entropy/linear_cross_entropy_shape.h"
#include "kernels/rms_norm/rms_norm_shape.h"
#include "kernels/rms_norm_rotary/rms_norm_rotary_shape.h"
#include "kernels/rotary/rotary_shape.h"
#include "kernels/swiglu/swiglu_shape.h"

namespace strata::tools {

namespace {

using kernels::Activation;
using kernels::OpShape;
using Candidates = std::vector<OpShape>;

constexpr std::array kActivations = {Activation::none, Activation::gelu, Activation::gelu_tanh, Activation::relu,
                                     Activation::silu};

// Returns the whole numbers of the text in their order, or none if one is out of bounds.
std::vector<int64_t> sizes_in(std::string_view text) {
  std::vector<int64_t> sizes;
  int64_t product = 1;
  for (const char *at = text.data(), *end = at + text.size(); at != end;) {
    if (std::isdigit(static_cast<unsigned char>(*at)) == 0) {
      ++at;
      continue;
    }
    int64_t size = 0;
    const auto [next, error] = std::from_chars(at, end, size);
    if (error != std::errc{} || size < 1 || size > kLargestProduct / product) return {};
    product *= size;
    sizes.push_back(size);
    at = next;
  }
  return sizes;
}

// The shapes of `op` that have these sizes as rows and width, in the order of the text.
Candidates row_shapes(std::string_view op, const std::vector<int64_t>& n) {
  using namespace kernels;
  Candidates found;
  if (n.size() == 2) {
    found = {RmsNormShape{n[0], n[1]}, RmsNormShape{n[0], n[1], /*adds=*/true}, CrossEntropyShape{n[0], n[1]},
             DropoutShape{n[0], n[1]}};
    for (const bool bias : {false, true}) {
      for (const bool adds : {false, true}) found.push_back(LayerNormShape{n[0], n[1], bias, adds});
      found.push_back(LayerNormShape{n[0], n[1], bias, /*adds=*/false, /*gelu_tanh=*/true});
    }
    for (const Activation kind : kActivations) {
      found.push_back(ActivationShape{n[0], n[1], kind});
      if (is_gate(kind)) found.push_back(SwigluShape{n[0], n[1], kind});
    }
  } else if (n.size() == 3) {
    found = {EmbeddingShape{n[0], n[1], n[2]}, LinearCrossEntropyShape{n[0], n[1], n[2]}};
    for (const Activation kind : kActivations) {
      for (const bool bias : {false, true}) {
        if (is_epilogue(kind)) found.push_back(LinearShape{n[0], n[1], n[2], kind, bias});
      }
    }
  }
  std::erase_if(found, [&](const OpShape& shape) {
    return shape.op() != op || (op == "activation" && shape.as<ActivationShape>()->kind == Activation::none);
  });
  return found;
}

// The shape of an op of heads, as "8x1024 positions, 12/4 heads of 64" begins its text; after it a pattern.
Candidates head_shapes(std::string_view op, const std::string& text) {
  using namespace kernels;
  const size_t heads = text.find(" heads of ");
  if (heads == std::string::npos) return {};
  const size_t comma = text.find(", ", heads);
  const std::vector<int64_t> n = sizes_in(std::string_view(text).substr(0, comma));
  if (n.size() != 4 && n.size() != 5) return {};
  const int64_t shared = n.size() == 5 ? n[3] : n[2];
  if (op == "rotary") return {RotaryShape{n[0], n[1], n[2], shared, n.back()}};
  if (op == "rms_norm_rotary") return {RmsNormRotaryShape{n[0], n[1], n[2], shared, n.back()}};
  if (op != "attention" || comma == std::string::npos) return {};
  try {
    return {AttentionShape{n[0], n[1], n[2], shared, n.back(), parse_pattern(text.substr(comma + 2))}};
  } catch (const Error&) {
    return {};
  }
}

}  // namespace

std::optional<OpShape> parsed_shape(std::string_view op, const std::string& text) {
  Candidates candidates = head_shapes(op, text);
  if (candidates.empty()) candidates = row_shapes(op, sizes_in(text));
  const auto found = std::ranges::find_if(candidates, [&](const OpShape& shape) { return shape.text() == text; });
  return found == candidates.end() ? std::nullopt : std::optional(*found);
}

}  // namespace strata::tools

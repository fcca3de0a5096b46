// SPDX-License-Identifier: MIT
// Prints the packages that the cases of attention's proof request at level aot_inductor, one a line: "forward_bits for
// float32, widths e=5,g=3,d=128". There are none for CPUs, so every call on one is refused, and the refusal names it.
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>

#include <cstdio>
#include <functional>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/attention/attention.h"
#include "kernels/attention/attention_shape.h"
#include "kernels/attention/pattern/tile_masks.h"
#include "kernels/attention/pattern_levels.h"
#include "kernels/op_proofs.h"

namespace strata::kernels {
namespace {

// Each row is one document. Which documents there are does not matter for the package.
Tensor whole_rows(const AttentionShape& s) {
  std::vector<int32_t> offsets;
  for (int64_t row = 0; row <= s.batch; ++row) offsets.push_back(static_cast<int32_t>(row * s.positions));
  return at::tensor(offsets, at::kInt);
}

std::string refused_package(const std::function<void()>& call) {
  const std::string before = "attention/aot_inductor: there is no package of ", after = ", x86-64-v3 (key ";
  try {
    call();
  } catch (const c10::Error& error) {
    const std::string sentence = error.what_without_backtrace();
    const size_t end = sentence.find(after);
    if (!sentence.starts_with(before) || end == std::string::npos) throw;
    return sentence.substr(before.size(), end - before.size());
  }
  throw std::logic_error("a package for CPUs was found");
}

bool is_taken(const AttentionShape& s, at::ScalarType dtype) {
  constexpr Level level = Level::aot_inductor;
  return (s.queries == 0 || why_not_part(level, s.pattern, s.terms, s.head_width).empty()) &&
         why_not_heads(level, dtype != at::kFloat, s.head_width).empty() &&
         why_not_pattern(level, s.pattern, s.head_width).empty() &&
         why_not_terms(level, s.pattern, s.terms, s.head_width).empty();
}

void add_packages(const AttentionShape& s, at::ScalarType dtype, std::set<std::string>& packages) {
  const int64_t width = s.heads * s.head_width, whole = (s.positions + kMaskTile - 1) / kMaskTile * kMaskTile;
  const Tensor qkv = at::zeros({s.batch, s.positions, width + 2 * s.key_value_heads * s.head_width}, dtype);
  const Tensor y = at::zeros({s.batch, s.positions, width}, dtype);
  const Tensor logsumexp = at::zeros({s.batch, s.heads, whole}, at::kFloat);
  const bool has_documents = has_word(s.pattern, Pattern::Kind::documents);
  const AttentionOp::Arguments arguments = {
      s.heads,
      s.key_value_heads,
      {s.pattern, has_documents ? whole_rows(s) : Tensor()},
      {s.terms.alibi, s.terms.softcap, s.terms.sinks ? at::zeros({s.heads}, dtype) : Tensor()}};
  packages.insert(refused_package([&] { attention_forward_aot_inductor(qkv, arguments); }));
  packages.insert(refused_package([&] { attention_backward_aot_inductor(y, qkv, y, logsumexp, arguments); }));
}

}  // namespace
}  // namespace strata::kernels

int main() {
  using namespace strata::kernels;
  std::set<std::string> packages;
  for (const OpCase& op_case : proof_of("attention").cases()) {
    const AttentionShape& shape = *op_case.shape.as<AttentionShape>();
    for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16, at::kHalf}) {
      if (is_taken(shape, dtype)) add_packages(shape, dtype, packages);
    }
  }
  for (const std::string& package : packages) std::printf("%s\n", package.c_str());
  return 0;
}

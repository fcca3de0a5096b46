// SPDX-License-Identifier: MIT
#include "tests/kernels/op_cases.h"

#include <ATen/Context.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/cos.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/full.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/sin.h>
#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>

#include "kernels/activation/activation.h"
#include "kernels/adamw/adamw.h"
#include "kernels/attention/attention.h"
#include "kernels/dropout/dropout.h"
#include "kernels/embedding/embedding.h"
#include "kernels/global_norm/global_norm.h"
#include "kernels/layer_norm/layer_norm.h"
#include "kernels/linear/linear.h"
#include "kernels/neighbor_aggregate/neighbor_aggregate.h"
#include "kernels/rms_norm/rms_norm.h"
#include "kernels/rotary/rotary.h"
#include "kernels/swiglu/swiglu.h"
#include "tests/kernels/loss_cases.h"

namespace strata::kernels {
namespace {

using Leaves = std::vector<Tensor>;
using Sizes = std::vector<int64_t>;

constexpr double kEpsilon = 1e-5;

Tensor random(const Sizes& sizes) { return at::randn(sizes, at::kDouble); }
Tensor random_weight(int64_t width) { return random({width}).mul_(0.2).add_(1.0); }

std::string text(const Sizes& sizes) {
  std::string result;
  for (const int64_t size : sizes) result += (result.empty() ? "" : "x") + std::to_string(size);
  return result;
}

// A copy of what a case holds, on the CPU too, so that a call takes the same memory on every device.
Tensor copied_to(c10::Device device, const Tensor& tensor) {
  return tensor.to(device, tensor.scalar_type(), /*non_blocking=*/false, /*copy=*/true);
}
NeighborGraph copied_to(c10::Device device, const NeighborGraph& graph) {
  return graph.with_each([&](const Tensor& tensor) { return copied_to(device, tensor); });
}

// Small, odd, one row, no row, narrow, and wide. Width 1 is left out, because gradients of norms are then only
// rounding.
std::vector<Sizes> row_shapes() { return {{2, 3, 8}, {5, 33}, {1, 128}, {0, 16}, {7, 5}, {2, 1000}}; }

// Sets small integers, whose sums of products are exact in every dtype, with one half in each sum. So the side of
// relu's kink does not depend on rounding.
void keep_off_zero(Leaves& leaves) {
  for (Tensor& leaf : leaves) leaf = at::randint(-2, 3, leaf.sizes(), at::kDouble);
  leaves[0].select(-1, 0).fill_(1.0);
  leaves[1].select(-1, 0).add_(0.5);
}

std::vector<OpCase> linear_cases() {
  std::vector<OpCase> cases;
  for (const Activation kind : {Activation::none, Activation::gelu, Activation::gelu_tanh, Activation::relu}) {
    for (const bool has_bias : {false, true}) {
      for (const Sizes& shape : {Sizes{2, 3, 8}, Sizes{7, 33}, Sizes{1, 16}, Sizes{0, 16}, Sizes{64, 72}}) {
        const int64_t in = shape.back(), out = 21;
        Leaves leaves = {random(shape), random({out, in}).div_(std::sqrt(double(in)))};
        if (has_bias) leaves.push_back(random({out}));
        if (kind == Activation::relu) keep_off_zero(leaves);
        cases.push_back({"linear", "linear_" + std::string(name(kind)) + (has_bias ? "_bias_" : "_") + text(shape),
                         leaves, leaves.size() - 1, [kind](const Leaves& leaves, Level level) -> Leaves {
                           return {linear(leaves[0], leaves[1], leaves.size() > 2 ? leaves[2] : Tensor(), kind, level)};
                         }});
      }
    }
  }
  return cases;
}

std::vector<OpCase> norm_cases() {
  std::vector<OpCase> cases;
  for (const Sizes& shape : row_shapes()) {
    const Tensor weight = random_weight(shape.back()), bias = random({shape.back()});
    cases.push_back({"rms_norm",
                     "rms_norm_" + text(shape),
                     {random(shape), weight},
                     1,
                     [](const Leaves& leaves, Level level) -> Leaves {
                       return {rms_norm(leaves[0], leaves[1], kEpsilon, level)};
                     }});
    cases.push_back({"add_rms_norm",
                     "add_rms_norm_" + text(shape),
                     {random(shape), random(shape), weight},
                     1,
                     [](const Leaves& leaves, Level level) -> Leaves {
                       const auto [y, sum] = add_rms_norm(leaves[0], leaves[1], leaves[2], kEpsilon, level);
                       return {y, sum};
                     },
                     true,
                     2});
    for (const bool has_bias : {false, true}) {
      Leaves leaves = {random(shape), weight};
      if (has_bias) leaves.push_back(bias);
      const std::string suffix = (has_bias ? "_bias_" : "_") + text(shape);
      cases.push_back({"layer_norm", "layer_norm" + suffix, leaves, leaves.size() - 1,
                       [](const Leaves& leaves, Level level) -> Leaves {
                         const Tensor bias = leaves.size() > 2 ? leaves[2] : Tensor();
                         return {layer_norm(leaves[0], leaves[1], bias, kEpsilon, level)};
                       }});
      cases.push_back({"layer_norm_gelu_tanh", "layer_norm_gelu_tanh" + suffix, leaves, leaves.size() - 1,
                       [](const Leaves& leaves, Level level) -> Leaves {
                         const Tensor bias = leaves.size() > 2 ? leaves[2] : Tensor();
                         return {layer_norm_gelu_tanh(leaves[0], leaves[1], bias, kEpsilon, level)};
                       }});
      leaves.insert(leaves.begin(), random(shape));
      cases.push_back({"add_layer_norm", "add_layer_norm" + suffix, leaves, leaves.size() - 2,
                       [](const Leaves& leaves, Level level) -> Leaves {
                         const Tensor bias = leaves.size() > 3 ? leaves[3] : Tensor();
                         const auto [y, sum] = add_layer_norm(leaves[0], leaves[1], leaves[2], bias, kEpsilon, level);
                         return {y, sum};
                       },
                       true, 2});
    }
  }
  return cases;
}

std::vector<OpCase> elementwise_cases() {
  std::vector<OpCase> cases;
  for (const Sizes& shape : row_shapes()) {
    for (const Activation kind : {Activation::gelu, Activation::gelu_tanh, Activation::relu, Activation::silu}) {
      cases.push_back(
          {"activation",
           "activation_" + std::string(name(kind)) + "_" + text(shape),
           {random(shape)},
           0,
           [kind](const Leaves& leaves, Level level) -> Leaves { return {activation(leaves[0], kind, level)}; }});
    }
    Sizes doubled = shape;
    doubled.back() *= 2;
    cases.push_back(
        {"swiglu", "swiglu_" + text(doubled), {random(doubled)}, 0, [](const Leaves& leaves, Level level) -> Leaves {
           return {swiglu(leaves[0], level)};
         }});
    cases.push_back(
        {"dropout", "dropout_" + text(shape), {random(shape)}, 0, [](const Leaves& leaves, Level level) -> Leaves {
           const Tensor key = at::full({1}, 0x123456789abcdef, at::kLong).to(leaves[0].device());
           return {dropout(leaves[0], 0.3, key, /*site=*/5, /*first_row=*/(int64_t{1} << 32) - 1, level)};
         }});
    cases.push_back({"add_dropout",
                     "add_dropout_" + text(shape),
                     {random(shape), random(shape)},
                     0,
                     [](const Leaves& leaves, Level level) -> Leaves {
                       const Tensor key = at::full({1}, -3, at::kLong).to(leaves[0].device());
                       return {add_dropout(leaves[0], leaves[1], 0.1, key, /*site=*/9, /*first_row=*/77, level)};
                     }});
  }
  return cases;
}

// Returns a copy that rotary may overwrite. It is aligned only if the leaf is.
Tensor given_away(const Tensor& leaf) {
  if (leaf.storage_offset() % 2 == 0) return leaf.mul(1.0);
  return at::cat({at::zeros({1}, leaf.options()), leaf.flatten()}).narrow(0, 1, leaf.numel()).view(leaf.sizes());
}

struct HeadShape {
  int64_t batch, positions, heads, key_value_heads, width;
};

OpCase attention_case(const std::string& name, const HeadShape& s, const AttentionMask& mask) {
  return {"attention",
          name,
          {random({s.batch, s.positions, (s.heads + 2 * s.key_value_heads) * s.width})},
          0,
          [s, mask](const Leaves& leaves, Level level) -> Leaves {
            AttentionMask here = mask;
            if (mask.document_offsets.defined())
              here.document_offsets = copied_to(leaves[0].device(), mask.document_offsets);
            return {attention(leaves[0], s.heads, s.key_value_heads, here, level)};
          }};
}

std::vector<OpCase> attention_cases() {
  std::vector<OpCase> cases;
  for (const HeadShape& s :
       {HeadShape{2, 5, 4, 4, 8}, HeadShape{1, 70, 6, 2, 16}, HeadShape{2, 1, 4, 1, 2}, HeadShape{0, 4, 2, 2, 4},
        HeadShape{1, 33, 3, 3, 10}, HeadShape{2, 40, 4, 2, 64}, HeadShape{1, 130, 2, 1, 128}}) {
    const Sizes shape = {s.batch, s.positions, (s.heads + 2 * s.key_value_heads) * s.width};
    const std::string suffix = text({s.batch, s.positions, s.heads, s.key_value_heads, s.width});
    const Tensor angle = at::rand({s.positions, s.width / 2}, at::kFloat).mul_(6.28);
    cases.push_back(
        {"rotary", "rotary_" + suffix, {random(shape)}, 0, [s, angle](const Leaves& leaves, Level level) -> Leaves {
           const Tensor cosine = at::cos(angle).to(leaves[0].device());
           const Tensor sine = at::sin(angle).to(leaves[0].device());
           return {rotary(given_away(leaves[0]), cosine, sine, s.heads, s.key_value_heads, level)};
         }});
    for (const bool causal : {false, true}) {
      const std::string mask = causal ? "attention_causal_" : "attention_full_";
      cases.push_back(attention_case(mask + suffix, s, {.causal = causal}));
    }
  }
  const auto offsets = [](std::vector<int32_t> values) {
    return at::empty({static_cast<int64_t>(values.size())}, at::kInt)
        .copy_(at::from_blob(values.data(), {static_cast<int64_t>(values.size())}, at::kInt));
  };
  // The widths and lengths are those that cuDNN supports, with full and partial tiles, and rows of one document or
  // many.
  cases.push_back(attention_case("attention_causal_2x128x4x2x64", {2, 128, 4, 2, 64}, {.causal = true}));
  cases.push_back(attention_case("attention_full_1x200x2x2x128", {1, 200, 2, 2, 128}, {}));
  cases.push_back(attention_case("attention_causal_2x1x4x2x8", {2, 1, 4, 2, 8}, {.causal = true}));
  cases.push_back(attention_case("attention_window_2x150x4x2x32", {2, 150, 4, 2, 32}, {.causal = true, .window = 20}));
  cases.push_back(attention_case("attention_window_1x7x2x1x10", {1, 7, 2, 1, 10}, {.causal = true, .window = 1}));
  cases.push_back(attention_case("attention_documents_full_2x70x4x2x16", {2, 70, 4, 2, 16},
                                 {.document_offsets = offsets({0, 30, 70, 71, 71, 140})}));
  cases.push_back(attention_case("attention_documents_causal_1x260x4x4x64", {1, 260, 4, 4, 64},
                                 {.causal = true, .document_offsets = offsets({0, 130, 131, 260})}));
  cases.push_back(attention_case("attention_documents_window_2x96x6x2x64", {2, 96, 6, 2, 64},
                                 {.causal = true, .window = 9, .document_offsets = offsets({0, 5, 96, 160, 192})}));
  return cases;
}

std::vector<OpCase> vocabulary_cases() {
  std::vector<OpCase> cases;
  for (const auto& [shape, width] : {std::pair{Sizes{4, 50}, 12}, std::pair{Sizes{1, 1}, 16}, std::pair{Sizes{0, 3}, 8},
                                     std::pair{Sizes{3, 7}, 33}}) {
    const Tensor indices = at::randint(0, 19, shape, at::kLong);  // of 23, so some rows of the weight are never used
    cases.push_back({"embedding",
                     "embedding_" + text(shape),
                     {random({23, width})},
                     1,
                     [indices](const Leaves& leaves, Level level) -> Leaves {
                       return {embedding(copied_to(leaves[0].device(), indices), leaves[0], level)};
                     }});
  }
  return cases;
}

// A rectangular graph. Some edges occur twice, and the last target and the last source have no edges. If there are
// enough edges, every second one comes from source 0 and every fourth one goes to target 0, in several pieces.
NeighborGraph random_graph(int64_t sources, int64_t targets, int64_t edges) {
  const Tensor from = at::randint(0, std::max<int64_t>(sources - 1, 1), {edges}, at::kLong);
  const Tensor to = at::randint(0, std::max<int64_t>(targets - 1, 1), {edges}, at::kLong);
  if (edges > 4 * kLongRow) {
    from.slice(0, 0, edges, /*step=*/2).fill_(0);
    to.slice(0, 1, edges, /*step=*/4).fill_(0);
  }
  return NeighborGraph::from_edges(from, to, sources, targets);
}

std::vector<OpCase> graph_cases() {
  struct Shape {
    int64_t sources, targets, edges, width;
  };
  std::vector<OpCase> cases;
  for (const Shape& s : {Shape{9, 7, 30, 8}, Shape{50, 11, 70, 33}, Shape{11, 50, 70, 256}, Shape{200, 300, 1100, 40},
                         Shape{400, 350, 1100, 131}, Shape{6, 5, 9, 1}, Shape{5, 4, 0, 16}, Shape{3, 0, 0, 8},
                         Shape{25, 25, 100, 520}}) {
    const NeighborGraph graph = random_graph(s.sources, s.targets, s.edges);
    const std::string suffix = text({s.sources, s.targets, s.edges, s.width});
    for (const Reduction reduction : {Reduction::sum, Reduction::mean, Reduction::max}) {
      for (const bool weighted : {false, true}) {
        Leaves leaves = {random({s.sources, s.width})};
        // With edge weights, x is a weight: it is multiplied by a sparse matrix.
        if (weighted) leaves.insert(leaves.begin(), random({s.edges}));
        cases.push_back(
            {"neighbor_aggregate",
             "neighbor_aggregate_" + std::string(name(reduction)) + (weighted ? "_weighted_" : "_") + suffix, leaves,
             leaves.size() - 1, [graph, reduction](const Leaves& leaves, Level level) -> Leaves {
               const Tensor edge_weight = leaves.size() > 1 ? leaves[0] : Tensor();
               const NeighborGraph there = copied_to(leaves[0].device(), graph);
               return {neighbor_aggregate(leaves.back(), there, edge_weight, reduction, level)};
             }});
      }
    }
    const int64_t heads = s.width % 4 == 0 ? 4 : 1, width = s.width / heads;
    cases.push_back({"neighbor_attention",
                     "neighbor_attention_" + suffix,
                     {random({s.sources, heads, width}), random({s.sources, heads}), random({s.targets, heads})},
                     0,
                     [graph](const Leaves& leaves, Level level) -> Leaves {
                       const NeighborGraph there = copied_to(leaves[0].device(), graph);
                       return {neighbor_attention(leaves[0], leaves[1], leaves[2], there, 0.2, level)};
                     }});
  }
  return cases;
}

std::vector<OpCase> optimizer_cases() {
  std::vector<OpCase> cases;
  for (const int64_t size : {1, 37, 4099}) {
    for (const double skip : {0.0, 1.0}) {
      OpCase adamw_case{
          "adamw",
          "adamw_" + std::to_string(size) + (skip == 0 ? "" : "_skipped"),
          {random({size}), random({size}).mul_(0.1), at::rand({size}, at::kDouble), random({size})},
          0,
          [skip](const Leaves& leaves, Level level) -> Leaves {
            // Half precision leaves are the half precision gradient of an fp32 master.
            const auto wide = leaves[0].scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
            Tensor master = leaves[0].to(wide, false, /*copy=*/true);
            Tensor first = leaves[1].to(wide, false, true), second = leaves[2].to(wide, false, true);
            Tensor copy = at::empty_like(master);
            const auto scalar = [&](double value) { return at::scalar_tensor(value, at::kFloat).to(master.device()); };
            adamw(master, first, second, leaves[3], copy, {scalar(0.015625), scalar(3), scalar(0.75), scalar(skip)},
                  {0.9, 0.95, 1e-8, 0.1}, level);
            return {master, first, second, copy};
          }};
      adamw_case.differentiable = false;
      cases.push_back(adamw_case);
    }
    OpCase norm_case{"global_norm",
                     "global_norm_" + std::to_string(size),
                     {random({size}), random({3, 5})},
                     0,
                     [](const Leaves& leaves, Level level) -> Leaves { return {global_norm(leaves, level)}; }};
    norm_case.differentiable = false;
    cases.push_back(norm_case);
  }
  return cases;
}

}  // namespace

std::vector<OpCase> op_cases() {
  at::manual_seed(1);  // the same numbers in every run and on every machine
  std::vector<OpCase> cases;
  for (const auto& make : {linear_cases, norm_cases, elementwise_cases, attention_cases, vocabulary_cases, loss_cases,
                           optimizer_cases, graph_cases, large_logit_cases}) {
    for (OpCase& op_case : make()) cases.push_back(std::move(op_case));
  }
  return cases;
}

}  // namespace strata::kernels

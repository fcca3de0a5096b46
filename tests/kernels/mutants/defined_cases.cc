// SPDX-License-Identifier: MIT
#include "tests/kernels/mutants/defined_cases.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/bincount.h>
#include <ATen/ops/cos.h>
#include <ATen/ops/cumsum.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/sin.h>
#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>

#include <functional>
#include <memory>
#include <tuple>
#include <utility>

#include "kernels/attention/pattern/program.h"
#include "kernels/attention/score_terms.h"
#include "kernels/op_proofs.h"
#include "kernels/proof/loss_inputs.h"
#include "kernels/proof/random_inputs.h"
#include "kernels/runtime/torchscript_runtime.h"

namespace strata::kernels {
namespace {

const OpCase& case_named(const std::string& name) {
  static const std::vector<OpCase> all = op_cases();
  for (const OpCase& op_case : all) {
    if (op_case.name == name) return op_case;
  }
  TORCH_CHECK(false, "no op has a case ", name);
}

// A function of a text. The formula refers to the text, so both live together.
struct Defined {
  Defined(std::string definition, const std::string& name)
      : text(std::move(definition)), function(name), formula(text, function) {}
  const std::string text, function;
  const Formula formula;
};

using Definition = std::shared_ptr<const Defined>;
using Call = std::function<Leaves(const Formula& formula, const Leaves& leaves)>;

OpCase defined(const std::string& name, const Definition& definition, const Call& call) {
  OpCase result = case_named(name);
  result.run = [definition, call](const Leaves& leaves, Level) { return call(definition->formula, leaves); };
  return result;
}

std::vector<OpCase> attention_cases(const Definition& definition) {
  const auto add = [&](const std::string& name, int64_t heads, int64_t shared, const std::vector<int64_t>& program,
                       const Tensor& offsets) {
    return defined(name, definition, [=](const Formula& formula, const Leaves& leaves) -> Leaves {
      return {formula(leaves[0], heads, shared, c10::List<int64_t>(program), offsets)};
    });
  };
  const Tensor offsets = at::zeros({4}, at::kInt);
  for (const auto& [place, end] : {std::pair{1, 30}, {2, 71}, {3, 140}}) offsets[place] = end;
  return {add("attention_causal_2x128x4x2x64", 4, 2, {2, 0, kFarthest}, {}),
          add("attention_window_2x150x4x2x32", 4, 2, {2, 0, 19}, {}), add("attention_full_1x33x3x3x10", 3, 3, {}, {}),
          add("attention_documents_full_2x70x4x2x16", 4, 2, {7, 0, 0}, offsets)};
}

std::vector<OpCase> attention_cases_with_terms(const Definition& definition) {
  const auto add = [&](const std::string& name, int64_t heads, int64_t shared, int32_t lowest, int32_t highest) {
    return defined(name, definition, [=](const Formula& formula, const Leaves& leaves) -> Leaves {
      return {formula(leaves[0], heads, shared, c10::List<int64_t>({2, lowest, highest}), Tensor(), /*alibi=*/true,
                      /*softcap=*/2.0, leaves.size() > 1 ? leaves[1] : Tensor())};
    });
  };
  return {add("attention_all_terms_causal_1x70x6x2x16", 6, 2, 0, kFarthest),
          add("attention_all_terms_window_2x150x12x4x64", 12, 4, 0, 29),
          add("attention_alibi_softcap_window_2x150x4x2x64", 4, 2, -29, 29)};
}

std::vector<OpCase> attention_cases_of_parts(const Definition& definition) {
  const auto add = [&](const std::string& name, int64_t heads, int64_t shared, int32_t highest, int64_t first,
                       const ScoreTerms& terms) {
    return defined(name, definition, [=](const Formula& formula, const Leaves& leaves) -> Leaves {
      return {formula(leaves[0], heads, shared, c10::List<int64_t>({2, 0, highest}), Tensor(), terms.alibi,
                      terms.softcap, terms.sinks ? leaves[2] : Tensor(), leaves[1], first)};
    });
  };
  return {add("attention_part_causal_77_of_2x200x4x2x64", 4, 2, kFarthest, 77, {}),
          add("attention_part_causal_140_of_2x200x4x2x64", 4, 2, kFarthest, 140, {}),
          add("attention_part_all_terms_31_of_1x90x4x2x10", 4, 2, 19, 31, {true, 2.0, true})};
}

std::vector<OpCase> linear_cases(const Definition& definition) {
  std::vector<OpCase> cases;
  for (const std::string kind : {"none", "gelu", "gelu_tanh", "relu"}) {
    for (const std::string bias : {"", "bias_"}) {
      for (const std::string sizes : {"64x72", "2x3x8"}) {
        cases.push_back(defined("linear_" + kind + "_" + bias + sizes, definition,
                                [=](const Formula& formula, const Leaves& leaves) -> Leaves {
                                  return {
                                      formula(leaves[0], leaves[1], leaves.size() > 2 ? leaves[2] : Tensor(), kind)};
                                }));
      }
    }
  }
  return cases;
}

std::vector<OpCase> norm_cases(const std::string& op, const Definition& definition) {
  const bool adds = op.starts_with("add_"), centered = op.find("layer_norm") != std::string::npos;
  std::vector<OpCase> cases;
  for (const std::string sizes :
       {"2x3x8", "5x33", "offset_5x33", "outlier_5x33", "zero_5x33", "2x1000", "offset_2x1000"}) {
    for (const std::string bias : {"_", "_bias_"}) {
      if (bias == "_bias_" && !centered) continue;
      // Ops with a bias have unusual rows only in cases with a bias. Ops that add a branch have no rows with an offset.
      const bool unusual = sizes.starts_with("o") || sizes.starts_with("zero");
      if (unusual && centered && bias == "_") continue;
      if (adds && sizes.starts_with("offset")) continue;
      cases.push_back(
          defined(op + bias + sizes, definition, [=](const Formula& formula, const Leaves& leaves) -> Leaves {
            const size_t last = adds ? 3 : 2;
            const Tensor offset = leaves.size() > last ? leaves[last] : Tensor();
            if (adds && centered) return formula.tuple(leaves[0], leaves[1], leaves[2], offset, kNormEpsilon);
            if (adds) return formula.tuple(leaves[0], leaves[1], leaves[2], kNormEpsilon);
            if (centered) return {formula(leaves[0], leaves[1], offset, kNormEpsilon)};
            return {formula(leaves[0], leaves[1], kNormEpsilon)};
          }));
    }
  }
  return cases;
}

std::vector<OpCase> loss_cases(const std::string& op, const Definition& definition) {
  std::vector<OpCase> cases;
  for (const std::string prefix : {"", "large_", "capped_"}) {
    const double softcap = prefix == "capped_" ? kLogitSoftcap : 0;
    if (softcap != 0 && op == "cross_entropy") continue;
    for (const std::string sizes : {"9x5", "40x257"}) {
      for (const double smoothing : {0.0, kSmoothing}) {
        const std::string name = op + "_" + prefix + sizes + (smoothing == 0 ? "" : "_smoothed");
        const OpCase& from = case_named(name);
        const int64_t rows = from.leaves[0].size(0),
                      classes = op == "cross_entropy" ? from.leaves[0].size(1) : from.leaves[1].size(0);
        const Tensor logits = op == "cross_entropy" ? from.leaves[0] : from.leaves[0].matmul(from.leaves[1].t());
        // The same in each call, because the cases of a mutant are compared with cases of the right text.
        const Tensor targets = at::arange(rows, at::kLong).remainder(classes), largest = logits.argmax(1);
        for (const int64_t first : {0, 1}) {
          if (prefix != "large_") continue;
          targets.slice(0, first, rows, /*step=*/4).copy_(largest.slice(0, first, rows, /*step=*/4));
        }
        targets[2] = kIgnored;
        cases.push_back(defined(name, definition, [=](const Formula& formula, const Leaves& leaves) -> Leaves {
          const Tensor scale = number(kLossScale, at::kCPU);
          if (op == "cross_entropy") return {formula(leaves[0], targets, scale, kIgnored, smoothing)};
          const Tensor loss = formula(leaves[0], leaves[1], targets, scale, kIgnored, smoothing, softcap);
          return {loss.to(leaves[0].scalar_type())};
        }));
      }
    }
  }
  return cases;
}

std::vector<OpCase> rotary_cases(const Definition& definition) {
  std::vector<OpCase> cases;
  for (const auto& [name, positions, heads, shared, width] :
       {std::tuple{"rotary_1x70x6x2x16", 70, 6, 2, 16}, {"rotary_2x40x4x2x64", 40, 4, 2, 64}}) {
    const Tensor angle =
        at::linspace(0.0, 50.0, int64_t{positions} * width / 2, at::kFloat).reshape({positions, width / 2});
    cases.push_back(defined(
        name, definition,
        [=, heads = int64_t{heads}, shared = int64_t{shared}](const Formula& formula, const Leaves& leaves) -> Leaves {
          return {formula(leaves[0], at::cos(angle), at::sin(angle), heads, shared)};
        }));
  }
  return cases;
}

std::vector<OpCase> norm_rotary_cases(const Definition& definition) {
  std::vector<OpCase> cases;
  for (const auto& [sizes, positions, heads, shared, width] : {std::tuple{"1x70x6x2x16", 70, 6, 2, 16},
                                                               {"2x40x4x2x64", 40, 4, 2, 64},
                                                               {"zero", 33, 3, 3, 10},
                                                               {"outlier", 33, 3, 3, 10}}) {
    const Tensor angle =
        at::linspace(0.0, 50.0, int64_t{positions} * width / 2, at::kFloat).reshape({positions, width / 2});
    cases.push_back(defined(
        std::string("rms_norm_rotary_") + sizes, definition,
        [=, heads = int64_t{heads}, shared = int64_t{shared}](const Formula& formula, const Leaves& leaves) -> Leaves {
          return {
              formula(leaves[0], leaves[1], leaves[2], at::cos(angle), at::sin(angle), heads, shared, kNormEpsilon)};
        }));
  }
  return cases;
}

std::vector<OpCase> activation_cases(const Definition& definition) {
  std::vector<OpCase> cases;
  for (const std::string kind : {"gelu", "gelu_tanh", "relu", "silu"}) {
    cases.push_back(
        defined("activation_" + kind + "_2x1000", definition,
                [=](const Formula& formula, const Leaves& leaves) -> Leaves { return {formula(leaves[0], kind)}; }));
  }
  return cases;
}

std::vector<OpCase> adamw_cases(const Definition& definition) {
  std::vector<OpCase> cases;
  for (const double skip : {0.0, 1.0}) {
    cases.push_back(defined(skip == 0 ? "adamw_4099" : "adamw_4099_skipped", definition,
                            [=](const Formula& formula, const Leaves& leaves) -> Leaves {
                              const auto wide = leaves[0].scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
                              const auto scalar = [](double value) { return number(value, at::kCPU); };
                              return formula.tuple(leaves[0].to(wide), leaves[1].to(wide), leaves[2].to(wide),
                                                   leaves[3], scalar(0.015625), scalar(3), scalar(0.75), scalar(skip),
                                                   0.9, 0.95, 1e-8, 0.1);
                            }));
  }
  return cases;
}

// A graph with a hub: every fourth edge goes to target 0.
struct Edges {
  Tensor offsets, columns, rows;
};

Edges edges_of(int64_t sources, int64_t targets, int64_t edges) {
  const Tensor number = at::arange(edges, at::kLong);
  const Tensor rows = std::get<0>(number.mul(7).remainder(targets).mul(number.remainder(4).ne(0)).sort());
  const Tensor counts = at::bincount(rows, {}, targets);
  const Tensor offsets = at::zeros({targets + 1}, at::kLong);
  offsets.narrow(0, 1, targets).copy_(at::cumsum(counts, 0));
  return {offsets, number.mul(5).remainder(sources), rows};
}

std::vector<OpCase> aggregate_cases(const Definition& definition) {
  std::vector<OpCase> cases;
  for (const auto& [sizes, graph] :
       {std::pair{"200x300x1100x40", edges_of(200, 300, 1100)}, {"9x7x30x8", edges_of(9, 7, 30)}}) {
    for (const std::string reduction : {"sum", "mean", "max"}) {
      for (const bool weighted : {false, true}) {
        cases.push_back(defined("neighbor_aggregate_" + reduction + (weighted ? "_weighted_" : "_") + sizes, definition,
                                [=, graph = graph](const Formula& formula, const Leaves& leaves) -> Leaves {
                                  return {formula(leaves.back(), graph.offsets, graph.columns, graph.rows,
                                                  weighted ? leaves[0] : Tensor(), reduction)};
                                }));
      }
    }
  }
  return cases;
}

std::vector<OpCase> neighbor_attention_cases(const Definition& definition) {
  std::vector<OpCase> cases;
  for (const auto& [sizes, graph] :
       {std::pair{"200x300x1100x40", edges_of(200, 300, 1100)}, {"9x7x30x8", edges_of(9, 7, 30)}}) {
    cases.push_back(
        defined(std::string("neighbor_attention_") + sizes, definition,
                [=, graph = graph](const Formula& formula, const Leaves& leaves) -> Leaves {
                  return {formula(leaves[0], leaves[1], leaves[2], graph.offsets, graph.columns, graph.rows, 0.2)};
                }));
  }
  return cases;
}

}  // namespace

std::vector<OpCase> defined_cases(std::string_view op_name, const std::string& text) {
  const std::string op(op_name);
  if (op == kAttentionWithTerms) return attention_cases_with_terms(std::make_shared<Defined>(text, "attention"));
  if (op == kAttentionOfPart) return attention_cases_of_parts(std::make_shared<Defined>(text, "attention"));
  const Definition definition = std::make_shared<Defined>(text, op);
  if (op == "attention") return attention_cases(definition);
  if (op == "linear") return linear_cases(definition);
  if (op.ends_with("_norm") || op == "layer_norm_gelu_tanh") return norm_cases(op, definition);
  if (op == "sum_of_squares") {
    return {defined("sum_of_squares_4099", definition,
                    [](const Formula& formula, const Leaves& leaves) -> Leaves { return {formula(leaves)}; })};
  }
  if (op.ends_with("cross_entropy")) return loss_cases(op, definition);
  if (op == "rotary") return rotary_cases(definition);
  if (op == "rms_norm_rotary") return norm_rotary_cases(definition);
  if (op == "activation") return activation_cases(definition);
  if (op == "adamw") return adamw_cases(definition);
  if (op == "neighbor_aggregate") return aggregate_cases(definition);
  if (op == "neighbor_attention") return neighbor_attention_cases(definition);
  if (op == "swiglu") {
    std::vector<OpCase> cases;
    for (const char* kind : {"silu", "gelu_tanh"}) {
      cases.push_back(defined("swiglu_" + std::string(kind) + "_2x2000", definition,
                              [kind = std::string(kind)](const Formula& formula, const Leaves& leaves) -> Leaves {
                                return {formula(leaves[0], kind)};
                              }));
    }
    return cases;
  }
  if (op == "embedding") {
    return {defined("embedding_4x50", definition, [](const Formula& formula, const Leaves& leaves) -> Leaves {
      return {formula(at::arange(200, at::kLong).remainder(19), leaves[0])};
    })};
  }
  TORCH_CHECK(op == "dropout", "no cases are defined for op ", op);
  return {defined("dropout_2x1000", definition, [](const Formula& formula, const Leaves& leaves) -> Leaves {
    return {formula(leaves[0], 0.3, at::full({1}, 0x123456789abcdef, at::kLong), int64_t{5}, int64_t{77})};
  })};
}

}  // namespace strata::kernels

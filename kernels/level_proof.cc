// SPDX-License-Identifier: MIT
#include "kernels/level_proof.h"

#include <ATen/ops/equal.h>
#include <ATen/ops/isnan.h>
#include <ATen/ops/nan_to_num.h>
#include <c10/util/Exception.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <utility>

#include "kernels/level_matrix.h"
#include "kernels/op_proofs.h"
#include "kernels/proof/case_check.h"
#include "kernels/proof/workload_check.h"

namespace strata::kernels {
namespace {

// Ops whose result depends on rows that are computed one after another have large cases of two such parts.
constexpr double kChunksOfLargeCases = 2;

std::vector<OpCase> cases_of(std::string_view op, std::vector<OpCase> cases) {
  std::erase_if(cases, [&](const OpCase& op_case) { return op_case.op() != op; });
  return cases;
}

// Returns the case with a NaN in the middle of its first input, and without gradients: what an op's gradient is at a
// NaN is not defined.
OpCase with_nan(OpCase op_case) {
  op_case.leaves[0] = op_case.leaves[0].clone();
  op_case.leaves[0].view(-1)[op_case.leaves[0].numel() / 2].fill_(std::numeric_limits<double>::quiet_NaN());
  op_case.differentiable = false;
  return op_case;
}

OpCase with_other_values(OpCase op_case) {
  for (Tensor& leaf : op_case.leaves) leaf = other_values(leaf);
  return op_case;
}

// True if all numbers are the same, and NaN where they were NaN.
bool same(const Tensor& a, const Tensor& b) {
  return at::equal(at::isnan(a), at::isnan(b)) && at::equal(at::nan_to_num(a), at::nan_to_num(b));
}

// The problems of a call: the name of a tensor, and the rest of a sentence about it.
using Problems = std::map<std::string, std::string>;

std::string text_of(const Problems& problems) {
  std::string text;
  for (const auto& [name, words] : problems) text += (text.empty() ? "" : "; ") + name + words;
  return text;
}

class Prover {
 public:
  Prover(std::string_view op, Level level, c10::DeviceType device, at::ScalarType dtype, size_t most_failures)
      : op_(op), level_(level), dtype_(dtype), device_(device), most_failures_(most_failures) {
    for (const LevelRow& row : level_matrix()) {
      if (row.op == op && row.device == device && row.forward) levels_of_tree_.push_back(row.level);
    }
    for (const OpCase& op_case : op_cases()) has_gradients_ |= op_case.op() == op && op_case.differentiable;
  }

  void prove(const OpCase& op_case, const auto& ways, double chunks) {
    ++proof_.cases;
    CaseCheck check(op_case, tolerance_of(op_), dtype_);
    for (const Way way : ways) {
      const WayScope scope(way);
      for (auto& [name, setting] : settings_of(way, op_case)) {
        setting.dtype = dtype_;
        setting.device = device_;
        call(op_case.name + ", " + name, [&] {
          const std::string words = agreement_of(check, op_case, setting, chunks);
          const bool is_whole = !has_gradients_ || (op_case.differentiable && !setting.no_gradients);
          proof_.compared += words.empty() && is_whole;
          return words;
        });
      }
    }
    if (op_case.leaves.empty() || op_case.leaves[0].numel() == 0) return;
    call(op_case.name + ", called again", [&] { return bits(op_case); });
    call(op_case.name + ", its inputs",
         [&] { return unless_others_have_it([&](Level level) { return changes(op_case, level); }); });
    call(op_case.name + ", other values in the same memory", [&] {
      const OpCase other_case = with_other_values(op_case);
      CaseCheck other_check(other_case, tolerance_of(op_), dtype_);
      return unless_others_have_it(
          [&](Level level) { return kept_results(other_check, other_case, op_case, level, chunks); });
    });
    call(op_case.name + ", NaN in leaf 0", [&] {
      const OpCase nan_case = with_nan(op_case);
      CaseCheck nan_check(nan_case, tolerance_of(op_), dtype_);
      return unless_others_have_it([&](Level level) { return lost_nan(nan_check, nan_case, level); });
    });
  }

  const LevelProof& proof() const { return proof_; }

 private:
  // `run` returns what is wrong, or "".
  void call(const std::string& where, const std::function<std::string()>& run) {
    ++proof_.calls;
    std::string words;
    try {
      words = run();
    } catch (const c10::ValueError& error) {
      words = error.what_without_backtrace();
      if (words.starts_with(std::string(op_) + "/" + std::string(name(level_)) + ": ")) {
        if (proof_.refused++ == 0) proof_.refusal = words;
        return;
      }
    } catch (const std::exception& error) {
      words = sentence_of(error);
    }
    if (words.empty()) return;
    if (static_cast<size_t>(proof_.failed++) < most_failures_) proof_.failures.push_back(where + ": " + words);
  }

  std::string agreement_of(CaseCheck& check, const OpCase& op_case, const Setting& setting, double chunks) {
    const std::vector<Value> values = evaluate(op_case, level_, setting);
    std::string words;
    const auto say = [&](const std::string& more) { words += (words.empty() ? "" : "; ") + more; };
    for (size_t i = 0; i < op_case.outputs; ++i) {
      const at::ScalarType expected = check.type_of_output(i);
      if (values.at(i).dtype == expected) continue;
      say(values[i].name + " is " + toString(values[i].dtype) + ", expected " + toString(expected));
    }
    for (const auto& [value, found] : check.deviations(values, level_, setting, chunks)) {
      proof_.share = std::max(proof_.share, found.share);
      if (!found.agreed()) say(value + ": " + found.words);
    }
    return words;
  }

  Setting plain() const { return {.dtype = dtype_, .device = device_}; }

  // The same call gives the same bits, for some ops only in deterministic mode.
  std::string bits(const OpCase& op_case) {
    const WayScope deterministic(proof_of(op_).deterministic_if_asked ? Way::nan_filled : Way::plain);
    const auto once = evaluate(op_case, level_, plain()), twice = evaluate(op_case, level_, plain());
    for (size_t i = 0; i < once.size(); ++i) {
      const bool is_same = at::equal(once[i].value.view(at::kLong), twice.at(i).value.view(at::kLong));
      if (!is_same) return once[i].name + " has other bits than before";
    }
    return "";
  }

  // Returns the problems of the level that no level of the tree has: what levels do differently is not defined.
  std::string unless_others_have_it(const std::function<Problems(Level)>& problems_at) const {
    Problems problems = problems_at(level_);
    for (const Level level : levels_of_tree_) {
      if (problems.empty()) break;
      try {
        for (const auto& [name, words] : problems_at(level)) problems.erase(name);
      } catch (const std::exception&) {  // the level refuses the case, or its package is not there
      }
    }
    return text_of(problems);
  }

  // Returns which tensors the level changes: inputs, results, or gradients of results, which others also read. A result
  // that shares memory with an input changes with it.
  Problems changes(const OpCase& op_case, Level level) const {
    std::map<std::string, std::pair<Tensor, Tensor>> kept;  // each tensor, and a copy
    const auto keep = [&](const std::string& name, const Tensor& tensor) {
      kept[name] = {tensor.detach(), tensor.detach().clone()};
    };
    std::vector<Tensor> leaves;
    for (size_t i = 0; i < op_case.leaves.size(); ++i) {
      leaves.push_back(op_case.leaves[i].to(device_, dtype_, /*non_blocking=*/false, /*copy=*/true));
      keep("leaf " + std::to_string(i), leaves[i]);
      leaves[i].requires_grad_(op_case.differentiable);
    }
    Problems problems;
    const std::vector<Tensor> outputs = op_case.run(leaves, level);
    for (size_t i = 0; i < outputs.size(); ++i) {
      const std::string name = "output " + std::to_string(i);
      keep(name, outputs[i]);
      for (size_t j = 0; j < leaves.size(); ++j) {
        if (outputs[i].numel() == 0 || !outputs[i].is_alias_of(leaves[j])) continue;
        problems["memory of " + name] = " is the memory of leaf " + std::to_string(j);
      }
    }
    if (op_case.differentiable) run_backward(outputs, keep);
    for (const auto& [name, tensors] : kept) {
      if (!same(tensors.first, tensors.second)) problems[name] = " was changed";
    }
    return problems;
  }

  static void run_backward(const std::vector<Tensor>& outputs, const auto& keep) {
    const std::vector<Tensor> gradients = output_gradients(outputs);
    std::vector<Tensor> roots, root_gradients;
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (!outputs[i].requires_grad()) continue;
      roots.push_back(outputs[i]);
      root_gradients.push_back(gradients[i].to(outputs[i].device(), outputs[i].scalar_type()));
      keep("gradient of output " + std::to_string(i), root_gradients.back());
    }
    if (!roots.empty()) torch::autograd::backward(roots, root_gradients);
  }

  // Returns which output of the level lacks a NaN that it should have, or has one too many.
  Problems lost_nan(CaseCheck& check, const OpCase& op_case, Level level) const {
    Problems problems;
    for (const auto& [value, found] : check.deviations(evaluate(op_case, level, plain()), level, plain())) {
      if (found.share == std::numeric_limits<double>::infinity()) problems[value] = ": " + found.words;
    }
    return problems;
  }

  // Returns which results of the other case do not agree, if the level was called with the case in the same memory.
  Problems kept_results(CaseCheck& other_check, const OpCase& other_case, const OpCase& op_case, Level level,
                        double chunks) const {
    Setting setting = plain();
    setting.values_before = &op_case.leaves;
    Problems problems;
    for (const auto& [value, found] :
         other_check.deviations(evaluate(other_case, level, setting), level, setting, chunks)) {
      if (!found.agreed()) problems[value] = ": " + found.words;
    }
    return problems;
  }

  const std::string_view op_;
  const Level level_;
  const at::ScalarType dtype_;
  const c10::DeviceType device_;
  const size_t most_failures_;
  std::vector<Level> levels_of_tree_;
  bool has_gradients_ = false;
  LevelProof proof_;
};

}  // namespace

LevelProof prove_level(std::string_view op, Level level, c10::DeviceType device, c10::ScalarType dtype,
                       size_t most_failures) {
  Prover prover(op, level, device, dtype, most_failures);
  for (const OpCase& op_case : cases_of(op, op_cases())) prover.prove(op_case, kWays, /*chunks=*/1);
  for (const OpCase& op_case : cases_of(op, large_op_cases())) {
    prover.prove(op_case, kWaysOfLargeCases, kChunksOfLargeCases);
  }
  return prover.proof();
}

}  // namespace strata::kernels

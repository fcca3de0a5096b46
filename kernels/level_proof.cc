// SPDX-License-Identifier: MIT
#include "kernels/level_proof.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/equal.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <functional>
#include <limits>

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

class Prover {
 public:
  Prover(std::string_view op, Level level, c10::DeviceType device, at::ScalarType dtype, size_t most_failures)
      : op_(op), level_(level), dtype_(dtype), device_(device), most_failures_(most_failures) {
    for (const LevelRow& row : level_matrix()) {
      if (row.op == op && row.device == device && row.forward) levels_of_tree_.push_back(row.level);
    }
  }

  void prove(const OpCase& op_case, const auto& ways, double chunks) {
    ++proof_.cases;
    CaseCheck check(op_case, tolerance_of(op_), dtype_);
    for (const Way way : ways) {
      const WayScope scope(way);
      for (auto& [name, setting] : settings_of(way, op_case)) {
        setting.dtype = dtype_;
        setting.device = device_;
        call(op_case.name + ", " + name, [&] { return agreement_of(check, op_case, setting, chunks); });
      }
    }
    if (op_case.leaves.empty() || op_case.leaves[0].numel() == 0) return;
    call(op_case.name + ", called again", [&] { return bits(op_case); });
    call(op_case.name + ", its inputs",
         [&] { return unless_others_have_it([&](Level level) { return changed_input(op_case, level); }); });
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

  // Returns the problem of the level, if no level of the tree has it: what levels do differently is not defined.
  std::string unless_others_have_it(const std::function<std::string(Level)>& problem) const {
    const std::string words = problem(level_);
    if (words.empty()) return "";
    const bool is_defined = std::ranges::all_of(levels_of_tree_, [&](Level level) {
      try {
        return problem(level).empty();
      } catch (const std::exception&) {  // the level refuses the case, or its package is not there
        return true;
      }
    });
    return is_defined ? words : "";
  }

  // Returns which input the level changes. Other ops and the backward read the inputs of a call.
  std::string changed_input(const OpCase& op_case, Level level) const {
    const at::NoGradGuard no_grad;
    std::vector<Tensor> leaves, before;
    for (const Tensor& leaf : op_case.leaves) {
      leaves.push_back(leaf.to(device_, dtype_, /*non_blocking=*/false, /*copy=*/true));
      before.push_back(leaves.back().clone());
    }
    op_case.run(leaves, level);
    for (size_t i = 0; i < leaves.size(); ++i) {
      if (!at::equal(leaves[i], before[i])) return "leaf " + std::to_string(i) + " was changed";
    }
    return "";
  }

  // Returns which output of the level lacks a NaN that it should have, or has one too many.
  std::string lost_nan(CaseCheck& check, const OpCase& op_case, Level level) const {
    for (const auto& [value, found] : check.deviations(evaluate(op_case, level, plain()), level, plain())) {
      if (found.share == std::numeric_limits<double>::infinity()) return value + ": " + found.words;
    }
    return "";
  }

  const std::string_view op_;
  const Level level_;
  const at::ScalarType dtype_;
  const c10::DeviceType device_;
  const size_t most_failures_;
  std::vector<Level> levels_of_tree_;
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

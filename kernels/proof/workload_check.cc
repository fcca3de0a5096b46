// SPDX-License-Identifier: MIT
#include "kernels/proof/workload_check.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/nan_to_num.h>
#include <c10/util/Exception.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace strata::kernels {
namespace {

// The formula is <op>.py, differentiated by autograd.
constexpr Level kFormulaLevel = Level::torchscript;

struct Results {
  std::vector<Tensor> values, gradients;
};

// Evaluates the op and its gradients. Fills `result_gradients` if it is empty.
Results evaluate(const Workload& workload, const Inputs& inputs, std::vector<Tensor>& result_gradients, Level level) {
  const DeterministicScope scope(workload, level);
  const std::vector<Tensor> values = workload.run(inputs, level);
  Results results;
  for (const Tensor& value : values) results.values.push_back(value.detach());
  if (!workload.differentiable) return results;
  if (result_gradients.empty()) result_gradients = random_gradients(values);
  results.gradients = torch::autograd::grad(values, inputs.leaves, result_gradients);
  return results;
}

Tensor rows_of(const Tensor& tensor, bool split, int64_t first, int64_t count) {
  return split ? tensor.narrow(0, first, count) : tensor;
}

enum class In { fp64, own_dtype };

Tensor as(In in, const Tensor& tensor) {
  const auto dtype = in == In::fp64 ? at::kDouble : tensor.scalar_type();
  return tensor.to(tensor.device(), dtype, /*non_blocking=*/false, /*copy=*/true);
}

// Returns `count` rows from row `first` on. Indices and fp32 tables keep their type.
Inputs part_of(const Workload& workload, int64_t first, int64_t count, In in) {
  Inputs part;
  for (size_t i = 0; i < workload.inputs.leaves.size(); ++i) {
    const Tensor rows = rows_of(workload.inputs.leaves[i], i < workload.split_leaves, first, count);
    part.leaves.push_back(as(in, rows).requires_grad_(workload.differentiable));
  }
  for (size_t i = 0; i < workload.inputs.constants.size(); ++i) {
    part.constants.push_back(rows_of(workload.inputs.constants[i], i < workload.split_constants, first, count));
  }
  part.first_row = first;
  return part;
}

// Some rows of a workload: inputs and gradients of results.
struct WorkloadPart {
  WorkloadPart(const Workload& workload, const std::vector<Tensor>& gradients, int64_t first, int64_t count, In in)
      : inputs(part_of(workload, first, count, in)) {
    for (size_t i = 0; i < gradients.size(); ++i) {
      result_gradients.push_back(as(in, rows_of(gradients[i], i < workload.split_results, first, count)));
    }
  }
  Inputs inputs;
  std::vector<Tensor> result_gradients;
};

// Returns all results of the formula for some rows, then all gradients.
std::vector<Tensor> formula_of_part(const Workload& workload, WorkloadPart part, int64_t elements) {
  if (workload.formula) {
    const DeterministicScope scope(workload, kFormulaLevel);
    return workload.formula(part.inputs, part.result_gradients, elements);
  }
  Results results = evaluate(workload, part.inputs, part.result_gradients, kFormulaLevel);
  results.values.insert(results.values.end(), results.gradients.begin(), results.gradients.end());
  return results.values;
}

std::vector<Variance> variances_of_part(const Workload& workload, const WorkloadPart& part, int64_t elements) {
  if (!workload.variances) return {};
  return workload.variances(part.inputs.leaves, part.result_gradients, workload.dtype, elements);
}

// Rows of a weight's gradient may be added one after another. The error of n terms of random signs is about
// sqrt(n) / 4 roundings of their sum. For 82,115 rows of layer_norm on a CPU it was 60.
double roundings_of_sum(int64_t terms) { return std::sqrt(static_cast<double>(terms)); }

// Compares one result with the parts of the formula. A result that is not split is their sum.
class Follower {
 public:
  Follower(std::string name, Tensor value, bool split, const Bounds& bounds)
      : deviation_{std::move(name), {}}, value_(std::move(value)), split_(split), bounds_(bounds) {
    bounds_.dtype = value_.scalar_type();
    if (split_) bounds_.largest = largest(at::nan_to_num(value_, 0.0, 0.0, 0.0));
  }

  void add(const Expected& part, int64_t first, int64_t count) {
    if (split_) {
      compare(value_.narrow(0, first, count), part, "from row " + std::to_string(first) + ": ");
      return;
    }
    terms_ += count;
    // Variances of rows would be of the rows of a part, and are left out.
    add_to(sum_.exact, part.exact);
    add_to(sum_.rounded, part.rounded);
    add_to(sum_.variance.element_variance, part.variance.element_variance);
  }

  Deviation finish() {
    if (!sum_.exact.defined()) return deviation_;
    bounds_.roundings = std::max(bounds_.roundings, roundings_of_sum(terms_));
    sum_.rounded = sum_.rounded.to(bounds_.dtype);
    compare(value_, sum_, "");
    return deviation_;
  }

 private:
  static void add_to(Tensor& sum, const Tensor& part) {
    if (part.defined()) sum = sum.defined() ? sum + part : part.to(at::kDouble);
  }

  void compare(const Tensor& value, const Expected& expected, const std::string& where) {
    const Agreement found = agreement(value, expected, bounds_);
    if (found.share <= deviation_.agreement.share) return;
    deviation_.agreement = {found.share, where + found.words};
  }

  Deviation deviation_;
  Tensor value_;
  Expected sum_;
  bool split_;
  Bounds bounds_;
  int64_t terms_ = 0;
};

int64_t rows_of_workload(const Workload& workload) {
  if (workload.split_leaves > 0) return workload.inputs.leaves[0].size(0);
  return workload.inputs.constants.at(0).size(0);
}

int64_t rows_of_part(const Workload& workload, int64_t rows, int64_t elements) {
  return std::clamp<int64_t>(elements / std::max<int64_t>(workload.row_elements, 1), 1, std::max<int64_t>(rows, 1));
}

}  // namespace

std::vector<Deviation> deviations(const Workload& workload, Level level, int64_t part_elements) {
  std::vector<Tensor> gradients;
  const Results results = evaluate(workload, fresh_inputs(workload), gradients, level);
  const auto bounds_of = [&](size_t place) {
    const double factor = workload.factors.empty() ? 1.0 : workload.factors.at(place);
    return Bounds{.factor = factor * (level == Level::aten ? workload.tolerance.at_aten : 1.0),
                  .roundings = workload.tolerance.roundings,
                  .row_width = workload.row_width};
  };
  std::vector<Follower> followers;
  for (size_t i = 0; i < results.values.size(); ++i) {
    followers.emplace_back("result " + std::to_string(i), results.values[i], i < workload.split_results, bounds_of(i));
  }
  for (size_t i = 0; i < results.gradients.size(); ++i) {
    followers.emplace_back("gradient of leaf " + std::to_string(i), results.gradients[i], i < workload.split_leaves,
                           bounds_of(results.values.size() + i));
  }
  TORCH_CHECK(rows_of_workload(workload) > 0, "a workload without rows proves nothing");
  const int64_t rows = rows_of_workload(workload), step = rows_of_part(workload, rows, part_elements);
  for (int64_t first = 0; first < rows; first += step) {
    const int64_t count = std::min(step, rows - first);
    const auto part = [&](In in) { return WorkloadPart(workload, gradients, first, count, in); };
    const auto exact = formula_of_part(workload, part(In::fp64), part_elements);
    const auto rounded = formula_of_part(workload, part(In::own_dtype), part_elements);
    const auto variances = variances_of_part(workload, part(In::own_dtype), part_elements);
    for (size_t i = 0; i < followers.size(); ++i) {
      followers[i].add({exact.at(i), rounded.at(i), variances.empty() ? Variance() : variances.at(i)}, first, count);
    }
  }
  std::vector<Deviation> result;
  for (Follower& follower : followers) result.push_back(follower.finish());
  return result;
}

Verdict verdict(const Workload& workload, Level level) {
  Verdict verdict;
  try {
    verdict.agreed = true;
    for (const auto& [name, agreement] : deviations(workload, level)) {
      verdict.share = std::max(verdict.share, agreement.share);
      if (agreement.agreed()) continue;
      verdict.agreed = false;
      verdict.words += (verdict.words.empty() ? "" : "; ") + name + " " + agreement.words;
    }
  } catch (const std::exception& error) {  // refusals, launch errors, lack of memory: the level did not agree
    verdict = {.words = sentence_of(error)};
  }
  return verdict;
}

std::string sentence_of(const std::exception& error) {
  const auto* torch_error = dynamic_cast<const c10::Error*>(&error);
  return torch_error ? torch_error->what_without_backtrace() : error.what();
}

}  // namespace strata::kernels

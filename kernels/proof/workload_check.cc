// SPDX-License-Identifier: MIT
#include "kernels/proof/workload_check.h"

#include <ATen/TensorOperators.h>
#include <c10/util/Exception.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "kernels/proof/agreement.h"

namespace strata::kernels {
namespace {

// The formula is <op>.py in fp64, differentiated by autograd.
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

// Returns the larger one, and NaN if one of them is NaN.
double worse(double a, double b) { return std::isnan(a) || a > b ? a : b; }

Tensor rows_of(const Tensor& tensor, bool split, int64_t first, int64_t count) {
  return split ? tensor.narrow(0, first, count) : tensor;
}

// Returns rows first .. first + count, in fp64. Indices and fp32 tables keep their type.
Inputs part_of(const Workload& workload, int64_t first, int64_t count) {
  Inputs part;
  for (size_t i = 0; i < workload.inputs.leaves.size(); ++i) {
    const Tensor rows = rows_of(workload.inputs.leaves[i], i < workload.split_leaves, first, count);
    part.leaves.push_back(rows.to(rows.device(), at::kDouble, /*non_blocking=*/false, /*copy=*/true)
                              .requires_grad_(workload.differentiable));
  }
  for (size_t i = 0; i < workload.inputs.constants.size(); ++i) {
    part.constants.push_back(rows_of(workload.inputs.constants[i], i < workload.split_constants, first, count));
  }
  part.first_row = first;
  return part;
}

// Accumulates the deviation of one result over the parts of the formula. A result that is not split is their sum.
class Follower {
 public:
  Follower(std::string name, Tensor value, bool split)
      : name_(std::move(name)), value_(std::move(value)), split_(split) {}

  void add(const Tensor& formula, int64_t first, int64_t count) {
    if (split_) {
      compare(value_.narrow(0, first, count), formula);
    } else {
      terms_ += count;
      sum_ = sum_.defined() ? sum_ + formula : formula;
    }
  }
  Deviation finish() {
    if (sum_.defined()) compare(value_, sum_);
    return {name_, value_.scalar_type(), error_, scale_, std::max<int64_t>(terms_, 1)};
  }

 private:
  void compare(const Tensor& value, const Tensor& formula) {
    const double error = largest(value.to(at::kDouble).sub_(formula));
    error_ = worse(error_, error);
    scale_ = std::max(scale_, largest(formula));
  }

  std::string name_;
  Tensor value_, sum_;
  bool split_;
  double error_ = 0, scale_ = 0;
  int64_t terms_ = 0;
};

int64_t rows_of_workload(const Workload& workload) {
  if (workload.split_leaves > 0) return workload.inputs.leaves[0].size(0);
  return workload.inputs.constants.at(0).size(0);
}

int64_t rows_of_part(const Workload& workload, int64_t rows, int64_t elements) {
  return std::clamp<int64_t>(elements / std::max<int64_t>(workload.row_elements, 1), 1, std::max<int64_t>(rows, 1));
}

// LibTorch on CPUs adds the rows of a weight's gradient one after another. The rounding of n terms of random signs is
// about sqrt(n) / 4 in the last place of their sum. For 82,115 rows of layer_norm it was 60.
double error_of_row_by_row(int64_t terms, double scale) {
  return 0.5 * std::sqrt(static_cast<double>(terms)) * epsilon(at::kFloat) * scale;
}

}  // namespace

std::vector<Deviation> deviations(const Workload& workload, Level level, int64_t part_elements) {
  std::vector<Tensor> gradients;
  const Results results = evaluate(workload, fresh_inputs(workload), gradients, level);
  std::vector<Follower> followers;
  for (size_t i = 0; i < results.values.size(); ++i) {
    followers.emplace_back("result " + std::to_string(i), results.values[i], i < workload.split_results);
  }
  for (size_t i = 0; i < results.gradients.size(); ++i) {
    followers.emplace_back("gradient of leaf " + std::to_string(i), results.gradients[i], i < workload.split_leaves);
  }
  const int64_t rows = rows_of_workload(workload), step = rows_of_part(workload, rows, part_elements);
  for (int64_t first = 0; first < rows; first += step) {
    const int64_t count = std::min(step, rows - first);
    std::vector<Tensor> part_gradients;
    for (size_t i = 0; i < gradients.size(); ++i) {
      part_gradients.push_back(rows_of(gradients[i], i < workload.split_results, first, count).to(at::kDouble));
    }
    const Results part = evaluate(workload, part_of(workload, first, count), part_gradients, kFormulaLevel);
    size_t next = 0;
    for (const Tensor& value : part.values) followers[next++].add(value, first, count);
    for (const Tensor& gradient : part.gradients) followers[next++].add(gradient, first, count);
  }
  std::vector<Deviation> result;
  for (Follower& follower : followers) result.push_back(follower.finish());
  return result;
}

Verdict verdict(const Workload& workload, Level level, const std::vector<Deviation>& aten) {
  const Tolerance& allowed = workload.tolerance;
  Verdict verdict;
  std::vector<Deviation> found;
  try {
    found = deviations(workload, level);
  } catch (const std::exception& error) {  // refusals, launch errors, lack of memory: the level did not agree
    verdict.words = sentence_of(error);
    return verdict;
  }
  verdict.agreed = true;
  for (size_t i = 0; i < found.size(); ++i) {
    const auto& [name, dtype, error, scale, terms] = found[i];
    const Measured measured{error, level == Level::aten || aten.empty() ? 0.0 : aten.at(i).error, scale};
    double bound = allowed_error(allowed, dtype, measured);
    if (level == Level::aten && dtype == at::kFloat) bound = std::max(bound, error_of_row_by_row(terms, scale));
    const double share = error == 0 ? 0 : error / bound;
    verdict.share = worse(verdict.share, share);
    if (error <= bound) continue;  // false for a NaN, which is reported below
    verdict.agreed = false;
    verdict.words += (verdict.words.empty() ? "" : "; ") + name + " is off by " + std::to_string(error) +
                     ", allowed are " + std::to_string(bound);
  }
  return verdict;
}

std::string sentence_of(const std::exception& error) {
  const auto* of_libtorch = dynamic_cast<const c10::Error*>(&error);
  return of_libtorch ? of_libtorch->what_without_backtrace() : error.what();
}

}  // namespace strata::kernels

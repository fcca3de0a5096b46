// SPDX-License-Identifier: MIT
// Checks the definition, which every level is compared with, against plain loops. So definition and level cannot have
// the same error.
#include "kernels/adamw/adamw.h"

#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include <cmath>

#include "kernels/proof/plain_tensor.h"

namespace strata::kernels {
namespace {

TEST(Formula, Adamw) {
  const int64_t size = 5;
  const Plain master = ramp(size), first = ramp(size, 0.1), gradient = ramp(size, 0.6);
  const Plain second = {0.1, 0.2, 0.3, 0.4, 0.5};
  const double rate = 0.125, step = 3, factor = 0.5;  // exact in fp32
  Plain new_master, new_first, new_second;
  for (int64_t i = 0; i < size; ++i) {
    const double g = gradient[i] * factor;
    new_first.push_back(0.9 * first[i] + 0.1 * g);
    new_second.push_back(0.95 * second[i] + 0.05 * g * g);
    const double m = new_first[i] / (1 - std::pow(0.9, step)), v = new_second[i] / (1 - std::pow(0.95, step));
    new_master.push_back(master[i] * (1 - rate * 0.1) - rate * m / (std::sqrt(v) + 1e-8));
  }
  for (const double skip : {0.0, 1.0}) {
    Tensor m = tensor(master, {size}), f = tensor(first, {size}), s = tensor(second, {size}), copy;
    const auto scalar = [](double value) { return at::full({}, value, at::kFloat); };
    adamw(m, f, s, tensor(gradient, {size}), copy, {scalar(rate), scalar(step), scalar(factor), scalar(skip)},
          {0.9, 0.95, 1e-8, 0.1}, kFormulaLevel);
    expect_equal(m, skip == 0 ? new_master : master);
    expect_equal(f, skip == 0 ? new_first : first);
    expect_equal(s, skip == 0 ? new_second : second);
  }
}

}  // namespace
}  // namespace strata::kernels

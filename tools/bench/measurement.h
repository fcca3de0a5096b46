// SPDX-License-Identifier: MIT
// One op at one shape, dtype and level: proved at that size, and timed only if it agreed.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "kernels/proof/op_shape.h"
#include "kernels/proof/workload_check.h"
#include "kernels/runtime/level.h"
#include "tools/bench/timer.h"

namespace strata::tools {

struct Measurement {
  kernels::OpShape shape;
  at::ScalarType dtype;
  kernels::Level level;
  kernels::Verdict verdict;
  std::optional<Timing> timing = {};  // absent where it did not agree
};

// Those levels at which `op` has a kernel on `device`.
std::vector<kernels::Level> levels_of(const std::string& op, at::Device device);

// One measurement for each of `levels`, handed to `done` as soon as it is made.
void measure(const kernels::OpShape& shape, at::ScalarType dtype, at::Device device,
             const std::vector<kernels::Level>& levels, const std::function<void(const Measurement&)>& done);

// Each message starts with the op, its dtype and its shape.
std::string title(const kernels::OpShape& shape, at::ScalarType dtype);
// "fp32", "bf16", "fp16"
std::string short_name(at::ScalarType dtype);

}  // namespace strata::tools

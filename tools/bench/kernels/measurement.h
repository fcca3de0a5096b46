// SPDX-License-Identifier: MIT
// Measures one op at one shape, dtype and level: it is checked at that size, and timed only if it agrees with the
// reference.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/proof/workload_check.h"
#include "kernels/runtime/level.h"
#include "kernels/runtime/op_shape.h"
#include "tools/bench/kernels/timer.h"

namespace strata::tools {

struct Measurement {
  kernels::OpShape shape;
  at::ScalarType dtype;
  kernels::Level level;
  kernels::Verdict verdict;
  std::optional<Timing> timing = {};  // absent if it did not agree
};

// Returns the levels at which `op` has a kernel on `device` and at which runs start there.
std::vector<kernels::Level> levels_of(std::string_view op, at::Device device);

// Makes one measurement for each of `levels` and passes it to `done` immediately.
void measure(const kernels::OpShape& shape, at::ScalarType dtype, at::Device device,
             const std::vector<kernels::Level>& levels, const std::function<void(const Measurement&)>& done);

// Returns op, dtype and shape, the start of each message.
std::string title(const kernels::OpShape& shape, at::ScalarType dtype);
// Returns "fp32", "bf16" or "fp16".
std::string short_name(at::ScalarType dtype);
// Returns the dtype of a short name. Throws an Error that names --dtype if there is none.
at::ScalarType dtype_of(const std::string& short_name);

}  // namespace strata::tools

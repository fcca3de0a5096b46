// SPDX-License-Identifier: MIT
// Which linear layers of a model are faster in the number format of `precision.linear` than in precision.compute, as
// measured. The others are kept in precision.compute by a plan.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "configs/limits.h"
#include "kernels/linear/linear_shape.h"
#include "modules/config/linear_formats_config.h"
#include "modules/config/module.h"

namespace strata::trainer {

// Microseconds of one linear layer with its activation. The backward has the gradients of inputs, weight and bias.
struct LinearTimes {
  double forward = 0, backward = 0;
  double sum() const { return forward + backward; }
};

// Linear layers of one shape. In a format, times have the kernels that make operands.
struct FormatRow {
  std::vector<std::string> modules = {};  // by their names in a layer, or by whole names if layers differ
  std::string shape = {};
  int64_t layers = 1;  // how many modules these are
  double forward = 0, backward = 0, compute_forward = 0, compute_backward = 0;

  double format_time() const { return forward + backward; }
  double compute_time() const { return compute_forward + compute_backward; }
  // The format must gain 2 %, because it rounds and times have errors.
  bool wins() const { return format_time() < 0.98 * compute_time(); }

  template <class Fields>
  void describe(Fields& fields) {
    fields.add("modules", modules, "linear layers of this shape");
    fields.require("shape", shape, "at which they were timed");
    fields.add("layers", layers, "how many modules these are", configs::kPositive);
    fields.add("forward", forward, "microseconds in the number format", configs::kNonNegative);
    fields.add("backward", backward, "microseconds in the number format", configs::kNonNegative);
    fields.add("compute_forward", compute_forward, "microseconds in precision.compute", configs::kNonNegative);
    fields.add("compute_backward", compute_backward, "microseconds in precision.compute", configs::kNonNegative);
  }
};

// True for formats that level cuda multiplies by the tensor cores of Hopper GPUs. All others are emulated there, and
// slower than no format.
bool is_multiplied(const modules::LinearFormatsConfig& formats);

// Times each distinct shape once, in the format and without it. `shapes` are the shapes of the products of a step
// without number formats. Throws an Error if a product of `modules` is not among them.
using TimeLinear = std::function<LinearTimes(const std::string& module, const kernels::LinearShape&, bool uses_format)>;
std::vector<FormatRow> time_formats(const modules::LinearFormatsConfig& formats,
                                    const std::vector<modules::DeclaredModule>& modules,
                                    const std::vector<kernels::LinearShape>& shapes, const TimeLinear& time);

// Returns the modules for `keep`: those of all rows that do not win.
std::vector<std::string> kept_modules(const std::vector<FormatRow>& rows);

// Returns the microseconds by which all rows that win are faster in the format.
double gained_microseconds(const std::vector<FormatRow>& rows);

// Returns one line for each row: both times, and whether the layers keep precision.compute.
std::string format_choice_table(const modules::LinearFormatsConfig& formats, const std::string& compute,
                                const std::vector<FormatRow>& rows);

}  // namespace strata::trainer

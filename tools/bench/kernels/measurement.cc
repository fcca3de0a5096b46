// SPDX-License-Identifier: MIT
#include "tools/bench/kernels/measurement.h"

#include <algorithm>

#include "base/errors.h"
#include "kernels/level_matrix.h"
#include "kernels/op_proofs.h"

namespace strata::tools {

using kernels::Level;

std::vector<Level> levels_of(std::string_view op, at::Device device) {
  const kernels::Target target = kernels::target_of(device);
  std::vector<Level> levels;
  for (size_t i = 0; i < kernels::kLevelNames.size(); ++i) {
    if (kernels::has_level(op, Level(i), target)) levels.push_back(Level(i));
  }
  return levels;
}

namespace {

// A library may keep results of a size that it was called with. So it is proved once more with other values.
void prove_again(const kernels::Workload& workload, Measurement& measurement) {
  kernels::Verdict again = kernels::verdict(kernels::with_other_values(workload), measurement.level);
  again.share = std::max(again.share, measurement.verdict.share);
  if (!again.agreed) {
    again.words = "with other values after it was timed: " + again.words;
    measurement.timing.reset();
  }
  measurement.verdict = again;
}

}  // namespace

void measure(const kernels::OpShape& shape, at::ScalarType dtype, at::Device device, const std::vector<Level>& levels,
             const std::function<void(const Measurement&)>& done) {
  std::optional<kernels::Workload> workload;
  std::string failure;
  try {
    workload = kernels::make_workload(shape, dtype, device);
  } catch (const std::exception& error) {
    failure = "not checked: " + kernels::sentence_of(error);
  }
  for (const Level level : levels) {
    Measurement measurement{shape, dtype, level, {}};
    if (!failure.empty()) {
      measurement.verdict.words = failure;
    } else {
      measurement.verdict = kernels::verdict(*workload, level);
    }
    if (measurement.verdict.agreed) {
      try {
        measurement.timing = time_workload(*workload, level);
        if (level == kernels::kLibraryLevel) prove_again(*workload, measurement);
      } catch (const std::exception& error) {  // several sets of inputs may not fit even if one does
        measurement.verdict.words = "agreed, but " + kernels::sentence_of(error);
      }
    }
    done(measurement);
  }
}

std::string short_name(at::ScalarType dtype) {
  return dtype == at::kFloat ? "fp32" : dtype == at::kBFloat16 ? "bf16" : dtype == at::kHalf ? "fp16" : toString(dtype);
}

at::ScalarType dtype_of(const std::string& name) {
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16, at::kHalf}) {
    if (short_name(dtype) == name) return dtype;
  }
  throw Error(ExitCode::configuration, "--dtype " + name + " is not fp32, bf16 or fp16");
}

std::string title(const kernels::OpShape& shape, at::ScalarType dtype) {
  return std::string(shape.op()) + " " + short_name(dtype) + " " + shape.text();
}

}  // namespace strata::tools

// SPDX-License-Identifier: MIT
// Measures a module at one level, and the same module in plain PyTorch. Output and all gradients of a level are
// compared with the plain code in fp64, and the level is timed only if they agree.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/proof/workload_check.h"
#include "kernels/runtime/level.h"
#include "modules/config/kernels_config.h"
#include "tools/bench/modules/module_cases.h"
#include "tools/bench/modules/module_timing.h"

namespace strata::tools {

struct ModuleMeasurement {
  // Level of each op, by its key in `kernels:`; empty for plain PyTorch.
  std::map<std::string, std::string> levels = {};
  kernels::Verdict verdict = {};
  std::optional<ModuleTimes> times = {};  // absent if the verdict is not that it agrees
  bool is_absent = false;                 // the device, the dtype or the sizes are none of this level's
};

// The parameters, an input and a gradient of the output of one module, with the results of the plain code.
class ModuleWorkload {
 public:
  // Parameters and input are random numbers in `dtype`.
  ModuleWorkload(ModuleCase module, at::ScalarType dtype, at::Device device);

  // Measures the module with all its ops at `level`. An op that lacks the level on the device runs at aten.
  ModuleMeasurement measure(kernels::Level level) const;
  // Measures the module with each op at the level that is best for it: see best_levels.
  ModuleMeasurement measure_best() const;
  // Measures the plain code.
  ModuleMeasurement measure_naive() const;
  // Measures any function of the module's parameters.
  ModuleMeasurement measure(const BuildModule& build) const;

  const ModuleCase& module() const { return module_; }

 private:
  ModuleMeasurement measure(const modules::KernelsConfig& kernels) const;
  ModuleCase::Function built(const modules::KernelsConfig& kernels, const Parameters& parameters) const;
  std::map<std::string, std::string> levels_of_ops(const modules::KernelsConfig& kernels) const;

  ModuleCase module_;
  at::ScalarType dtype_;
  at::Device device_;
  std::set<std::string_view> ops_;
  ModuleInputs inputs_;
  std::vector<Tensor> exact_, rounded_;  // output, gradient of x, gradients of the parameters
};

}  // namespace strata::tools

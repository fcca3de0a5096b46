// SPDX-License-Identifier: MIT
// bench_modules [MODULE ...]: times modules at each level beside plain PyTorch, forward and backward.
#include <ATen/Context.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "base/errors.h"
#include "base/files/append_result.h"
#include "base/run_program.h"
#include "base/text/joined.h"
#include "kernels/runtime/device_name.h"
#include "kernels/runtime/product_sums.h"
#include "tools/bench/kernels/measurement.h"
#include "tools/bench/modules/module_cases.h"
#include "tools/bench/modules/module_measurement.h"
#include "tools/bench/modules/module_report.h"
#include "tools/programs.h"

namespace strata::tools {
namespace {

struct Options {
  std::vector<std::string> modules;
  std::string dtype = "", device = "", configs = "configs", json = "", picture = "";
};

at::ScalarType dtype_of(const Options& options, at::Device device) {
  if (options.dtype.empty()) return device.is_cuda() ? at::kBFloat16 : at::kFloat;
  return options.dtype == "fp32" ? at::kFloat : options.dtype == "bf16" ? at::kBFloat16 : at::kHalf;
}

ExitCode bench(const Options& options) {
  kernels::accumulate_products_in_fp32();
  const at::Device device(options.device.empty() ? (at::hasCUDA() ? "cuda:0" : "cpu") : options.device);
  const at::ScalarType dtype = dtype_of(options, device);
  const std::vector<std::string> names = options.modules.empty() ? module_names() : options.modules;
  std::vector<ModuleCase> cases;  // all names are checked before anything is timed
  for (const std::string& name : names) cases.push_back(module_case(name, options.configs, device));
  // Output files must be writable before anything is measured.
  append_result(options.json, "");
  if (!options.picture.empty()) std::ofstream(options.picture, std::ios::trunc);
  append_result(options.picture, "");
  const ModuleOrigin origin{kernels::device_name(device), kernels::torch_version(), short_name(dtype)};
  std::printf("%s, torch %s, %s; milliseconds with 10 %% and 90 %% of the samples\n\n%s", origin.device.c_str(),
              origin.torch.c_str(), origin.dtype.c_str(), table_head().c_str());
  std::vector<ModuleRow> rows;
  bool all_agreed = true;
  for (ModuleCase& module : cases) {
    const ModuleWorkload workload(std::move(module), dtype, device);
    const size_t plain = rows.size();
    const auto report = [&](const std::string& level, const ModuleMeasurement& measured) {
      all_agreed = all_agreed && (measured.times || measured.is_absent);
      const ModuleCase& of = workload.module();
      rows.push_back({of.name, of.config, of.input, level, measured});
      std::fputs(table_line(rows.back(), rows[plain]).c_str(), stdout);
      std::fflush(stdout);
      append_result(options.json, json_line(rows.back(), origin));
    };
    report(kPlain, workload.measure_naive());
    for (size_t level = 0; level < kernels::kLevelNames.size(); ++level) {
      report(std::string(kernels::kLevelNames[level]), workload.measure(kernels::Level(level)));
    }
    report("best", workload.measure_best());
  }
  append_result(options.picture, picture(rows, origin));
  return all_agreed ? ExitCode::done : ExitCode::numerics;
}

}  // namespace
}  // namespace strata::tools

int strata::programs::bench_modules_main(int argc, char** argv) {
  using namespace strata;
  CLI::App app("Proves each level of whole modules against plain PyTorch in fp64, then times what agrees beside it.",
               "bench modules");
  tools::Options options;
  app.add_option("MODULE", options.modules, "only these of " + joined(tools::module_names(), ", "));
  app.add_option("--dtype", options.dtype, "otherwise fp32 on CPUs and bf16 on GPUs")
      ->check(CLI::IsMember({"fp32", "bf16", "fp16"}));
  app.add_option("--device", options.device, "cpu or cuda:0; otherwise the GPU where there is one");
  app.add_option("--configs", options.configs, "folder of the shipped configurations")->capture_default_str();
  app.add_option("--json", options.json, "file to which a line of JSON a row is appended");
  app.add_option("--svg", options.picture, "file for a picture");
  return run_program(app, argc, argv, [&] { return tools::bench(options); });
}

// SPDX-License-Identifier: MIT
// bench_modules [MODULE ...]: times modules at each level beside plain PyTorch, forward and backward.
#include <ATen/Context.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/append_text.h"
#include "base/errors.h"
#include "base/joined.h"
#include "base/quantile.h"
#include "base/run_program.h"
#include "kernels/runtime/device_name.h"
#include "kernels/runtime/product_sums.h"
#include "tools/bench/measurement.h"
#include "tools/bench/module_cases.h"
#include "tools/bench/module_measurement.h"
#include "tools/programs.h"

namespace strata::tools {
namespace {

struct Options {
  std::vector<std::string> modules;
  std::string dtype = "", device = "", configs = "configs", json = "";
};

constexpr const char* kPlain = "plain PyTorch";
constexpr const char* kRow = "| %-17s | %-13s | %-29s | %-29s | %12s | %7s | %s |\n";

at::ScalarType dtype_of(const Options& options, at::Device device) {
  if (options.dtype.empty()) return device.is_cuda() ? at::kBFloat16 : at::kFloat;
  return options.dtype == "fp32" ? at::kFloat : options.dtype == "bf16" ? at::kBFloat16 : at::kHalf;
}

std::string number(double value, int digits) {
  char text[40];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

std::string interval(const std::vector<double>& seconds) {
  const auto milliseconds = [&](double share) { return number(1e3 * quantile(seconds, share), 3); };
  return milliseconds(0.5) + " (" + milliseconds(0.1) + " to " + milliseconds(0.9) + ")";
}

double both_directions(const ModuleTimes& times) { return median(times.forward) + median(times.backward); }

nlohmann::ordered_json json_of(const ModuleWorkload& workload, const std::string& level,
                               const ModuleMeasurement& measured) {
  nlohmann::ordered_json row = {{"module", workload.module().name},
                                {"config", workload.module().config},
                                {"input", workload.module().input},
                                {"level", level}};
  if (!measured.levels.empty()) row["levels"] = measured.levels;
  if (!measured.times) {
    row["not_timed"] = measured.verdict.words;
    return row;
  }
  const auto add = [&](const std::string& direction, const std::vector<double>& seconds) {
    for (const auto& [name, share] : {std::pair{"", 0.5}, {"_p10", 0.1}, {"_p90", 0.9}}) {
      row[direction + "_milliseconds" + name] = 1e3 * quantile(seconds, share);
    }
  };
  add("forward", measured.times->forward);
  add("backward", measured.times->backward);
  row["peak_bytes"] = measured.times->peak_bytes;
  row["error"] = measured.verdict.share;
  return row;
}

// Returns the ops that run at another level: "attention at aten".
std::string other_levels(const std::string& level, const ModuleMeasurement& measured) {
  std::string text;
  for (const auto& [op, of_op] : measured.levels) {
    if (of_op != level) text += (text.empty() ? "" : ", ") + op + " at " + of_op;
  }
  return text;
}

void print_row(const std::string& module, const std::string& level, const ModuleMeasurement& measured, double plain) {
  if (!measured.times) {
    const std::string why = "not timed: " + measured.verdict.words;
    std::printf(kRow, module.c_str(), level.c_str(), "-", "-", "-", "-", why.c_str());
  } else {
    std::printf(kRow, module.c_str(), level.c_str(), interval(measured.times->forward).c_str(),
                interval(measured.times->backward).c_str(), number(plain / both_directions(*measured.times), 2).c_str(),
                number(1e-6 * static_cast<double>(measured.times->peak_bytes), 1).c_str(),
                other_levels(level, measured).c_str());
  }
  std::fflush(stdout);
}

ExitCode bench(const Options& options) {
  kernels::add_products_in_fp32();
  const at::Device device(options.device.empty() ? (at::hasCUDA() ? "cuda:0" : "cpu") : options.device);
  const at::ScalarType dtype = dtype_of(options, device);
  const std::vector<std::string> names = options.modules.empty() ? module_names() : options.modules;
  std::vector<ModuleCase> cases;  // all names are checked before anything is timed
  for (const std::string& name : names) cases.push_back(module_case(name, options.configs, device));
  append_text(options.json, "");
  const std::string origin = kernels::device_name(device), torch = kernels::torch_version();
  std::printf("%s, torch %s, %s; milliseconds with 10 %% and 90 %% of the samples\n\n", origin.c_str(), torch.c_str(),
              short_name(dtype).c_str());
  std::printf(kRow, "module", "level", "forward", "backward", "plain / this", "peak MB", "ops at other levels");
  std::printf(kRow, "---", "---", "---", "---", "---", "---", "---");
  bool all_agreed = true;
  for (ModuleCase& module : cases) {
    const ModuleWorkload workload(std::move(module), dtype, device);
    double plain = 0;
    const auto report = [&](const std::string& level, const ModuleMeasurement& measured) {
      all_agreed = all_agreed && (measured.times || measured.is_absent);
      print_row(workload.module().name, level, measured, plain);
      nlohmann::ordered_json row = json_of(workload, level, measured);
      row["dtype"] = short_name(dtype), row["device"] = origin, row["torch"] = torch;
      append_text(options.json, row.dump() + "\n");
    };
    const ModuleMeasurement of_plain = workload.measure_naive();
    plain = both_directions(*of_plain.times);
    report(kPlain, of_plain);
    for (size_t level = 0; level < kernels::kLevelNames.size(); ++level) {
      report(std::string(kernels::kLevelNames[level]), workload.measure(kernels::Level(level)));
    }
  }
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
  return run_program(app, argc, argv, [&] { return tools::bench(options); });
}

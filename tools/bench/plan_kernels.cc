// SPDX-License-Identifier: MIT
// plan_kernels CONFIG: times every op of a model at its shapes at every level and writes what is best as a plan.
#include <ATen/Context.h>
#include <c10/util/Exception.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "configs/errors.h"
#include "kernels/device_name.h"
#include "tools/bench/measurement.h"
#include "tools/bench/report.h"
#include "tools/bench/shapes.h"
#include "trainer/kernel_plan.h"
#include "trainer/used_shapes.h"

namespace strata::tools {
namespace {

using kernels::Level;
using trainer::KernelPlan;
using trainer::PlanRow;

// "plans/gpt2_124m-nvidia-h200.yaml"
std::string default_path(const std::string& config, const std::string& device) {
  std::string words;
  for (const char c : device) {
    if (std::isalnum(static_cast<unsigned char>(c))) {
      words += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    } else if (!words.empty() && words.back() != '-') {
      words += '-';
    }
  }
  while (words.ends_with('-')) words.pop_back();
  return "plans/" + std::filesystem::path(config).stem().string() + "-" + words + ".yaml";
}

// Microseconds of all uses of the ops behind one key of `kernels:`, by level; a level that cannot do one of them is
// out.
class Totals {
 public:
  void add(const PlanRow& row) {
    auto& [sum, possible] = totals_[std::string(kernels_key(row.op))][row.level];
    possible = possible && row.forward;
    if (row.forward) sum += static_cast<double>(row.uses) * (*row.forward + row.backward.value_or(0));
  }

  // The fastest level; aten for what the model does not compute.
  Level best(const std::string& key) const {
    const auto levels = totals_.find(key);
    if (levels == totals_.end()) return Level::aten;
    std::optional<Level> best;
    for (const auto& [level, total] : levels->second) {
      if (total.possible && (!best || total.sum < levels->second.at(*best).sum)) best = level;
    }
    if (!best) throw Error(ExitCode::numerics, "no level of " + key + " agrees at all shapes of this model");
    return *best;
  }

 private:
  struct Total {
    double sum = 0;
    bool possible = true;
  };
  std::map<std::string, std::map<Level, Total>> totals_;
};

PlanRow plan_row(const Measurement& measurement, int64_t uses) {
  PlanRow row{measurement.shape.op, text(measurement.shape), measurement.level, uses};
  row.error = measurement.verdict.share;
  row.not_timed = measurement.verdict.words;
  if (!measurement.timing) return row;
  row.forward = 1e6 * measurement.timing->forward;
  if (measurement.timing->backward) row.backward = 1e6 * *measurement.timing->backward;
  return row;
}

KernelPlan make_plan(const std::string& path, const trainer::TrainerConfig& config, at::Device device) {
  KernelPlan plan{path, kernels::device_name(device), kernels::torch_version(), kernels::kernel_version(),
                  model_version(config)};
  const at::ScalarType dtype = config.precision.compute == trainer::FloatType::float32 ? at::kFloat : at::kBFloat16;
  const Roofline roofline = measure_roofline(device, dtype);
  Totals totals;
  for (const trainer::UsedShape& used : trainer::used_shapes(config)) {
    measure(used.shape, dtype, device, levels_of(used.shape.op, device), [&](const Measurement& measurement) {
      for (const Row& row : rows_of(measurement, roofline)) std::fprintf(stderr, "%s\n", line_of(row).c_str());
      plan.measured.push_back(plan_row(measurement, used.uses()));
      totals.add(plan.measured.back());
    });
  }
  plan.levels.each([&](const char* op, std::optional<Level>& level) { level = totals.best(op); });
  return plan;
}

void write(const std::string& path, const std::string& text) {
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  std::error_code problem;
  if (!folder.empty()) std::filesystem::create_directories(folder, problem);
  std::ofstream file(path, std::ios::binary);
  file << text;
  if (!file.flush()) throw Error(ExitCode::storage, path + " cannot be written");
}

}  // namespace
}  // namespace strata::tools

int main(int argc, char** argv) {
  using namespace strata;
  CLI::App app("Times every op of a model at its shapes at every level and writes what is best as a plan.", "plan");
  std::string config, output, name;
  std::vector<std::string> overrides;
  bool print_path = false;
  app.add_option("CONFIG", config, "the configuration whose model is measured")->required();
  app.add_option("overrides", overrides, "a.b.c=value");
  app.add_option("--output", output, "the plan's file; otherwise plans/CONFIG-DEVICE.yaml");
  app.add_option("--device", name, "cpu or cuda:0; otherwise the GPU where there is one");
  app.add_flag("--print-path", print_path, "only say what the plan's file would be");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : static_cast<int>(ExitCode::configuration);
  }
  try {
    const trainer::TrainerConfig loaded = trainer::load_trainer_config(config, overrides).config;
    const at::Device device(name.empty() ? (at::hasCUDA() ? "cuda:0" : "cpu") : name);
    if (output.empty()) output = tools::default_path(config, kernels::device_name(device));
    if (!print_path) tools::write(output, yaml(tools::make_plan(config, loaded, device)));
    std::printf("%s\n", output.c_str());
    return 0;
  } catch (const Error& error) {
    std::fprintf(stderr, "plan: %s\n", error.what());
    return static_cast<int>(error.code());
  } catch (const c10::Error& error) {
    std::fprintf(stderr, "plan: %s\n", error.what_without_backtrace());
    return static_cast<int>(ExitCode::internal);
  }
}

// SPDX-License-Identifier: MIT
// plan_kernels CONFIG: times every op of a model at its shapes at every level and writes the fastest levels as a plan.
#include <ATen/Context.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <cstdio>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/digest.h"
#include "base/errors.h"
#include "base/files/file_io.h"
#include "base/run_program.h"
#include "base/text/word_of.h"
#include "kernels/level_matrix.h"
#include "kernels/linear/linear_shape.h"
#include "kernels/runtime/device_name.h"
#include "kernels/runtime/gpus.h"
#include "kernels/runtime/product_sums.h"
#include "tools/bench/kernels/measurement.h"
#include "tools/bench/kernels/report.h"
#include "tools/plan/level_choice.h"
#include "tools/plan/linear_timer.h"
#include "tools/programs.h"
#include "trainer/config/launcher_facts.h"
#include "trainer/config/scalar_type.h"
#include "trainer/levels/format_choice.h"
#include "trainer/levels/kernel_plan.h"
#include "trainer/prediction/trace_step.h"
#include "trainer/tasks/declared_model.h"
#include "trainer/tasks/load_run_config.h"

namespace strata::tools {
namespace {

using kernels::Level;
using trainer::KernelPlan;
using trainer::PlanRow;
using trainer::UsedShape;

// Returns a path such as "plans/gpt2_124m-nvidia-h200-0123abcd.yaml". The name contains a hash of model, micro-batch,
// LibTorch and version of the kernels, so that a plan under this name fits the configuration.
std::string default_path(const std::string& file, const std::string& model_version, at::Device on) {
  const std::string device = kernels::device_name(on);
  std::string words;
  for (const char c : device) {
    if (std::isalnum(static_cast<unsigned char>(c))) {
      words += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    } else if (!words.empty() && words.back() != '-') {
      words += '-';
    }
  }
  while (words.ends_with('-')) words.pop_back();
  const std::string versions = model_version + kernels::torch_version() + kernels::kernel_version();
  return "plans/" + std::filesystem::path(file).stem().string() + "-" + words + "-" + sha256(versions).substr(0, 8) +
         ".yaml";
}

// `option` is the value of --device, which may be empty.
at::Device device_of(const std::string& option, sharding::DeviceSetting run_device) {
  if (!option.empty()) return at::Device(option);
  if (run_device == sharding::DeviceSetting::cpu) return at::kCPU;
  if (at::hasCUDA()) return at::Device("cuda:0");
  if (run_device == sharding::DeviceSetting::automatic) return at::kCPU;
  throw Error(ExitCode::configuration, "run.device is cuda, and there is no GPU here that can be measured");
}

// Returns the microseconds of `uses` uses, forward and backward; nothing if the level does not support them.
std::optional<double> time_of(const PlanRow& row, int64_t uses) {
  if (!row.forward) return std::nullopt;
  return static_cast<double>(uses) * (*row.forward + row.backward.value_or(0));
}

PlanRow plan_row(const Measurement& measurement, int64_t uses) {
  PlanRow row{std::string(measurement.shape.op()), measurement.shape.text(), measurement.level, uses};
  if (measurement.shape.key() != row.op) row.key = measurement.shape.key();
  row.error = measurement.verdict.share;
  row.not_timed = measurement.verdict.words;
  if (!measurement.timing) return row;
  row.forward = 1e6 * measurement.timing->forward_or_whole();
  if (measurement.timing->backward) row.backward = 1e6 * *measurement.timing->backward;
  return row;
}

// Times each shape once and caches the result.
class Stopwatch {
 public:
  Stopwatch(at::ScalarType dtype, at::Device device)
      : dtype_(dtype), device_(device), roofline_(measure_roofline(device, dtype)) {}

  // Returns one row per level.
  const std::vector<PlanRow>& rows(const UsedShape& used) {
    const auto same = [&](const auto& timed) { return timed.first == used.shape; };
    if (const auto found = std::find_if(timed_.begin(), timed_.end(), same); found != timed_.end())
      return found->second;
    std::vector<PlanRow>& rows = timed_.emplace_back(used.shape, std::vector<PlanRow>()).second;
    measure(used.shape, dtype_, device_, levels_of(used.shape.op(), device_), [&](const Measurement& measurement) {
      for (const Row& row : rows_of(measurement, roofline_)) std::fprintf(stderr, "%s\n", line_of(row).c_str());
      rows.push_back(plan_row(measurement, used.calls));
    });
    return rows;
  }

  std::vector<PlanRow> all_rows() const {
    std::vector<PlanRow> all;
    for (const auto& [shape, rows] : timed_) all.insert(all.end(), rows.begin(), rows.end());
    return all;
  }

 private:
  at::ScalarType dtype_;
  at::Device device_;
  Roofline roofline_;
  std::vector<std::pair<kernels::OpShape, std::vector<PlanRow>>> timed_;
};

// Returns the shapes of the products of a step that has no number formats.
std::vector<kernels::LinearShape> products_of(trainer::TrainerConfig config, at::Device device) {
  config.precision.linear = {};
  std::vector<kernels::LinearShape> products;
  for (const UsedShape& used : trainer::used_shapes(config, device.type())) {
    if (const auto* linear = used.shape.as<kernels::LinearShape>()) products.push_back(*linear);
  }
  return products;
}

// Returns by how many microseconds all products of a step in precision.compute take longer at level cuda than at the
// level that is best for them.
double lost_at_cuda(const KernelPlan& plan) {
  std::map<Level, double> totals;
  for (const PlanRow& row : plan.measured) {
    if (row.op != "linear" || !row.forward) continue;
    totals[row.level] += *time_of(row, row.uses);
  }
  const auto best = totals.find(plan.levels.linear.value_or(Level::cuda)), cuda = totals.find(Level::cuda);
  return best == totals.end() || cuda == totals.end() ? 0 : cuda->second - best->second;
}

// Times each linear layer in the format of the run and in precision.compute, on GPUs where level cuda multiplies in
// this format. `keep` gets the layers that the format does not speed up. The others need `linear` at level cuda. If
// they gain less time than the remaining products lose at that level, the run is refused, unless it names the level of
// `linear`.
void choose_formats(const trainer::TrainerConfig& config, at::Device device, KernelPlan& plan) {
  const modules::LinearFormatsConfig& formats = config.precision.linear;
  const std::optional<kernels::Gpu> gpu = kernels::target_of(device).gpu;
  if (!trainer::is_multiplied(formats) || !gpu || !kernels::kHopper.has(gpu->capability)) return;
  modules::KernelsConfig kernels = config.kernels;
  kernels.modules.clear();
  kernels.layers.clear();
  kernels.default_level = Level::cuda;
  static_cast<modules::OpLevels&>(kernels.levels) = plan.levels;
  kernels.levels.linear = Level::cuda;
  const auto time = [&](const std::string& module, const kernels::LinearShape& shape, bool uses_format) {
    return time_linear(module, shape, kernels, uses_format ? &formats : nullptr,
                       trainer::scalar_type(config.precision.compute), device);
  };
  plan.formats =
      trainer::time_formats(formats, trainer::declared_model(config).modules, products_of(config, device), time);
  const std::string compute = word_of(config.precision.compute);
  std::fputs(format_choice_table(formats, compute, plan.formats).c_str(), stderr);
  plan.keep = kept_modules(plan.formats);
  if (gained_microseconds(plan.formats) > lost_at_cuda(plan)) {
    plan.levels.linear = Level::cuda;
  } else if (!config.kernels.levels.linear) {
    throw Error(ExitCode::configuration,
                "precision.linear: " + formats.text() + " is not faster than " + compute +
                    " for the linear layers of this model on this device, as the table says; write format: none, or "
                    "kernels.linear: cuda, which multiplies in " +
                    formats.text() + " all the same");
  }
}

KernelPlan make_plan(const std::string& path, const trainer::TrainerConfig& config, at::Device device) {
  kernels::accumulate_products_in_fp32();
  Stopwatch stopwatch(trainer::scalar_type(config.precision.compute), device);
  std::optional<LevelChoice> chosen;
  std::string impossible;
  for (const std::vector<UsedShape>& way : trainer::shapes_by_head(config, device.type())) {
    LevelTotals totals;
    for (const UsedShape& used : way) {
      for (const PlanRow& row : stopwatch.rows(used)) {
        totals.add(used.shape.key(), row.level, time_of(row, used.calls));
      }
    }
    const LevelChoice best = totals.best();
    if (!best.impossible.empty()) {
      impossible = best.impossible;
    } else if (!chosen || best.microseconds < chosen->microseconds) {
      chosen = best;
    }
  }
  if (!chosen) throw Error(ExitCode::numerics, "no level of " + impossible + " agrees at all shapes of this model");
  KernelPlan plan{path, kernels::device_name(device), kernels::torch_version(), kernels::kernel_version(),
                  model_version(config, trainer::declared_model(config).modules)};
  static_cast<modules::OpLevels&>(plan.levels) = chosen->levels;
  plan.measured = stopwatch.all_rows();
  choose_formats(config, device, plan);
  return plan;
}

void write(const std::string& path, const std::string& text) {
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  std::error_code problem;
  if (!folder.empty()) std::filesystem::create_directories(folder, problem);
  replace_file(path, text);  // a run that reads plans in the meantime finds no plan or a complete one
}

}  // namespace
}  // namespace strata::tools

int strata::programs::plan_kernels_main(int argc, char** argv) {
  using namespace strata;
  CLI::App app("Times every op of a model at its shapes at every level and writes what is best as a plan.", "plan");
  std::string config, output, name;
  std::vector<std::string> overrides;
  bool prints_for_launcher = false;
  app.add_option("CONFIG", config, "the configuration whose model is measured")->required();
  app.add_option("overrides", overrides, "a.b.c=value");
  app.add_option("--output", output,
                 "the plan's file; otherwise plans/CONFIG-DEVICE-VERSION.yaml, where a run finds it by itself");
  app.add_option("--device", name, "cpu or cuda:0; otherwise as run.device says");
  app.add_flag("--for-launcher", prints_for_launcher,
               "only print what tools/strata asks: lines with a name, a tab and a value");
  return run_program(app, argc, argv, [&] {
    const trainer::LoadedConfig loaded = trainer::load_run_config(config, overrides);
    const at::Device device = tools::device_of(name, loaded.config.run.device);
    const std::string model = model_version(loaded.config, trainer::declared_model(loaded.config).modules);
    if (output.empty()) output = tools::default_path(config, model, device);
    if (prints_for_launcher) {
      std::fputs(trainer::plan_facts(loaded, output).c_str(), stdout);
      return;
    }
    tools::write(output, yaml(tools::make_plan(config, loaded.config, device)));
    std::printf("%s\n", output.c_str());
  });
}

// SPDX-License-Identifier: MIT
// op_facts [OP]: prints one JSON object for explain.py, with what only the program knows: the levels of an op on this
// device, the work at its shapes, and the rows of a plan. Without OP it prints an array of all ops.
#include <ATen/Context.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/errors.h"
#include "base/run_program.h"
#include "base/text/joined.h"
#include "base/text/nearest_name.h"
#include "kernels/level_matrix.h"
#include "kernels/op_proofs.h"
#include "kernels/runtime/device_name.h"
#include "tools/bench/kernels/measurement.h"
#include "tools/bench/kernels/parsed_shape.h"
#include "tools/programs.h"
#include "trainer/config/load_config.h"
#include "trainer/levels/kernel_plan.h"
#include "trainer/prediction/trace_step.h"

namespace strata::tools {
namespace {

using Json = nlohmann::ordered_json;

struct Options {
  std::string op, level, shape, dtype, device, config, plan;
  std::vector<std::string> overrides;
};

// Refuses a name that is not known, with the nearest one that is.
void require_known(const std::string& what, const std::string& word, const std::vector<std::string>& names) {
  if (std::find(names.begin(), names.end(), word) != names.end()) return;
  throw Error(ExitCode::configuration, "there is no " + what + " '" + word + "'; there are " +
                                           joined(names, what == "shape" ? "; " : ", ") +
                                           did_you_mean(nearest_name(word, names)));
}

std::vector<std::string> op_names() {
  std::vector<std::string> names;
  for (const kernels::LevelRow& row : kernels::level_matrix()) {
    if (names.empty() || names.back() != row.op) names.emplace_back(row.op);  // the rows of an op are consecutive
  }
  return names;
}

// Each level with "" if it runs on the device, otherwise the reason why not.
Json levels(const Options& options, at::Device device) {
  const kernels::Target target = kernels::target_of(device);
  Json found = Json::array();
  for (const kernels::LevelRow& row : kernels::level_matrix()) {
    const std::string level(name(row.level));
    if (row.op != options.op || (!options.level.empty() && level != options.level)) continue;
    if (row.device == at::kCPU) found.push_back({{"level", level}, {"devices", Json::array()}, {"absent", ""}});
    if (row.forward) found.back()["devices"].push_back(row.device == at::kCPU ? "CPU" : "GPU");
    if (row.device != device.type()) continue;
    found.back()["absent"] = row.reason;
    if (row.forward) found.back()["absent"] = target.gpu ? kernels::why_not_on_gpu(row.gpus, *target.gpu) : "";
  }
  return found;
}

// The calls of a configuration with the dtypes that they have there, or the shapes at which bench kernels times the op.
// --dtype replaces the dtypes, and without a configuration --shape may have any sizes.
std::vector<trainer::UsedShape> shapes_of(const Options& options, at::Device device) {
  std::vector<trainer::UsedShape> shapes;
  if (!options.config.empty()) {
    const trainer::TrainerConfig config = trainer::load_trainer_config(options.config, options.overrides).config;
    shapes = trainer::used_shapes(config, device.type());
  } else {
    const kernels::OpProof& proof = kernels::proof_of(options.op);
    for (const kernels::OpShape& shape : device.is_cuda() ? proof.gpu_shapes : proof.cpu_shapes)
      shapes.push_back({shape, {at::kBFloat16}});
  }
  std::erase_if(shapes, [&](const trainer::UsedShape& used) { return used.shape.op() != options.op; });
  if (shapes.empty())
    throw Error(ExitCode::configuration, options.config + " has no call of " + options.op + "; leave out --config");
  if (!options.dtype.empty()) {
    for (trainer::UsedShape& used : shapes) used.dtypes = {dtype_of(options.dtype)};
  }
  if (options.shape.empty()) return shapes;
  if (options.config.empty()) {
    if (const std::optional<kernels::OpShape> parsed = parsed_shape(options.op, options.shape))
      return {{*parsed, shapes.front().dtypes}};
  }
  std::vector<std::string> texts;
  for (const trainer::UsedShape& used : shapes) texts.push_back(used.shape.text());
  require_known("shape", options.shape, texts);
  std::erase_if(shapes, [&](const trainer::UsedShape& used) { return used.shape.text() != options.shape; });
  return shapes;
}

Json work(const std::vector<trainer::UsedShape>& shapes) {
  const auto bytes_and_flops = [](const kernels::Work& work) -> Json {
    return {{"bytes", work.bytes}, {"flops", work.flops}};
  };
  Json found = Json::array();
  for (const auto& [shape, dtypes, calls] : shapes) {
    for (const at::ScalarType dtype : dtypes) {
      const auto element_bytes = static_cast<double>(at::elementSize(dtype));
      found.push_back({{"shape", shape.text()},
                       {"dtype", short_name(dtype)},
                       {"forward", bytes_and_flops(shape.forward_work(element_bytes))},
                       {"backward", bytes_and_flops(shape.backward_work(element_bytes))}});
    }
  }
  return found;
}

Json measured(const Options& options, const std::string& key) {
  const trainer::KernelPlan plan = trainer::read_kernel_plan(options.plan);
  Json rows = Json::array();
  for (const trainer::PlanRow& row : plan.measured) {
    if (row.op != options.op || (!options.level.empty() && name(row.level) != options.level)) continue;
    Json line = {{"shape", row.shape}, {"level", name(row.level)}, {"not_timed", row.not_timed}};
    if (row.forward) line["forward"] = *row.forward;
    if (row.backward) line["backward"] = *row.backward;
    rows.push_back(line);
  }
  const std::optional<kernels::Level>* best = plan.levels.find(key);
  return {{"config", plan.config},
          {"device", plan.device},
          {"best", best && *best ? std::string(name(**best)) : ""},
          {"key", key},
          {"same_kernels", plan.kernels == kernels::kernel_version()},
          {"rows", rows}};
}

// adamw and sum_of_squares have no gradients.
bool is_differentiated(const std::string& op) {
  const std::vector<kernels::LevelRow> rows = kernels::level_matrix();
  return std::any_of(rows.begin(), rows.end(),
                     [&](const kernels::LevelRow& row) { return row.op == op && row.backward; });
}

Json facts_of(const Options& options, at::Device device) {
  const std::vector<trainer::UsedShape> shapes = shapes_of(options, device);
  Json facts = {{"op", options.op},
                {"device", kernels::device_name(device)},
                {"differentiated", is_differentiated(options.op)},
                {"levels", levels(options, device)},
                {"shapes", work(shapes)}};
  if (!options.plan.empty()) facts["plan"] = measured(options, std::string(shapes.front().shape.key()));
  return facts;
}

at::Device device_of(const std::string& name) {
  if (name == "cpu" || (name.empty() && !at::hasCUDA())) return at::kCPU;
  if ((name == "cuda:0" || name.empty()) && at::hasCUDA()) return at::Device("cuda:0");
  throw Error(ExitCode::configuration, "--device is " + name + ", expected cpu" +
                                           (at::hasCUDA() ? " or cuda:0" : ", because there is no GPU here"));
}

void print_facts(Options options) {
  const at::Device device = device_of(options.device);
  if (!options.level.empty())
    require_known("level", options.level, {kernels::kLevelNames.begin(), kernels::kLevelNames.end()});
  if (options.config.empty() && !options.overrides.empty())
    throw Error(ExitCode::configuration,
                "'" + options.overrides.front() +
                    "' after the op is a key of --config, which is not given; explain takes one op");
  Json facts;
  if (!options.op.empty()) {
    require_known("op", options.op, op_names());
    facts = facts_of(options, device);
  } else if (!(options.level + options.shape + options.dtype + options.config + options.plan).empty()) {
    throw Error(ExitCode::configuration,
                "--level, --shape, --dtype, --config and --plan are for one op; name it first, as in: explain linear");
  } else {
    for (const std::string& op : op_names()) {
      options.op = op;
      facts["ops"].push_back(facts_of(options, device));
    }
  }
  std::printf("%s\n", facts.dump().c_str());
}

}  // namespace
}  // namespace strata::tools

int strata::programs::op_facts_main(int argc, char** argv) {
  using namespace strata;
  CLI::App app("Explains an op: formula, shapes, work, levels, kernels and measured times.", "explain");
  tools::Options options;
  app.add_option("op", options.op, "the op; without it all ops are listed");
  app.add_option("overrides", options.overrides, "a.b.c=value, for --config");
  app.add_option("--level", options.level, "only this level");
  app.add_option("--shape", options.shape, "only this shape, as it is printed; without a configuration with any sizes");
  app.add_option("--dtype", options.dtype, "fp32, bf16, fp16; otherwise bf16, or as in the configuration");
  app.add_option("--config", options.config, "the shapes of this configuration instead of the shapes of bench kernels");
  app.add_option("--plan", options.plan, "measured times, a file of tools/strata plan");
  app.add_option("--device", options.device, "cpu or cuda:0; otherwise the GPU where there is one");
  return run_program(app, argc, argv, [&] { tools::print_facts(options); });
}

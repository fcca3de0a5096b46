// SPDX-License-Identifier: MIT
// sensitivity RUN: how much the validation loss of a run grows if one linear layer multiplies in a number format, for
// each layer and format, and which layers to keep out of a format.
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/errors.h"
#include "base/files/append_result.h"
#include "base/run_program.h"
#include "base/text/formatted.h"
#include "base/text/joined.h"
#include "base/text/padded.h"
#include "kernels/runtime/product_sums.h"
#include "modules/config/linear_formats_config.h"
#include "modules/config/module_name.h"
#include "modules/model_sources.h"
#include "tools/generation/placement.h"
#include "tools/programs.h"
#include "tools/sensitivity/kept_layers.h"
#include "tools/weights/checkpoint_weights.h"
#include "trainer/config/load_config.h"
#include "trainer/config/scalar_type.h"
#include "trainer/feed/batch_feed.h"
#include "trainer/tasks/declared_model.h"
#include "trainer/tasks/task.h"

namespace strata::tools {
namespace {

using modules::LinearFormat;
using modules::LinearFormatsConfig;
using trainer::TrainerConfig;

// All words of precision.linear.format but the first, which is none.
std::vector<std::string> words_of_formats() {
  const auto words = modules::names(LinearFormat());
  return {words.begin() + 1, words.end()};
}

struct Request {
  std::string run;
  std::vector<std::string> formats = words_of_formats();
  std::optional<int64_t> step;
  int64_t samples = 64;
  double limit = 0.3;  // percent of the loss
  std::string json;
  generation::Placement placement;  // only its device is used
};

using Weights = std::map<std::string, at::Tensor>;  // by the names of parameters

// Evaluates weights on the first validation samples of a task, at level aten, without dropout.
class Evaluator {
 public:
  Evaluator(std::unique_ptr<trainer::Task> task, Weights weights, at::Device device, int64_t micro_batch,
            int64_t samples)
      : micro_batch_(micro_batch),
        device_(device),
        task_(std::move(task)),
        weights_(std::move(weights)),
        samples_(std::min(samples, task_->evaluation_samples())) {}

  int64_t samples() const { return samples_; }

  double loss(const LinearFormatsConfig& formats) {
    const at::NoGradGuard no_gradients;
    modules::BindingSource source([this](const std::string& name) { return weights_.at(name); });
    task_->build_model(modules::Scope(source, levels_, &formats), device_);
    at::Tensor sums;
    for (int64_t first = 0; first < samples_; first += micro_batch_) {
      const trainer::MicroBatch batch = task_->evaluation_batch(first, micro_batch_, samples_);
      const at::Tensor part = task_->evaluation_sums(trainer::to_device(batch, device_));
      sums = sums.defined() ? sums + part : part;
    }
    sums = sums.cpu();
    return sums[0].item<double>() / static_cast<double>(task_->evaluation_items(samples_, sums));
  }

 private:
  const int64_t micro_batch_;
  const at::Device device_;
  const modules::KernelsConfig levels_ = {};  // all levels agree, and aten needs no packages and no plan
  const std::unique_ptr<trainer::Task> task_;
  const Weights weights_;
  const int64_t samples_;
};

LinearFormat format_of(const std::string& word) {
  const auto names = modules::names(LinearFormat());
  return static_cast<LinearFormat>(std::ranges::find(names, word) - names.begin());
}

// Returns the linear layers of the blocks, in the order of the model.
std::vector<modules::DeclaredModule> linear_layers(std::vector<modules::DeclaredModule> all) {
  std::erase_if(all, [](const modules::DeclaredModule& module) {
    return !module.product || !modules::covers("blocks", module.name);
  });
  return all;
}

LinearFormatsConfig formats(const std::string& format, const std::string& only, std::vector<std::string> keep = {}) {
  return {.format = format_of(format), .only = only, .keep = std::move(keep)};
}

// Returns the line of `precision:` that a user can paste.
std::string line(const std::string& format, const std::vector<std::string>& kept) {
  return "linear: {format: " + format + (kept.empty() ? "" : ", keep: [" + joined(kept, ", ") + "]") + "}";
}

// The measurements of one format.
struct Measured {
  std::string format;
  std::vector<Sensitivity> sensitivities = {};
  std::vector<std::string> undivided = {};  // layers without the format: their widths are no multiple of its blocks
};

// JSON has null for a growth that is no number, and for a layer that cannot have the format.
void append_json(const Request& request, const Measured& measured, double base, int64_t samples,
                 const KeptLayers& kept) {
  nlohmann::ordered_json layers;
  for (const Sensitivity& one : measured.sensitivities) layers[one.layer] = one.growth;
  for (const std::string& layer : measured.undivided) layers[layer] = nullptr;
  const nlohmann::ordered_json json = {{"run", request.run},
                                       {"format", measured.format},
                                       {"loss", base},
                                       {"samples", samples},
                                       {"growth_by_layer", layers},
                                       {"limit_percent", request.limit},
                                       {"keep", kept.keep},
                                       {"growth_with_these_kept", kept.growth}};
  append_result(request.json, json.dump() + "\n");
}

// Measures each layer alone in each format, and prints a table.
void measure_layers(Evaluator& evaluator, const std::vector<modules::DeclaredModule>& layers, double base,
                    std::vector<Measured>& formats_measured) {
  std::printf("growth of the loss in percent if one layer alone has the format (emulated):\n\n");
  size_t width = 0;
  for (const modules::DeclaredModule& layer : layers) width = std::max(width, layer.name.size() + 2);
  std::string header = padded("", width);
  for (const Measured& measured : formats_measured) header += padded(measured.format, 10);
  std::puts(header.c_str());
  for (const modules::DeclaredModule& layer : layers) {
    std::string row = padded(layer.name, width);
    for (Measured& measured : formats_measured) {
      const LinearFormatsConfig alone = formats(measured.format, layer.name);
      if (!modules::undivided_width(alone.of(layer.name).value(), layer.product.value()).empty()) {
        measured.undivided.push_back(layer.name);
        row += padded("-", 10);
        continue;
      }
      const double growth = evaluator.loss(alone) - base;
      measured.sensitivities.push_back({layer.name, growth});
      row += padded(formatted("%+.4f", 100 * growth / base), 10);
    }
    std::puts(row.c_str());
    std::fflush(stdout);
  }
  if (std::ranges::any_of(formats_measured, [](const Measured& measured) { return !measured.undivided.empty(); })) {
    std::puts("-: blocks of the format do not divide the inputs or the outputs of the layer, so it is kept");
  }
}

// Returns what to keep. The layers that cannot have the format come first.
KeptLayers kept_layers(Evaluator& evaluator, const Measured& measured, double base, double limit) {
  const auto with_undivided = [&](const std::vector<std::string>& keep) {
    std::vector<std::string> all = measured.undivided;
    all.insert(all.end(), keep.begin(), keep.end());
    return all;
  };
  const KeptLayers kept = layers_to_keep(measured.sensitivities, limit, [&](const std::vector<std::string>& keep) {
    return evaluator.loss(formats(measured.format, "blocks", with_undivided(keep))) - base;
  });
  return {with_undivided(kept.keep), kept.growth};
}

void measure(const Request& request) {
  kernels::accumulate_products_in_fp32();
  append_result(request.json, "");  // it must be writable before anything is measured
  const TrainerConfig config = trainer::load_trainer_config(request.run + "/resolved.yaml", {}).config;
  if (config.precision.is_mixed()) {
    throw Error(ExitCode::configuration,
                "the run has several types in precision.layers or precision.modules, and this command takes one type");
  }
  if (!modules::has_blocks(config.model)) {
    throw Error(ExitCode::configuration, "the products of a " + config.model.type_name() + " take no number format");
  }
  if (config.sparsity.is_on()) {
    throw Error(ExitCode::configuration, "the run has sparsity, and pruned linear layers take no number format");
  }
  const trainer::DeclaredModel model = trainer::declared_model(config);
  const std::vector<modules::DeclaredModule> layers = linear_layers(model.modules);
  const trainer::FoundCheckpoint found = checkpoint_of_run(request.run, request.step);
  const at::Device device = request.placement.tensor_options().device();
  const auto type_of = [&](const std::string& group) {
    return trainer::scalar_type(config.precision.compute_of(group));
  };
  Evaluator evaluator(trainer::make_task(config), read_weights(found, model.groups, device, type_of), device,
                      config.micro_batch, request.samples);

  const double base = evaluator.loss({});
  if (!std::isfinite(base)) {
    throw Error(ExitCode::numerics, "the validation loss without a number format is " + formatted("%g", base) +
                                        ", expected a number that can grow; --step takes another checkpoint");
  }
  std::printf("step %lld, %lld validation samples: loss %.5f without a number format\n",
              static_cast<long long>(found.manifest.step), static_cast<long long>(evaluator.samples()), base);
  std::vector<Measured> formats_measured;
  for (const std::string& format : request.formats) formats_measured.push_back({format});
  measure_layers(evaluator, layers, base, formats_measured);

  std::printf("\nthe fewest layers to keep, so that the loss grows by at most %g percent, as a line of precision:\n",
              request.limit);
  for (const Measured& measured : formats_measured) {
    const KeptLayers kept = kept_layers(evaluator, measured, base, request.limit / 100 * base);
    const bool has_none = kept.keep.size() == layers.size();
    const std::string text = has_none ? measured.format + ": no layer can have it" : line(measured.format, kept.keep);
    std::printf("%s  # %+.4f percent\n", text.c_str(), 100 * kept.growth / base);
    append_json(request, measured, base, evaluator.samples(), kept);
  }
}

}  // namespace
}  // namespace strata::tools

int strata::programs::sensitivity_main(int count, char** arguments) {
  strata::tools::Request request;
  CLI::App app("Measures how much the validation loss grows if linear layers multiply in a number format.",
               "sensitivity");
  app.add_option("RUN", request.run, "folder of the run")->required();
  app.add_option("--formats", request.formats, "number formats of precision.linear, separated by commas")
      ->delimiter(',')
      ->check(CLI::IsMember(strata::tools::words_of_formats()))
      ->capture_default_str();
  app.add_option("--step", request.step, "of the checkpoint; otherwise the newest that is whole");
  app.add_option("--samples", request.samples, "validation samples of each measurement")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--limit", request.limit, "percent by which the loss may grow with the layers that are kept out")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  request.placement.add_device_option(app);
  app.add_option("--json", request.json, "file to which a line of JSON for each format is appended");
  return strata::run_program(app, count, arguments, [&] { strata::tools::measure(request); });
}

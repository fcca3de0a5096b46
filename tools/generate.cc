// SPDX-License-Identifier: MIT
// generate RUN: samples from the newest checkpoint of a language model. It prints text for byte tokens, ids for others.
#include <ATen/Context.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/multinomial.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/topk.h>
#include <c10/core/GradMode.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/errors.h"
#include "base/ranks.h"
#include "base/run_program.h"
#include "kernels/runtime/product_sums.h"
#include "modules/model_sources.h"
#include "modules/rotary_tables.h"
#include "modules/transformer.h"
#include "sharding/process/visible_gpus.h"
#include "trainer/checkpoint/checkpoint_loader.h"
#include "trainer/config/load_config.h"
#include "trainer/tasks/declared_model.h"

namespace strata::trainer {
namespace {

struct Request {
  std::string run;
  std::optional<std::string> prompt;
  std::vector<int64_t> prompt_ids;
  int64_t tokens = 300;
  double temperature = 0.8;
  int64_t top_k = 40;
  uint64_t seed = 1;
  std::optional<int64_t> step;
  std::string device = "auto";
};

// aten exists on every device and for every length, whatever levels the run was trained at.
constexpr kernels::Level kLevel = kernels::Level::aten;
constexpr int64_t kBytes = 256;  // ids below are those of bytes; this one ends a document

// Returns the first GPU, or the CPU. The samples are the same on both, except for rounding.
at::Device choose_device(const std::string& wish) {
  using sharding::DeviceWish;
  const auto known = names(DeviceWish{});
  const auto found = static_cast<DeviceWish>(std::find(known.begin(), known.end(), wish) - known.begin());
  sharding::RankDevices here{.host = "this machine"};
  if (found != DeviceWish::cpu) {
    sharding::VisibleGpus visible = sharding::visible_gpus();
    here.problem = std::move(visible.problem);
    if (!visible.gpus.empty()) here.gpus = {visible.gpus[0]};
  }
  const sharding::DeviceChoice choice = sharding::choose_devices(found, {here});
  return choice.cuda ? at::Device(at::kCUDA, 0) : at::Device(at::kCPU);
}

// Returns the weights of a checkpoint by name, unsharded and without gradients.
std::map<std::string, at::Tensor> load_weights(const modules::TransformerConfig& config, const FoundCheckpoint& found,
                                               at::Device device) {
  std::map<std::string, at::Tensor> weights;
  std::vector<TensorPiece> pieces;
  for (const auto& group : trainer::declared_groups({.type = config})) {
    for (const auto& parameter : group.parameters) {
      const at::Tensor flat = at::empty({parameter.elements()}, at::TensorOptions(at::kFloat).device(device));
      pieces.push_back({parameter.name + best_weights(found.manifest), parameter.shape, 0, flat});
      weights[parameter.name] = flat.view(parameter.shape);
    }
  }
  read_pieces(found, pieces);
  return weights;
}

modules::Transformer model_of(const modules::TransformerConfig& config,
                              const std::map<std::string, at::Tensor>& weights) {
  const modules::KernelsConfig kernels{.default_level = kLevel};
  modules::BindingSource source([&](const std::string& name) { return weights.at(name); });
  return modules::Transformer(config, modules::Scope(source, kernels));
}

const modules::TransformerConfig& language_model(const modules::ModelConfig& any) {
  const auto* model = std::get_if<modules::TransformerConfig>(&any.type);
  if (model) return *model;
  throw Error(ExitCode::configuration, "samples come from language models, and this run trains a model of type " +
                                           std::string(modules::ModelConfig::kTypes.at(any.type.index())));
}

// Samples one token at a time from the last `sequence` tokens.
class Sampler {
 public:
  Sampler(const modules::ModelConfig& model, const FoundCheckpoint& found, at::Device device)
      : device_(device),
        config_(language_model(model)),
        weights_(load_weights(config_, found, device)),
        model_(model_of(config_, weights_)) {
    if (!config_.has_rotary_positions()) return;
    rotary_ = modules::rotary_tables(config_, config_.sequence);
    rotary_ = {rotary_.cosine.to(device), rotary_.sine.to(device)};
  }

  int64_t next(const std::vector<int64_t>& ids, const Request& request) const {
    const auto length = std::min<int64_t>(static_cast<int64_t>(ids.size()), config_.sequence);
    const at::Tensor input =
        at::tensor(at::ArrayRef<int64_t>(ids).slice(ids.size() - static_cast<size_t>(length)), at::kLong).unsqueeze(0);
    modules::StepContext context;
    if (rotary_.cosine.defined()) {
      context.put(std::make_shared<const modules::RotaryTables>(
          modules::RotaryTables{rotary_.cosine.narrow(1, 0, length), rotary_.sine.narrow(1, 0, length)}));
    }
    const at::Tensor hidden = model_(input.to(device_), context).select(1, length - 1);
    const at::Tensor logits = model_.logits(hidden).squeeze(0).cpu();
    if (request.temperature == 0) return logits.argmax().item<int64_t>();
    const int64_t candidates = request.top_k > 0 ? std::min(request.top_k, logits.size(0)) : logits.size(0);
    const auto [values, indices] = at::topk(logits, candidates);
    const at::Tensor chosen = at::multinomial(at::softmax(values.div(request.temperature), 0), 1);
    return indices.index_select(0, chosen).item<int64_t>();
  }

  void require_ids(const std::vector<int64_t>& ids) const {
    for (const int64_t id : ids) {
      if (id >= 0 && id < config_.vocabulary) continue;
      throw Error(ExitCode::data, "token " + std::to_string(id) + " of the prompt is outside of the vocabulary of " +
                                      std::to_string(config_.vocabulary));
    }
  }

  int64_t vocabulary() const { return config_.vocabulary; }

 private:
  at::Device device_;
  modules::TransformerConfig config_;
  std::map<std::string, at::Tensor> weights_;
  modules::Transformer model_;
  modules::RotaryTables rotary_;
};

void require_run(const std::string& folder) {
  const std::string resolved = folder + "/resolved.yaml";
  if (std::filesystem::exists(resolved)) return;
  throw Error(ExitCode::configuration, folder + " is not the folder of a run: there is no " + resolved);
}

void generate(const Request& request) {
  require_run(request.run);
  const at::NoGradGuard no_gradients;
  kernels::add_products_in_fp32();
  TrainerConfig config = load_trainer_config(request.run + "/resolved.yaml", {}).config;
  const auto found =
      find_checkpoint({.folder = request.run + "/checkpoints", .required = true, .step = request.step}, Ranks{});
  for (const std::string& note : found->notes) std::fprintf(stderr, "warning: %s\n", note.c_str());
  const Sampler sampler(config.model, *found, choose_device(request.device));
  at::manual_seed(request.seed);

  const bool as_text = request.prompt.has_value();
  if (as_text && sampler.vocabulary() != kBytes && sampler.vocabulary() != kBytes + 1) {
    throw Error(ExitCode::configuration, "--prompt needs a model of bytes, and this one has a vocabulary of " +
                                             std::to_string(sampler.vocabulary()) + "; give --prompt-ids");
  }
  std::vector<int64_t> ids = request.prompt_ids;
  if (as_text) {
    for (const char letter : *request.prompt) ids.push_back(static_cast<unsigned char>(letter));
  }
  if (ids.empty())
    throw Error(ExitCode::configuration,
                "the prompt is empty; give --prompt TEXT or --prompt-ids IDS with one token at least");
  sampler.require_ids(ids);
  const bool for_a_terminal = isatty(STDOUT_FILENO) == 1;
  int64_t before = 0;
  const auto print = [&](int64_t id) {
    if (as_text) {
      // A model may write any byte, and a terminal obeys control characters: also U+0080 to U+009F, the byte 0xc2 and
      // one below 0xa0.
      const bool is_c1 = before == 0xc2 && id >= 0x80 && id < 0xa0;
      const bool is_control = (id < ' ' && id != '\n' && id != '\t') || id == 0x7f || is_c1;
      std::putchar(for_a_terminal && is_control ? '?' : static_cast<int>(id));
      before = id;
    } else {
      std::printf("%lld\n", static_cast<long long>(id));
    }
  };
  for (const int64_t id : ids) print(id);
  for (int64_t i = 0; i < request.tokens; ++i) {
    ids.push_back(sampler.next(ids, request));
    if (as_text && ids.back() == kBytes) break;  // the end of a document
    print(ids.back());
    std::fflush(stdout);
  }
  if (as_text) std::putchar('\n');
}

// Returns nothing for a good temperature. Logits that are divided by less are infinite in fp32.
std::string problem_of_temperature(const std::string& text) {
  const double temperature = std::strtod(text.c_str(), nullptr);
  const bool is_good = temperature == 0 || (temperature >= 1e-6 && temperature <= 1e6);
  return is_good ? "" : "the temperature is " + text + "; expected 0 or 1e-6 to 1e6";
}

}  // namespace
}  // namespace strata::trainer

int main(int count, char** arguments) {
  using namespace strata;
  trainer::Request request;
  CLI::App app("Samples from the newest checkpoint of a run.", "generate");
  app.add_option("RUN", request.run, "folder of the run")->required();
  auto* text = app.add_option("--prompt", request.prompt, "text to go on from, for models of bytes");
  app.add_option("--prompt-ids", request.prompt_ids, "token ids to go on from; ids are printed, one a line")
      ->excludes(text);
  app.add_option("--tokens", request.tokens, "how many to add")->capture_default_str()->check(CLI::NonNegativeNumber);
  app.add_option("--temperature", request.temperature, "0: the likeliest token; otherwise 1e-6 to 1e6")
      ->capture_default_str()
      ->check(trainer::problem_of_temperature);
  app.add_option("--top-k", request.top_k, "choose among so many; 0: all")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber);
  app.add_option("--seed", request.seed, "of the choices")->capture_default_str();
  app.add_option("--device", request.device, "auto: the first GPU, if there is one; cpu; cuda")
      ->capture_default_str()
      ->check(CLI::IsMember({"auto", "cpu", "cuda"}));
  app.add_option("--step", request.step, "of the checkpoint; otherwise the newest that is whole");
  return run_program(app, count, arguments, [&] { trainer::generate(request); });
}

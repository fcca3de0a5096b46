// SPDX-License-Identifier: MIT
// A whole run, as its YAML file says it.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "configs/limits.h"
#include "configs/range.h"
#include "modules/config/kernels_config.h"
#include "modules/config/model_config.h"
#include "sharding/config/device_choice.h"
#include "sharding/config/sharding_config.h"
#include "trainer/config/precision_config.h"
#include "trainer/data/graphs/graph_data_config.h"
#include "trainer/data/images/image_data_config.h"

namespace strata::trainer {

using configs::Range;

// stop: run the step again with checks, name tensor, layer and rank, exit 5. skip: leave the update out and count.
enum class OnNonfinite { stop, skip };
constexpr std::array<std::string_view, 2> names(OnNonfinite) { return {"stop", "skip"}; }

struct RunConfig {
  std::string folder = {};
  int64_t seed = 1;
  int64_t ranks = 1;
  sharding::DeviceWish device = sharding::DeviceWish::automatic;
  int64_t threads = 0;
  bool deterministic = false;
  double timeout = 300;
  int64_t stop_after = 0;
  OnNonfinite on_nonfinite = OnNonfinite::stop;
  bool overwrite = false;

  template <class Fields>
  void describe(Fields& fields) {
    fields.require("folder", folder, "where everything of this run is written");
    fields.add("seed", seed, "of initial weights, sample order and dropout", configs::kNonNegative);
    fields.add("ranks", ranks, "processes, one for each GPU or group of cores", configs::between(1, 1e5));
    fields.add("device", device,
               "cpu, cuda (one GPU for each rank), or auto: cuda where there are GPUs, which is printed");
    fields.add("threads", threads, "for each rank; 0: the cores of the machine shared between its ranks",
               configs::between(0, 4096));
    fields.add("deterministic", deterministic, "the same bits whenever the run is repeated on as many ranks");
    fields.add("timeout", timeout, "after which a rank that does not answer is named and the run ends",
               configs::kPositive, "seconds");
    fields.add("stop_after", stop_after, "end early after this step; the schedule still follows steps; 0: never",
               configs::kNonNegative, "steps");
    fields.add("on_nonfinite", on_nonfinite, "at a gradient that is not finite: find its cause and stop, or skip it");
    fields.add("overwrite", overwrite, "allow a folder that holds another run, whose files are replaced");
  }
};

struct TextDataConfig {
  std::string train = {}, validation = {};

  template <class Fields>
  void describe(Fields& fields) {
    fields.require("train", train, "token files; a pattern such as data/train_*.bin names several");
    fields.require("validation", validation, "token files to evaluate on");
  }
};

struct DataConfig {
  std::variant<TextDataConfig, IdxDataConfig, ImageFolderConfig, WebDatasetConfig, ImageArraysConfig, GraphDataConfig,
               OgbGraphDataConfig, OgbGraphsDataConfig, TextGraphDataConfig, SyntheticGraphDataConfig>
      type = {};
  static constexpr std::array<const char*, 10> kTypes = {
      "text",  "idx",       "image_folder", "webdataset", "safetensors",
      "graph", "ogb_graph", "ogb_graphs",   "text_graph", "synthetic_graph"};

  template <class Fields>
  void describe(Fields& fields) {
    fields.choose("type", type, kTypes, "kind of data");
  }

  // Labels are of graphs.
  bool has_many_graphs() const { return std::holds_alternative<OgbGraphsDataConfig>(type); }
  // How many neighbors are sampled; empty: none are.
  std::vector<int64_t> fan_outs() const {
    const auto of = []<class Data>(const Data& data) -> std::vector<int64_t> {
      if constexpr (requires { data.neighbors; }) {
        if (const auto* list = std::get_if<std::vector<int64_t>>(&data.neighbors)) return *list;
      }
      return {};
    };
    return std::visit(of, type);
  }
};

struct AdamW {
  std::array<double, 2> betas = {0.9, 0.95};
  double epsilon = 1e-8;

  template <class Fields>
  void describe(Fields& fields) {
    fields.add("betas", betas, "decay of the first and of the second moment", configs::kBelowOne);
    fields.add("epsilon", epsilon, "added to the root of the second moment", configs::kPositive);
  }
};

struct OptimizerConfig {
  std::variant<AdamW> type = {};
  double learning_rate = 3e-4;
  double weight_decay = 0.1;
  double gradient_clip = 1.0;
  double moving_average = 0;

  template <class Fields>
  void describe(Fields& fields) {
    fields.choose("type", type, {"adamw"}, "kind of optimizer");
    fields.require("learning_rate", learning_rate, "peak, reached at the end of the warmup", configs::kPositive);
    fields.add("weight_decay", weight_decay, "decoupled; matrices and embeddings only", configs::kNonNegative);
    fields.add("gradient_clip", gradient_clip, "largest global norm of the gradients; 0: no clipping",
               configs::kNonNegative);
    fields.add("moving_average", moving_average,
               "decay of an exponential moving average of the weights, which is evaluated, exported and sampled from "
               "instead of them; 0: none",
               configs::kBelowOne);
  }
};

struct CosineSchedule {
  double final = 0.1;

  template <class Fields>
  void describe(Fields& fields) {
    fields.add("final", final, "share of the peak at the last step", configs::kShare);
  }
};

struct LinearSchedule {
  double final = 0;

  template <class Fields>
  void describe(Fields& fields) {
    fields.add("final", final, "share of the peak at the last step", configs::kShare);
  }
};

// Warmup, stable, decay: the peak is held until the last `decay` steps.
struct WsdSchedule {
  double final = 0;
  int64_t decay = 0;

  template <class Fields>
  void describe(Fields& fields) {
    fields.add("final", final, "share of the peak at the last step", configs::kShare);
    fields.require("decay", decay, "length of the linear decay at the end", configs::kPositive, "steps");
  }
};

struct ConstantSchedule {
  template <class Fields>
  void describe(Fields&) {}
};

struct ScheduleConfig {
  std::variant<CosineSchedule, LinearSchedule, WsdSchedule, ConstantSchedule> type = {};
  int64_t warmup = 0;

  template <class Fields>
  void describe(Fields& fields) {
    fields.choose("type", type, {"cosine", "linear", "wsd", "constant"}, "course of the learning rate");
    fields.add("warmup", warmup, "linear rise from 0 to the peak", configs::kNonNegative, "steps");
  }
};

// What a layer computes again in the backward instead of keeping it. selective: outputs of norms and activations; full:
// all but its inputs.
enum class Recompute { none, selective, full };
constexpr std::array<std::string_view, 3> names(Recompute) { return {"none", "selective", "full"}; }

struct GradientCheckpointing {
  using Layers = configs::MarkedRange<Recompute>;  // without a mark: full
  std::variant<Recompute, std::vector<Layers>> layers = Recompute::none;

  Recompute of(int64_t layer) const {
    if (const Recompute* all = std::get_if<Recompute>(&layers)) return *all;
    Recompute result = Recompute::none;
    for (const Layers& line : std::get<std::vector<Layers>>(layers)) {
      if (line.range.contains(layer)) result = line.mark.value_or(Recompute::full);
    }
    return result;
  }
};

// automatic: on, on GPUs, where nothing stands in the way; what does is printed.
enum class CudaGraph { automatic, on, off };
constexpr std::array<std::string_view, 3> names(CudaGraph) { return {"auto", "on", "off"}; }

enum class Resume { automatic, require, never };
constexpr std::array<std::string_view, 3> names(Resume) { return {"auto", "require", "never"}; }

struct CheckpointConfig {
  int64_t every = 0;
  int64_t keep = 2;
  Resume resume = Resume::automatic;
  std::string initial_weights = {};

  template <class Fields>
  void describe(Fields& fields) {
    fields.add("every", every, "between checkpoints; 0: only after the last step", configs::kNonNegative, "steps");
    fields.add("keep", keep, "newest checkpoints that are kept; with fewer than 2, a damaged one would end the run",
               configs::at_least(2));
    fields.add("resume", resume, "auto: from the newest good checkpoint if there is one; require: or refuse; never");
    fields.add("initial_weights", initial_weights,
               "folder of weights (safetensors) that a new run starts from; empty: random ones");
  }
};

struct EvaluationConfig {
  int64_t every = 0;
  int64_t tokens = 0;

  template <class Fields>
  void describe(Fields& fields) {
    fields.add("every", every, "between evaluations; 0: only after the last step", configs::kNonNegative, "steps");
    fields.add("tokens", tokens, "of the validation data; 0: all. After the last step always all",
               configs::kNonNegative, "tokens");
  }
};

struct LogConfig {
  int64_t every = 10;

  template <class Fields>
  void describe(Fields& fields) {
    fields.add("every", every, "between lines on the console", configs::kPositive, "steps");
  }
};

struct ProfileConfig {
  std::optional<Range> steps = {};  // absent: none

  template <class Fields>
  void describe(Fields& fields) {
    fields.add_or_word("steps", steps, "none",
                       "steps of which every kernel is timed, such as 10-20; the results go to <run.folder>/profile",
                       "steps");
  }
};

enum class Fault { none, nan, kill, hang, extra_collective, exception };
constexpr std::array<std::string_view, 6> names(Fault) {
  return {"none", "nan", "kill", "hang", "extra_collective", "exception"};
}

// A fault to inject in a test; refused unless the environment says STRATA_FAULTS=1.
struct FaultConfig {
  std::string at = {};
  Fault kind = Fault::none;

  template <class Fields>
  void describe(Fields& fields) {
    fields.add("at", at, "where: 'step 7 rank 1'");
    fields.add("do", kind, "what happens there");
  }
};

struct TrainerConfig {
  RunConfig run = {};
  int64_t steps = 0;
  int64_t batch = 0;
  int64_t micro_batch = 0;
  modules::ModelConfig model = {};
  DataConfig data = {};
  OptimizerConfig optimizer = {};
  ScheduleConfig schedule = {};
  PrecisionConfig precision = {};
  sharding::ShardingConfig sharding = {};
  GradientCheckpointing gradient_checkpointing = {};
  std::optional<double> memory = {};  // absent: as much as there is
  CudaGraph cuda_graph = CudaGraph::automatic;
  modules::KernelsConfig kernels = {};
  CheckpointConfig checkpoint = {};
  EvaluationConfig evaluation = {};
  LogConfig log = {};
  ProfileConfig profile = {};
  FaultConfig fault = {};

  // Each step sees graphs of its own, of other sizes than those of the step before.
  bool sees_new_graphs() const { return data.has_many_graphs() || !data.fan_outs().empty(); }
  // Every rank has its part of every sample: those are whole graphs.
  bool shares_samples() const {
    return std::holds_alternative<modules::GraphNetworkConfig>(model.type) && !sees_new_graphs();
  }
  // Of one micro-batch, over all ranks.
  int64_t samples_at_once() const { return micro_batch * (shares_samples() ? 1 : run.ranks); }
  // Micro-batches of one step on one rank.
  int64_t micro_batches() const { return batch / samples_at_once(); }

  template <class Fields>
  void describe(Fields& fields) {
    fields.section("run", run, "one execution: folder, seed, ranks");
    fields.require("steps", steps, "updates of the weights in the whole training", configs::between(1, 1e12), "steps");
    fields.require("batch", batch, "samples per step over all ranks", configs::between(1, 1e9), "samples");
    fields.require("micro_batch", micro_batch, "samples per rank and forward; accumulation follows",
                   configs::between(1, 1e9), "samples");
    fields.section("model", model, "what is trained");
    fields.section("data", data, "what it is trained on");
    fields.section("optimizer", optimizer, "how weights follow gradients");
    fields.section("schedule", schedule, "how the learning rate changes");
    fields.section("precision", precision, "number formats");
    fields.section("sharding", sharding, "which rank holds which part of the parameters");
    fields.add("gradient_checkpointing", gradient_checkpointing.layers,
               "what layers compute again in the backward instead of keeping it: none; selective: outputs of norms and "
               "activations; full: all but their inputs; or a list such as [0-3, 7, 8-11 selective], where later "
               "entries win and those without a word mean full");
    fields.add_or_word(
        "memory", memory, "none",
        "that tensors of a rank may take at once; where gradient_checkpointing is none, a trial at the "
        "start fills that in: what takes the least time and fits; any other gradient_checkpointing must fit",
        "GiB", configs::kPositive);
    fields.add("cuda_graph", cuda_graph,
               "on GPUs, capture a whole step once and replay it; the results are the same: auto, on or off");
    fields.section("kernels", kernels, "level of each op, per layer and module");
    fields.section("checkpoint", checkpoint, "saving and resuming");
    fields.section("evaluation", evaluation, "loss on the validation data");
    fields.section("log", log, "lines on the console");
    fields.section("profile", profile, "timing of every op and kernel");
    fields.section("fault", fault, "a fault to inject, for tests; needs STRATA_FAULTS=1 in the environment");
  }
};

// Which model is trained on which data: there is a task for each such pair, made in make_task.cc.
template <class Model, class Data>
constexpr bool kFits = false;
template <>
inline constexpr bool kFits<modules::TransformerConfig, TextDataConfig> = true;
template <>
inline constexpr bool kFits<modules::VisionTransformerConfig, IdxDataConfig> = true;
template <>
inline constexpr bool kFits<modules::VisionTransformerConfig, ImageFolderConfig> = true;
template <>
inline constexpr bool kFits<modules::VisionTransformerConfig, WebDatasetConfig> = true;
template <>
inline constexpr bool kFits<modules::VisionTransformerConfig, ImageArraysConfig> = true;
template <>
inline constexpr bool kFits<modules::GraphNetworkConfig, GraphDataConfig> = true;
template <>
inline constexpr bool kFits<modules::GraphNetworkConfig, OgbGraphDataConfig> = true;
template <>
inline constexpr bool kFits<modules::GraphNetworkConfig, OgbGraphsDataConfig> = true;
template <>
inline constexpr bool kFits<modules::GraphNetworkConfig, TextGraphDataConfig> = true;
template <>
inline constexpr bool kFits<modules::GraphNetworkConfig, SyntheticGraphDataConfig> = true;

void check(const TrainerConfig& config, configs::Checks& checks);

}  // namespace strata::trainer

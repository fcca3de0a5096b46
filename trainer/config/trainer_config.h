// SPDX-License-Identifier: MIT
// The configuration of a whole run, as its YAML file describes it.
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
#include "trainer/checkpoint/checkpoint_config.h"
#include "trainer/config/data_config.h"
#include "trainer/config/fault_config.h"
#include "trainer/config/optimizer_config.h"
#include "trainer/config/precision_config.h"
#include "trainer/config/profile_config.h"
#include "trainer/config/schedule_config.h"

namespace strata::trainer {

using configs::Range;

// stop: run the step again with checks, report tensor, layer and rank, exit with code 5. skip: skip the update and
// count it.
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

// What a layer recomputes in the backward instead of saving it. selective: outputs of norms and activations. full:
// everything but its inputs.
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

// automatic: on for GPUs, unless something prevents it; the reason is then printed.
enum class CudaGraph { automatic, on, off };
constexpr std::array<std::string_view, 3> names(CudaGraph) { return {"auto", "on", "off"}; }

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
  std::optional<double> memory = {};  // absent: no budget
  CudaGraph cuda_graph = CudaGraph::automatic;
  modules::KernelsConfig kernels = {};
  CheckpointConfig checkpoint = {};
  EvaluationConfig evaluation = {};
  LogConfig log = {};
  ProfileConfig profile = {};
  FaultConfig fault = {};

  // Returns the samples of one micro-batch over all ranks.
  int64_t samples_at_once() const;
  // Returns the number of micro-batches per step and rank.
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

// True if there is a task for this pair of model and data. make_task.cc constructs them.
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

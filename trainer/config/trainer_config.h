// SPDX-License-Identifier: MIT
// The configuration of a whole run, as its YAML file describes it.
#pragma once

#include <array>
#include <concepts>
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
#include "modules/config/sparsity_config.h"
#include "sharding/config/device_choice.h"
#include "sharding/config/sharding_config.h"
#include "trainer/checkpoint/checkpoint_config.h"
#include "trainer/config/data_config.h"
#include "trainer/config/fault_config.h"
#include "trainer/config/optimizer_config.h"
#include "trainer/config/precision_config.h"
#include "trainer/config/renamed_keys.h"
#include "trainer/config/schedule_config.h"

namespace strata::trainer {

using configs::Range;

// stop: run the step again with checks, report tensor, layer and rank, exit with code 5. skip: skip the update and
// count it. rollback: go back to the newest checkpoint and train on from there; if the step is not finite again, stop.
enum class OnNonfinite { stop, skip, rollback };
constexpr std::array<std::string_view, 3> names(OnNonfinite) { return {"stop", "skip", "rollback"}; }

struct RunConfig {
  std::string folder = {};
  int64_t seed = 1;
  int64_t ranks = 1;
  sharding::DeviceSetting device = sharding::DeviceSetting::automatic;
  int64_t threads = 0;
  bool deterministic = false;
  double timeout = 300;
  int64_t stop_after = 0;
  OnNonfinite on_nonfinite = OnNonfinite::stop;
  bool overwrite = false;
  int64_t restarts = 0;

  template <class Fields>
  void describe(Fields& fields) {
    fields.require("folder", folder, "folder for everything that the run writes");
    fields.add("seed", seed, "seed of the initial weights, the order of samples and dropout", configs::kNonNegative);
    fields.add("ranks", ranks, "number of processes, one for each GPU or group of cores", configs::between(1, 1e5));
    fields.add("device", device,
               "cpu; cuda: one GPU per rank; auto: cuda if the machine has GPUs, otherwise cpu; the choice is printed");
    fields.add(
        "threads", threads,
        "CPU threads per rank; 0: OMP_NUM_THREADS, or the cores of the process divided by the ranks of the machine",
        configs::between(0, 4096));
    fields.add("deterministic", deterministic,
               "use deterministic algorithms: the same bits when the run is repeated with as many ranks");
    fields.add("timeout", timeout, "time after which a rank without a heartbeat is reported and the run ends",
               configs::positive_to(1e9), "seconds");
    fields.add("stop_after", stop_after,
               "stop after this step; the schedule still follows `steps`; 0: train to the last step",
               configs::kNumberOfSteps, "steps");
    fields.add(
        "on_nonfinite", on_nonfinite,
        "what to do if the loss or a gradient is not finite, except for overflows that shrink the loss scale of "
        "float16; stop: report its tensor, layer and rank, and end the run; skip: skip the update, at most 100 in a "
        "row; rollback: go on from the newest checkpoint, and stop if the step is not finite again");
    fields.add("overwrite", overwrite,
               "allow a folder that holds another run, and replace the files of that run; restarts never do that");
    fields.add(
        "restarts", restarts,
        "how many times in a row tools/strata train starts the run again, from its newest checkpoint, after exit "
        "code 7, 70, 137 or 139; a new checkpoint starts the count anew, up to 1000 restarts in all; 0: never",
        configs::between(0, 1000));
  }
};

// The recomputation of a layer in the backward. none: all activations are saved. selective: outputs of norms and
// activations are recomputed. full: everything but the inputs is recomputed.
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
  int64_t final_tokens = 0;
  int64_t samples = 0;

  template <class Fields>
  void describe(Fields& fields) {
    fields.add("every", every, "steps between evaluations; 0: evaluate only after the last step",
               configs::kNumberOfSteps, "steps");
    fields.add("tokens", tokens, "validation tokens of a language model in an evaluation before the last step; 0: all",
               configs::between(0, 1e14), "tokens");
    fields.add("final_tokens", final_tokens,
               "validation tokens of a language model in the evaluation after the last step; 0: all",
               configs::between(0, 1e14), "tokens");
    fields.add("samples", samples,
               "validation samples that each evaluation shows in samples.jsonl: the tokens of a text with their losses "
               "and predictions, or the label of an image and its prediction; 0: none",
               configs::between(0, 64), "samples");
  }
};

struct LogConfig {
  int64_t every = 10;

  template <class Fields>
  void describe(Fields& fields) {
    fields.add("every", every, "steps between lines on the console", configs::between(1, 1e12), "steps");
  }
};

struct ProfileConfig {
  std::optional<Range> steps = {};  // absent: none

  template <class Fields>
  void describe(Fields& fields) {
    fields.add_or_word("steps", steps, "none",
                       "steps to profile, such as 10-20: every kernel is timed, and the results are written to "
                       "<run.folder>/profile; none: no profile",
                       "steps");
  }
};

struct TrainerConfig {
  RunConfig run = {};
  int64_t steps = 0;
  int64_t batch = 0;
  int64_t micro_batch = 0;
  modules::ModelConfig model = {};
  std::vector<modules::LayerConfig> layers = {};  // a language model has a copy
  DataConfig data = {};
  OptimizerConfig optimizer = {};
  ScheduleConfig schedule = {};
  PrecisionConfig precision = {};
  modules::SparsityConfig sparsity = {};
  sharding::ShardingConfig sharding = {};
  GradientCheckpointing gradient_checkpointing = {};
  std::optional<double> memory_budget = {};  // absent: no limit
  CudaGraph cuda_graph = CudaGraph::automatic;
  modules::KernelsConfig kernels = {};
  CheckpointConfig checkpoint = {};
  EvaluationConfig evaluation = {};
  LogConfig log = {};
  ProfileConfig profile = {};
  FaultConfig fault = {};

  // Returns the number of groups of ranks that compute samples of their own: a group shares each sequence.
  int64_t sample_groups() const { return run.ranks / sharding.sequence; }
  // Returns the samples of one micro-batch over all ranks.
  int64_t global_micro_batch() const;
  // Returns the number of micro-batches per step and rank.
  int64_t micro_batches() const { return batch / global_micro_batch(); }

  template <class Fields>
  void describe(Fields& fields) {
    fields.section("run", run, "how the run is executed: folder, seed, ranks, device");
    fields.require("steps", steps, "number of training steps", configs::between(1, 1e12), "steps");
    fields.require("batch", batch, "samples per step, over all ranks", configs::between(1, 1e9), "samples");
    fields.require(
        "micro_batch", micro_batch,
        "samples per rank and forward, or with sharding.sequence per group of ranks; a step accumulates gradients over "
        "as many micro-batches as batch needs",
        configs::between(1, 1e9), "samples");
    fields.section("model", model, "the model to train");
    fields.sections("layers", layers, "what is different in some layers of a language model; later entries win");
    fields.section("data", data, "the data to train on");
    fields.section("optimizer", optimizer, "the optimizer");
    fields.section("schedule", schedule, "the schedule of the learning rate");
    fields.section("precision", precision, "types of computation and of gradient reduction");
    fields.section("sparsity", sparsity, "linear layers that multiply with pruned weights");
    fields.section("sharding", sharding, "how parameters are sharded over ranks");
    fields.add("gradient_checkpointing", gradient_checkpointing.layers,
               "what layers recompute in the backward instead of saving it: none; selective: outputs of norms and "
               "activations; full: everything but their inputs; or a list of layers such as [0-3, 7, 8-11 selective]: "
               "later entries win, and an entry without a word means full");
    fields.add_or_word(
        "memory_budget", memory_budget, "none",
        "most memory for the tensors of a rank; if gradient_checkpointing is none, the cheapest choice that is "
        "predicted to fit replaces it; any other gradient_checkpointing must fit; none: no limit",
        "GiB", configs::positive_to(1e6));
    fields.add("cuda_graph", cuda_graph,
               "capture a whole step as a CUDA graph and replay it, with the same results (GPUs only); auto: on if "
               "nothing prevents it");
    fields.section("kernels", kernels, "the level of each op, by layer and module");
    fields.section("checkpoint", checkpoint, "saving and resuming the run");
    fields.section("evaluation", evaluation, "evaluations on the validation data");
    fields.section("log", log, "lines on the console");
    fields.section("profile", profile, "times of every op and kernel");
    fields.section("fault", fault, "a fault to inject, for tests; needs STRATA_FAULTS=1 in the environment");
    fields.renamed(kRenamedKeys);
    fields.complete([this] {
      modules::set_layer_overrides(model, layers);
      precision.linear.name_blocks(modules::layer_count(model));
    });
  }
};

// True if there is a task for this pair of model and data. make_task.cc constructs them.
template <class Model, class Data>
constexpr bool kFits = false;
template <>
inline constexpr bool kFits<modules::TransformerConfig, TextDataConfig> = true;
template <modules::TakesImages Model, std::derived_from<ImageDataConfig> Data>
inline constexpr bool kFits<Model, Data> = true;
template <>
inline constexpr bool kFits<modules::GraphNetworkConfig, NpzGraphDataConfig> = true;
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

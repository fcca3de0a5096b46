// SPDX-License-Identifier: MIT
#include "trainer/config/trainer_config.h"

#include <algorithm>
#include <cstdlib>
#include <limits>

#include "base/errors.h"
#include "configs/value.h"
#include "kernels/attention/pattern/blind_query.h"
#include "kernels/attention/pattern/parse_pattern.h"
#include "kernels/attention/pattern/program.h"
#include "modules/config/kernels_check.h"
#include "trainer/config/graph_data_facts.h"
#include "trainer/config/model_rules.h"

namespace strata::trainer {
namespace {

// Returns the largest divisor of `number` that is at most `most`.
int64_t largest_divisor(int64_t number, int64_t most) {
  int64_t largest = 1;
  for (int64_t i = 1; i * i <= number; ++i) {
    if (number % i != 0) continue;
    for (const int64_t divisor : {i, number / i}) {
      if (divisor <= most) largest = std::max(largest, divisor);
    }
  }
  return largest;
}

// Returns the positive multiples of `divisor` next to `value`, which is not a multiple: "nearest that are: 16 and 24".
// If none is smaller: "the nearest is 8".
std::string nearest_multiples(int64_t value, int64_t divisor) {
  const int64_t below = value / divisor * divisor;
  return (below > 0 ? "nearest that are: " + std::to_string(below) + " and " : "the nearest is ") +
         std::to_string(below + divisor);
}

void check_batch(const TrainerConfig& config, configs::Checks& checks) {
  if (!checks.can_check({"batch", "micro_batch", "run.ranks", "sharding.sequence", "model.type"}) ||
      shares_samples(config.model, config.data) || config.run.ranks % config.sharding.sequence != 0)
    return;
  const int64_t at_once = config.global_micro_batch();
  if (config.batch % at_once == 0) return;
  const int64_t groups = config.sample_groups(), shared_by = config.sharding.sequence;
  const bool some = config.batch % groups == 0;  // true: another micro_batch would fit
  const int64_t smaller = some ? largest_divisor(config.batch / groups, config.micro_batch) : 0;
  checks.fail("batch", std::to_string(config.batch) + " is not a multiple of micro_batch " +
                           std::to_string(config.micro_batch) + " x run.ranks " + std::to_string(config.run.ranks) +
                           (shared_by > 1 ? " / sharding.sequence " + std::to_string(shared_by) : "") + " = " +
                           std::to_string(at_once) + "; " + nearest_multiples(config.batch, at_once) +
                           (smaller > 0 ? "; or take micro_batch " + std::to_string(smaller) : ""));
}

// A restart goes on from a checkpoint. Without resuming it would be refused, because the folder holds this run.
void check_restarts(const RunConfig& run, const CheckpointConfig& checkpoint, configs::Checks& checks) {
  if (!checks.can_check({"run.restarts", "checkpoint.resume"})) return;
  if (run.restarts == 0 || checkpoint.resume != Resume::never) return;
  checks.fail("run.restarts", "expected 0, because checkpoint.resume is never, got " + std::to_string(run.restarts) +
                                  "; restarts need checkpoint.resume auto or require");
}

// A rollback goes on from a checkpoint.
void check_rollback(const RunConfig& run, const CheckpointConfig& checkpoint, configs::Checks& checks) {
  if (!checks.can_check({"run.on_nonfinite", "checkpoint.resume"})) return;
  if (run.on_nonfinite != OnNonfinite::rollback || checkpoint.resume != Resume::never) return;
  checks.fail("run.on_nonfinite",
              "expected stop or skip, because checkpoint.resume is never, got rollback; a rollback needs "
              "checkpoint.resume auto or require");
}

// Milestones are among the steps that are saved.
void check_milestones(const CheckpointConfig& checkpoint, configs::Checks& checks) {
  if (!checks.can_check({"every", "keep_every"}) || checkpoint.keep_every == 0) return;
  const int64_t every = checkpoint.every, given = checkpoint.keep_every;
  if (every == 0) {
    checks.fail("keep_every", "expected 0, because checkpoint.every is 0 and only the last step is saved, got " +
                                  std::to_string(given));
  } else if (given % every != 0) {
    checks.fail("keep_every", std::to_string(given) + " is not a multiple of checkpoint.every " +
                                  std::to_string(every) + "; " + nearest_multiples(given, every));
  }
}

void check_schedule(const ScheduleConfig& schedule, int64_t steps, configs::Checks& checks) {
  if (!checks.can_check({"steps", "schedule.warmup", "schedule.type"})) return;
  const int64_t warmup = schedule.warmup;
  const auto* wsd = std::get_if<WsdSchedule>(&schedule.type);
  if (warmup > steps) {
    checks.fail("schedule.warmup",
                "expected at most steps " + std::to_string(steps) + ", got " + std::to_string(warmup));
  } else if (wsd && checks.can_check({"schedule.decay"}) && wsd->decay > steps - warmup) {
    checks.fail("schedule.decay", "warmup " + std::to_string(warmup) + " + decay " + std::to_string(wsd->decay) +
                                      " is more than steps " + std::to_string(steps));
  }
}

// Each step multiplies decayed weights by 1 - learning_rate * weight_decay, which must not change their sign.
void check_weight_decay(const OptimizerConfig& optimizer, configs::Checks& checks) {
  if (!checks.can_check({"learning_rate", "weight_decay"})) return;
  const double share = optimizer.learning_rate * optimizer.weight_decay;
  if (share <= 1) return;
  checks.fail("weight_decay", "learning_rate " + configs::to_text(optimizer.learning_rate) + " x weight_decay " +
                                  configs::to_text(optimizer.weight_decay) + " = " + configs::to_text(share) +
                                  "; expected at most 1, because a step takes this share from the weights");
}

void check_stop(int64_t stop_after, int64_t steps, configs::Checks& checks) {
  if (!checks.can_check({"steps", "run.stop_after"}) || stop_after <= steps) return;
  checks.fail("run.stop_after",
              "expected at most steps " + std::to_string(steps) + ", got " + std::to_string(stop_after));
}

void check_profile(const ProfileConfig& profile, int64_t steps, configs::Checks& checks) {
  const auto& profiled = profile.steps;
  if (!checks.can_check({"steps", "profile.steps"}) || !profiled) return;
  if (profiled->first < 1 || profiled->last > steps) {
    checks.fail("profile.steps", "expected steps from 1 to " + std::to_string(steps) + ", got " + to_text(*profiled));
  } else if (profiled->step != 1) {
    checks.fail("profile.steps",
                "expected a range without a step, because consecutive steps are profiled, got " + to_text(*profiled));
  }
}

void check_layers(const GradientCheckpointing& checkpointing, int64_t layers, configs::Checks& checks) {
  const auto* lines = std::get_if<std::vector<GradientCheckpointing::Layers>>(&checkpointing.layers);
  if (!lines || !checks.can_check({"gradient_checkpointing", "model.layers"})) return;
  for (size_t i = 0; i < lines->size(); ++i) {
    const Range& range = (*lines)[i].range;
    if (range.last < layers) continue;
    checks.fail(
        "gradient_checkpointing." + std::to_string(i),
        "expected layers below model.layers " + std::to_string(layers) + ", counted from 0, got " + to_text(range));
  }
}

// A query sees only keys of its own document, or the sink alone. Where documents begin is counted in int32.
void check_separate_documents(const modules::TransformerConfig& model, const DataConfig& data, int64_t micro_batch,
                              configs::Checks& checks) {
  if (!checks.can_check({"data.documents", "data.type", "model.sequence", "model.sinks"}) ||
      documents_of(data) != DocumentUse::separate) {
    return;
  }
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  const int64_t tokens = micro_batch * model.sequence;
  if (checks.can_check({"micro_batch"}) && tokens > kMost) {
    checks.fail("micro_batch", std::to_string(micro_batch) + " x model.sequence " + std::to_string(model.sequence) +
                                   " = " + std::to_string(tokens) + " tokens; expected at most " +
                                   std::to_string(kMost) + ", because data.documents is separate");
  }
  const auto check_pattern = [&](const std::string& key, const std::string& pattern) {
    if (!checks.can_check({key})) return;
    try {
      const kernels::Pattern parsed = kernels::parse_pattern(pattern), computed = within_documents(parsed);
      kernels::compile_program(computed);  // checks the number of words
      // The model has reported a query that sees no key without documents. With sinks there may be such queries.
      if (model.sinks || find_blind_query(parsed, model.sequence)) return;
      kernels::check_every_query_sees_a_key(computed, model.sequence);
    } catch (const Error& error) {
      checks.fail(key, std::string("data.documents is separate; ") + error.what());
    }
  };
  check_pattern("model.attention", model.attention);
  for (size_t i = 0; i < model.layer_overrides.size(); ++i) {
    const auto& attention = model.layer_overrides[i].attention;
    if (attention) check_pattern("layers." + std::to_string(i) + ".attention", *attention);
  }
}

// Each of the ranks that share a sequence has two chunks of it.
void check_sequence_ranks(const modules::TransformerConfig& model, int64_t ranks, configs::Checks& checks) {
  const int64_t chunks = 2 * ranks;
  if (!checks.can_check({"sharding.sequence", "model.sequence"}) || ranks == 1 || model.sequence % chunks == 0) return;
  checks.fail("model.sequence", std::to_string(model.sequence) + " is not a multiple of 2 x sharding.sequence " +
                                    std::to_string(ranks) + " = " + std::to_string(chunks) + "; " +
                                    nearest_multiples(model.sequence, chunks));
}

// Rules between a model and the rest of the run. There is one function for each alternative of ModelConfig;
// graph_rules.cc has the one for graph networks.
void check_model(const TrainerConfig& config, const modules::TransformerConfig& model, configs::Checks& checks) {
  check_sequence_ranks(model, config.sharding.sequence, checks);
  check_separate_documents(model, config.data, config.micro_batch, checks);
  for (const auto& [key, tokens] : limits_of(config.evaluation)) {
    if (checks.can_check({key, "model.sequence"}) && tokens != 0 && tokens < model.sequence) {
      checks.fail(key, "expected 0 (all) or at least model.sequence " + std::to_string(model.sequence) + ", got " +
                           std::to_string(tokens));
    }
  }
}

template <modules::TakesImages Model>
void check_model(const TrainerConfig& config, const Model& model, configs::Checks& checks) {
  check_image_model(config, model.image_sizes(), checks);
}

void check_task(const modules::ModelConfig& model, const DataConfig& data, configs::Checks& checks) {
  if (!checks.can_check({"data.type"})) return;
  const auto fits = []<class Model, class Data>(const Model&, const Data&) { return kFits<Model, Data>; };
  if (std::visit(fits, model.type, data.type)) return;
  checks.fail("data.type", "a model of type " + model.type_name() + " is not trained on data of type " +
                               DataConfig::kTypes.at(data.type.index()));
}

void check_fault(const FaultConfig& fault, configs::Checks& checks) {
  if (!checks.can_check({"at", "kind"})) return;
  if (fault.kind == Fault::none && fault.at.empty()) return;
  const char* allowed = std::getenv("STRATA_FAULTS");
  if (allowed == nullptr || std::string(allowed) != "1") {
    checks.fail("kind", "faults are for tests; refused because STRATA_FAULTS=1 is not in the environment");
  } else if (!parse_fault_place(fault.at)) {
    checks.fail("at", "expected a place such as 'step 7 rank 1', got '" + fault.at + "'");
  }
}

// Checks the options that only GPUs support.
void check_device(sharding::DeviceSetting device, CudaGraph cuda_graph, const sharding::ShardingConfig& sharding,
                  configs::Checks& checks) {
  if (!checks.can_check({"run.device"}) || device != sharding::DeviceSetting::cpu) return;
  if (checks.can_check({"cuda_graph"}) && cuda_graph == CudaGraph::on) {
    checks.fail("cuda_graph", "on needs GPUs, and run.device is cpu");
  }
  const sharding::Gather gather = sharding.gather;
  if (checks.can_check({"sharding.gather"}) && gather != sharding::Gather::shared) {
    checks.fail("sharding.gather", std::string(names(gather).at(static_cast<size_t>(gather))) +
                                       " needs GPUs, and run.device is cpu; expected shared");
  }
}

// A transposable mask has groups of four rows. The decay needs the mask on shards, whose borders are anywhere in a row.
void check_transposable(const TrainerConfig& config, configs::Checks& checks) {
  if (!checks.can_check(
          {"sparsity.mask", "sparsity.decay", "run.ranks", "sharding.strategy", "sharding.shard_ranks"})) {
    return;
  }
  const bool has_mask = config.sparsity.is_on() && config.sparsity.mask == kernels::PruneMask::transposable;
  if (!has_mask || config.sparsity.decay == 0 || config.sharding.ranks_per_copy(config.run.ranks) == 1) return;
  checks.fail("sparsity.decay",
              "with a transposable mask it needs whole weights on each rank; expected 0, or sharding.strategy none");
}

}  // namespace

int64_t TrainerConfig::global_micro_batch() const {
  return micro_batch * (shares_samples(model, data) ? 1 : sample_groups());
}

void check(const TrainerConfig& config, configs::Checks& checks) {
  check_batch(config, checks);
  check_schedule(config.schedule, config.steps, checks);
  check_stop(config.run.stop_after, config.steps, checks);
  configs::Checks optimizer = checks.within("optimizer");
  check_weight_decay(config.optimizer, optimizer);
  check_profile(config.profile, config.steps, checks);
  check_restarts(config.run, config.checkpoint, checks);
  check_rollback(config.run, config.checkpoint, checks);
  configs::Checks checkpoint = checks.within("checkpoint");
  check_milestones(config.checkpoint, checkpoint);
  configs::Checks sharding = checks.within("sharding");
  check(config.sharding, config.run.ranks, sharding);
  check_device(config.run.device, config.cuda_graph, config.sharding, checks);
  configs::Checks fault = checks.within("fault");
  check_fault(config.fault, fault);
  if (!checks.can_check({"model.type"})) return;
  check_task(config.model, config.data, checks);
  const auto check_with_model = [&](const auto& model) {
    configs::Checks model_checks = checks.within("model");
    check(model, model_checks);
    configs::Checks kernels = checks.within("kernels");
    check(config.kernels, model.layers, kernels);
    configs::Checks precision = checks.within("precision");
    check(config.precision, model.layers, precision);
    configs::Checks linear = precision.within("linear");
    check(config.precision.linear, model.kHasBlocks, linear);
    configs::Checks sparsity = checks.within("sparsity");
    check(config.sparsity, model.kHasBlocks, sparsity);
    check_transposable(config, checks);
    if (config.sparsity.is_on() && checks.can_check({"steps", "sparsity.from_step"}) &&
        config.sparsity.from_step > config.steps) {
      sparsity.fail("from_step", "no weight would be pruned, because the run ends with step " +
                                     std::to_string(config.steps) + "; expected at most that");
    }
    check_layers(config.gradient_checkpointing, model.layers, checks);
    check_model(config, model, checks);
  };
  std::visit(check_with_model, config.model.type);
}

}  // namespace strata::trainer

// SPDX-License-Identifier: MIT
// N tokens of a micro-batch, D width, F width inside of the mlp, Q width of query, key and value together, V vocabulary
#include "trainer/step_memory.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "kernels/linear_cross_entropy/head_chunks.h"
#include "modules/kernel_selection.h"

namespace strata::trainer {
namespace {

using kernels::Level;
using modules::Family;
using modules::KernelSelection;

// The bytes that are taken now and were taken at most.
class Ledger {
 public:
  void take(int64_t bytes) {
    now_ += bytes;
    if (now_ <= most_) return;
    most_ = now_;
    moment_ = place_;
  }
  void give(int64_t bytes) { now_ -= bytes; }
  void need(int64_t bytes) { take(bytes), give(bytes); }  // while an op runs
  void at(std::string place) { place_ = std::move(place); }

  int64_t now() const { return now_; }
  int64_t most() const { return most_; }
  const std::string& moment() const { return moment_; }

 private:
  int64_t now_ = 0, most_ = 0;
  std::string place_, moment_;
};

bool is_traced(Level level) { return level == Level::aten || level == Level::torchscript; }

// Of one layer, or of what is outside of layers.
struct Part {
  KernelSelection levels;
  Recompute recompute = Recompute::none;
  int64_t bytes = 4;                      // of an element
  int64_t stream = 0, inner = 0, up = 0;  // of [N, D], [N, F], and what the first product of the mlp makes
  int64_t packed = 0;                     // of [N, Q]
  int64_t statistics = 0;                 // of a norm
  bool same_gradient_type = true;         // products that are gradients have the type of their buffer
  Level norm = Level::aten;
};

class Step {
 public:
  Step(const TrainerConfig& config, const modules::TransformerConfig& model)
      : config_(config),
        model_(model),
        on_gpu_(config.run.device != sharding::DeviceWish::cpu),
        gated_(model.family == Family::llama),
        sharded_(config.sharding.ranks_per_copy(config.run.ranks) > 1),
        tokens_(config.micro_batch * model.sequence),
        elements_(tokens_ * model.width),
        packed_width_((model.heads + 2 * model.key_value_head_count()) * model.head_width()),
        logsumexp_(tokens_ * model.heads * 4),
        outside_(part(modules::kernels_for_root(kernels()), config.precision.compute, config.precision.reduce)) {
    for (int64_t i = 0; i < model.layers; ++i) {
      layers_.push_back(part(modules::kernels_for_layer(kernels(), i), config.precision.compute_of(i),
                             config.precision.reduce_of(i)));
      layers_.back().recompute = config.gradient_checkpointing.of(i);
    }
  }

  StepMemory run() {
    StepMemory memory;
    // On GPUs two stages and what the step reads.
    memory.batches = (on_gpu_ ? 3 : 1) * config_.micro_batches() * tokens_ * 2 * 8;
    embed();
    for (size_t i = 0; i < layers_.size(); ++i) {
      ledger_.at("the forward of layer " + std::to_string(i));
      const int64_t before = ledger_.now();
      enter(i);
      forward(i, layers_[i].recompute == Recompute::none, layers_[i].recompute != Recompute::full);
      memory.layers.push_back(ledger_.now() - before);
      leave_inputs(i);
    }
    memory.kept = ledger_.now();
    head();
    for (size_t i = layers_.size(); i-- > 0;) {
      ledger_.at("the backward of layer " + std::to_string(i));
      backward(i);
    }
    ledger_.at("the backward of the embedding");
    ledger_.give(outside_.stream);
    ledger_.need(model_.vocabulary * model_.width * outside_.bytes);
    memory.most = ledger_.most();
    memory.moment = ledger_.moment();
    return memory;
  }

 private:
  modules::KernelsConfig kernels() const {
    modules::KernelsConfig kernels = config_.kernels;
    if (!kernels.default_level) kernels.default_level = Level::cuda;
    return kernels;
  }

  Part part(const KernelSelection& levels, FloatType compute, FloatType reduce) const {
    const int64_t bytes = compute == FloatType::float32 ? 4 : 2;
    const int64_t inner = tokens_ * model_.feed_forward_width() * bytes;
    return {.levels = levels,
            .bytes = bytes,
            .stream = elements_ * bytes,
            .inner = inner,
            .up = gated_ ? 2 * inner : inner,
            .packed = tokens_ * packed_width_ * bytes,
            .statistics = statistics(gated_ ? levels.rms_norm : levels.layer_norm, bytes),
            .same_gradient_type = compute == (sharded_ ? reduce : FloatType::float32),
            .norm = gated_ ? levels.rms_norm : levels.layer_norm};
  }

  // In fp32, but for ATen's layer norm on CPUs.
  int64_t statistics(Level level, int64_t bytes) const {
    if (gated_) return tokens_ * 4;
    return 2 * tokens_ * (!on_gpu_ && is_traced(level) ? bytes : 4);
  }

  // The product that is a weight's gradient, where it cannot be written straight into its buffer.
  void weight_gradient(const Part& part, int64_t out, int64_t in) {
    const Level level = part.levels.linear;
    if (level == Level::torchscript || (level == Level::aten && !part.same_gradient_type)) {
      ledger_.need(out * in * part.bytes);
    }
  }

  // A copy; and hashes of all elements, 8 bytes each and two at a time, where nothing makes them in registers.
  void dropout(const Part& part) {
    if (model_.dropout == 0) return;
    const Level level = part.levels.dropout;
    const bool stores_hashes = level == Level::torchscript || (level == Level::aten && on_gpu_);
    if (stores_hashes) ledger_.need(16 * elements_);
    ledger_.take(part.stream);
    if (stores_hashes) ledger_.need(9 * elements_);
  }

  // On CPUs ATen has rms_norm in several passes, in fp32.
  void norm_forward(const Part& part) {
    if (gated_ && !on_gpu_ && is_traced(part.norm) && part.bytes == 2) ledger_.need(2 * 4 * elements_);
  }
  void norm_backward(const Part& part) {
    if (gated_ && !on_gpu_ && is_traced(part.norm)) ledger_.need((part.bytes == 2 ? 4 : 1) * 4 * elements_);
  }

  void rotary(const Part& part) {
    if (!gated_) return;
    const int64_t turned = tokens_ * (model_.heads + model_.key_value_head_count()) * model_.head_width() * 4;
    if (is_traced(part.levels.rotary)) ledger_.need(part.bytes == 2 ? 2 * turned : turned);
    if (part.levels.rotary == Level::aot_inductor) ledger_.need(part.packed);
  }

  // What level aten on GPUs keeps besides: two numbers of a dropout that is not used, 512 bytes each, or in fp32 keys
  // and values of their own for all query heads.
  int64_t kept_by_attention(const Part& part) const {
    if (!on_gpu_ || part.levels.attention != Level::aten) return 0;
    if (part.bytes == 2) return 2 * 512;
    return model_.key_value_head_count() < model_.heads ? 2 * part.stream : 0;
  }

  void attention_backward(const Part& part) {
    const int64_t output = 2 * part.stream + logsumexp_;  // and its gradient
    if (on_gpu_ && is_traced(part.levels.attention)) {
      // Autograd puts the gradients of queries, keys and values together when attention's own node is done.
      ledger_.give(output + kept_by_attention(part));
      ledger_.need(3 * part.stream + 2 * part.packed);
      return;
    }
    if (part.levels.attention == Level::cuda && config_.run.deterministic) {
      ledger_.need(2 * tokens_ * model_.heads * model_.sequence);
    } else if (part.levels.attention == Level::cuda) {
      ledger_.need(elements_ * 4);  // gradients of queries are summed in fp32
    } else if (is_traced(part.levels.attention)) {
      ledger_.need(part.packed);  // parts, which are then put together
    }
    ledger_.give(output);
  }

  void embed() {
    ledger_.at("the embedding");
    ledger_.take(outside_.stream);
    if (!gated_) {
      ledger_.take(outside_.stream);
      ledger_.need(model_.sequence * model_.width * outside_.bytes);
      ledger_.give(outside_.stream);
    }
    dropout(outside_);
    if (model_.dropout > 0) ledger_.give(outside_.stream);
  }

  bool is_full(size_t layer) const { return layers_[layer].recompute == Recompute::full; }
  int64_t bytes_before(size_t layer) const { return layer == 0 ? outside_.bytes : layers_[layer - 1].bytes; }

  // The copy of the stream in the layer's type that norm1 keeps or adds up.
  void enter(size_t layer) {
    if (bytes_before(layer) == layers_[layer].bytes) return;
    layer == 0 && !is_full(0) ? ledger_.take(layers_[layer].stream) : ledger_.need(2 * layers_[layer].stream);
  }

  // norm, attention, norm, mlp. Leaves what the layer keeps and what it puts out: the residual, which the second norm
  // keeps, and the branch.
  void forward(size_t layer, bool keeps_cheap, bool keeps) {
    const Part& part = layers_[layer];
    const int64_t sum = layer > 0 ? part.stream : 0, dropped = model_.dropout > 0 ? part.stream : 0;
    ledger_.take(part.stream + sum);
    norm_forward(part);
    if (keeps) ledger_.take(part.statistics);
    ledger_.take(part.packed);
    rotary(part);
    ledger_.take(kept_by_attention(part) + part.stream + logsumexp_);
    if (!keeps) ledger_.give(kept_by_attention(part));
    ledger_.take(part.stream);
    if (!keeps) ledger_.give(part.packed + part.stream + logsumexp_);
    if (keeps && !keeps_cheap) ledger_.give(part.stream);
    dropout(part);
    ledger_.take(2 * part.stream);
    norm_forward(part);
    if (keeps) ledger_.take(part.statistics);
    ledger_.give(part.stream + dropped);
    ledger_.take(part.up);
    ledger_.take(part.inner);
    if (!keeps && !gated_) ledger_.give(part.up);
    ledger_.take(part.stream);
    if (!keeps && gated_) ledger_.give(part.up);
    if (!keeps_cheap) ledger_.give(part.inner + part.stream);
    dropout(part);
    ledger_.give(dropped);
    if (!keeps) ledger_.give(part.stream + sum);
  }

  // What went into the layer is let go, unless it keeps that: the branch, and the residual where it is nobody's.
  void leave_inputs(size_t layer) {
    if (layer == 0 || is_full(layer)) return;
    ledger_.give(layers_[layer - 1].stream);
    if (is_full(layer - 1)) ledger_.give(layers_[layer - 1].stream);
  }

  void head() {
    ledger_.at("the final norm");
    ledger_.take(2 * outside_.stream + outside_.statistics);
    norm_forward(outside_);
    ledger_.give((is_full(layers_.size() - 1) ? 2 : 1) * layers_.back().stream);
    ledger_.at("the loss");
    const std::optional<Level> fused = config_.kernels.levels.linear_cross_entropy;
    fused ? fused_loss(*fused) : loss(outside_.levels.cross_entropy);
    ledger_.give(outside_.stream);  // what the head keeps
    ledger_.at("the backward of the final norm");
    ledger_.take(outside_.stream);
    norm_backward(outside_);
    ledger_.give(2 * outside_.stream + outside_.statistics);
  }

  void loss(Level level) {
    const int64_t logits = tokens_ * model_.vocabulary * outside_.bytes, wide = tokens_ * model_.vocabulary * 4;
    ledger_.take(logits);
    if (is_traced(level)) {
      ledger_.take(wide);  // log p, whose memory the gradient takes
      if (outside_.bytes == 2) ledger_.take(wide + logits), ledger_.give(2 * wide);
      ledger_.give(logits);
    } else if (level == Level::aot_inductor) {
      ledger_.need(logits);
    }
    ledger_.at("the backward of the head");
    if (on_gpu_ || !is_traced(level)) ledger_.need(logits);  // times the gradient of the loss
    ledger_.take(outside_.stream);
    weight_gradient(outside_, model_.vocabulary, model_.width);
    ledger_.give(logits);
  }

  // Head and loss in one, for some rows at a time: both gradients are made with the logits.
  void fused_loss(Level level) {
    if (level == Level::torchscript) return loss(level);
    const bool cuda = level == Level::cuda;
    const int64_t classes = cuda ? kernels::classes_of_whole_rows(model_.vocabulary) : model_.vocabulary;
    const int64_t rows = std::min(kernels::rows_at_a_time(tokens_, classes, on_gpu_), tokens_);
    const int64_t chunk = rows * classes, weight = classes * model_.width;
    const int64_t gradients = outside_.stream + 4 * weight;
    const int64_t filled_up = classes > model_.vocabulary ? (weight + classes) * outside_.bytes : 0;
    ledger_.take(gradients + filled_up);
    ledger_.take(chunk * outside_.bytes);
    if (cuda) {  // the gradient takes the place of the logits; a product that adds is timed on an output of its own
      if (rows < tokens_ && !config_.run.deterministic) ledger_.need(4 * weight);
    } else {  // the gradient beside the logits, then a product in their type beside it
      const int64_t wide = outside_.bytes == 2 ? 2 * chunk * 4 : 0;  // ATen's copy of the logits, and log p
      const int64_t product = outside_.bytes == 2 ? weight * 2 : 0;
      ledger_.need(chunk * outside_.bytes + std::max(level == Level::aten ? wide : 0, product));
    }
    ledger_.give(chunk * outside_.bytes + filled_up);
    ledger_.at("the backward of the head");
    ledger_.take(outside_.stream);
    if (sharded_ && config_.precision.reduce != FloatType::float32) ledger_.need(4 * weight);  // times that of the loss
    ledger_.give(gradients);
  }

  // Comes with the gradient of the stream, one tensor for residual and branch, and leaves with that of its inputs.
  void backward(size_t layer) {
    const Part& part = layers_[layer];
    const bool full = part.recompute == Recompute::full, selective = part.recompute == Recompute::selective;
    const int64_t sum = layer > 0 ? part.stream : 0, dropped = model_.dropout > 0 ? part.stream : 0;
    if (full) forward(layer, /*keeps_cheap=*/true, /*keeps=*/true);

    if (selective) ledger_.take(part.stream), norm_forward(part), ledger_.take(part.inner);
    dropout(part);
    ledger_.take(part.inner);
    weight_gradient(part, model_.width, model_.feed_forward_width());
    ledger_.give(part.inner + dropped);
    ledger_.take(part.up);
    if (gated_) ledger_.give(part.inner + part.up);
    ledger_.take(part.stream);
    weight_gradient(part, (gated_ ? 2 : 1) * model_.feed_forward_width(), model_.width);
    ledger_.give((gated_ ? part.up : 3 * part.inner) + part.stream);
    ledger_.take(part.stream);
    norm_backward(part);
    ledger_.give(2 * part.stream + part.statistics + (full ? 0 : part.stream));  // the nested backward does not own it

    dropout(part);
    if (selective) ledger_.take(part.stream), norm_forward(part);
    ledger_.take(part.stream);
    weight_gradient(part, model_.width, model_.width);
    ledger_.give(dropped);
    ledger_.take(part.packed);
    attention_backward(part);
    ledger_.give(part.packed);
    rotary(part);
    ledger_.take(part.stream);
    weight_gradient(part, packed_width_, model_.width);
    ledger_.give(part.packed + part.stream);
    ledger_.take(part.stream);
    norm_backward(part);
    ledger_.give(2 * part.stream + sum + part.statistics);
    if (!full) return;
    ledger_.need(part.stream);      // the gradients of residual and branch become two tensors
    ledger_.give(2 * part.stream);  // the branch that was made again, and the gradient that came
    if (layer > 0) ledger_.give((is_full(layer - 1) ? 2 : 1) * part.stream);  // the inputs that were kept
  }

  const TrainerConfig& config_;
  const modules::TransformerConfig& model_;
  const bool on_gpu_, gated_, sharded_;
  const int64_t tokens_, elements_, packed_width_, logsumexp_;
  const Part outside_;
  std::vector<Part> layers_;
  Ledger ledger_;
};

}  // namespace

StepMemory step_memory(const TrainerConfig& config, const modules::TransformerConfig& model) {
  return Step(config, model).run();
}

}  // namespace strata::trainer

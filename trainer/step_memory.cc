// SPDX-License-Identifier: MIT
// N tokens of a micro-batch, D width, F width inside of the mlp, V vocabulary, Q width of query, key and value together
#include "trainer/step_memory.h"

#include <algorithm>
#include <utility>

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

class Step {
 public:
  Step(const TrainerConfig& config, const modules::TransformerConfig& model)
      : config_(config),
        model_(model),
        on_gpu_(config.run.device != sharding::DeviceWish::cpu),
        gated_(model.family == Family::llama),
        bytes_(config.precision.compute == FloatType::float32 ? 4 : 2),
        tokens_(config.micro_batch * model.sequence),
        stream_(tokens_ * model.width * bytes_),
        inner_(tokens_ * model.feed_forward_width() * bytes_),
        up_(gated_ ? 2 * inner_ : inner_),
        packed_width_((model.heads + 2 * model.key_value_head_count()) * model.head_width()),
        packed_(tokens_ * packed_width_ * bytes_),
        logsumexp_(tokens_ * model.heads * 4),
        statistics_(tokens_ * 4 * (gated_ ? 1 : 2)),
        root_(levels(-1)) {}

  StepMemory run() {
    StepMemory memory;
    memory.batches = (on_gpu_ ? 3 : 1) * config_.micro_batches() * tokens_ * 2 * 8;
    embed();
    for (int64_t i = 0; i < model_.layers; ++i) {
      ledger_.at("the forward of layer " + std::to_string(i));
      const int64_t before = ledger_.now();
      forward(i);
      memory.layers.push_back(ledger_.now() - before);
      leave_inputs(i);
    }
    const int64_t kept = ledger_.now();
    head();
    const bool kept_by_all = ledger_.moment().find("backward of layer") == std::string::npos;
    std::vector<int64_t> below = {};
    for (int64_t i = model_.layers - 1; i >= 0; --i) {
      ledger_.at("the backward of layer " + std::to_string(i));
      backward(i);
      below.push_back(ledger_.now());
    }
    ledger_.at("the backward of the embedding");
    leave_embedding();
    memory.most = ledger_.most();
    memory.moment = ledger_.moment();
    memory.kept_then = kept_by_all ? std::min(kept, memory.most) : std::min(kept, memory.most);
    return memory;
  }

 private:
  KernelSelection levels(int64_t layer) const {
    modules::KernelsConfig kernels = config_.kernels;
    if (!kernels.default_level) kernels.default_level = Level::cuda;
    return layer < 0 ? modules::kernels_for_root(kernels) : modules::kernels_for_layer(kernels, layer);
  }

  // The product that is a weight's gradient, where it cannot be written straight into its buffer.
  void weight_gradient(int64_t out, int64_t in, Level level) {
    const bool sharded = config_.sharding.ranks_per_copy(config_.run.ranks) > 1;
    const bool same_type = !sharded ? bytes_ == 4 : (config_.precision.reduce == FloatType::float32) == (bytes_ == 4);
    if (level == Level::torchscript || (level == Level::aten && !same_type)) ledger_.need(out * in * bytes_);
  }

  // Hashes of all elements, two of 8 bytes at a time, where no kernel makes them in registers.
  void dropout(Level level) {
    if (model_.dropout == 0) return;
    ledger_.take(stream_);
    if (is_traced(level)) ledger_.need(17 * tokens_ * model_.width);
  }

  void norm_forward(Level level) {
    const int64_t wide = tokens_ * model_.width * 4;
    if (gated_ && !on_gpu_ && is_traced(level) && bytes_ == 2) ledger_.need(2 * wide);
  }
  void norm_backward(Level level) {
    const int64_t wide = tokens_ * model_.width * 4;
    if (gated_ && !on_gpu_ && is_traced(level)) ledger_.need(bytes_ == 2 ? 4 * wide : wide);
  }

  void rotary(Level level) {
    if (!gated_) return;
    const int64_t turned =
        tokens_ * (model_.heads + model_.key_value_head_count()) * model_.head_width() * 4;  // in fp32
    if (is_traced(level)) ledger_.need(bytes_ == 2 ? 2 * turned : turned);
    if (level == Level::aot_inductor) ledger_.need(packed_);
  }

  void attention_backward(Level level) {
    if (level == Level::cuda) {
      ledger_.need(tokens_ * model_.width * 4);  // queries' gradients are summed in fp32
    } else if (is_traced(level)) {
      ledger_.need(on_gpu_ ? 3 * packed_ : packed_);  // parts, which are then put together
    }
  }

  void embed() {
    ledger_.at("the embedding");
    ledger_.take(stream_);
    if (!gated_) {
      ledger_.take(stream_);
      ledger_.need(model_.sequence * model_.width * bytes_);
      ledger_.give(stream_);
    }
    dropout(root_.dropout);
    if (model_.dropout > 0) ledger_.give(stream_);
  }

  bool is_full(int64_t layer) const { return config_.gradient_checkpointing.of(layer) == Recompute::full; }

  // norm, attention, norm, mlp; takes what the layer keeps and its outputs: the residual (which the second norm keeps)
  // and the branch.
  void forward(int64_t layer) {
    const KernelSelection level = levels(layer);
    const Level norm = gated_ ? level.rms_norm : level.layer_norm;
    const Recompute recompute = config_.gradient_checkpointing.of(layer);
    run_forward(layer, level, norm, recompute == Recompute::none, recompute != Recompute::full);
  }

  void run_forward(int64_t layer, const KernelSelection& level, Level norm, bool keeps_cheap, bool keeps) {
    const int64_t sum = layer > 0 ? stream_ : 0;
    const int64_t dropped = model_.dropout > 0 ? stream_ : 0;
    ledger_.take(stream_ + sum);
    norm_forward(norm);
    ledger_.take(keeps ? statistics_ : 0);
    ledger_.take(packed_);
    rotary(level.rotary);
    ledger_.take(stream_ + logsumexp_);
    ledger_.take(stream_);
    if (!keeps) ledger_.give(packed_ + stream_ + logsumexp_);
    if (!keeps_cheap && keeps) ledger_.give(stream_);
    dropout(level.dropout);
    ledger_.take(2 * stream_);
    norm_forward(norm);
    ledger_.take(keeps ? statistics_ : 0);
    ledger_.give(stream_ + dropped);
    ledger_.take(up_);
    ledger_.take(inner_);
    if (!keeps && !gated_) ledger_.give(up_);
    ledger_.take(stream_);
    if (!keeps && gated_) ledger_.give(up_);
    if (!keeps_cheap) ledger_.give(inner_);
    if (!keeps_cheap) ledger_.give(stream_);
    dropout(level.dropout);
    ledger_.give(dropped);
    if (!keeps) ledger_.give(stream_ + sum);
  }

  // The stream that went into the layer: nobody holds it any more, unless the layer keeps its inputs.
  void leave_inputs(int64_t layer) {
    if (layer == 0 || is_full(layer)) return;
    ledger_.give(stream_);
    if (is_full(layer - 1)) ledger_.give(stream_);
  }

  void head() {
    const Level norm = gated_ ? root_.rms_norm : root_.layer_norm;
    ledger_.at("the final norm");
    ledger_.take(2 * stream_ + statistics_);
    norm_forward(norm);
    ledger_.give(stream_);
    if (is_full(model_.layers - 1)) ledger_.give(stream_);
    ledger_.at("the loss");
    config_.kernels.levels.linear_cross_entropy ? fused_loss() : loss();
    ledger_.give(stream_);  // what the head keeps
    ledger_.at("the backward of the final norm");
    ledger_.take(stream_);
    norm_backward(norm);
    ledger_.give(2 * stream_ + statistics_);
  }

  void loss() {
    const int64_t logits = tokens_ * model_.vocabulary * bytes_, wide = tokens_ * model_.vocabulary * 4;
    const Level level = root_.cross_entropy;
    ledger_.take(logits);
    if (is_traced(level)) {
      ledger_.take(wide);                   // log p, whose memory the gradient takes
      if (bytes_ == 2) ledger_.take(wide);  // the logits in fp32
      if (bytes_ == 2) ledger_.take(logits), ledger_.give(2 * wide);
      ledger_.give(logits);
    } else if (level == Level::aot_inductor) {
      ledger_.need(logits);
    }
    ledger_.at("the backward of the head");
    const bool on_cpu_as_it_is = !on_gpu_ && is_traced(level);
    if (!on_cpu_as_it_is) ledger_.need(logits);
    ledger_.take(stream_);
    weight_gradient(model_.vocabulary, model_.width, root_.linear);
    ledger_.give(logits);
  }

  void fused_loss() {
    const int64_t rows = std::max<int64_t>((int64_t{1} << (on_gpu_ ? 29 : 24)) / model_.vocabulary / 128, 1) * 128;
    const int64_t chunk = std::min(rows, tokens_) * model_.vocabulary;
    const int64_t weight = model_.vocabulary * model_.width;
    ledger_.take(stream_ + 4 * weight);
    ledger_.take(chunk * bytes_);
    ledger_.need(std::max(chunk * (bytes_ == 2 ? 10 : 4), bytes_ == 2 ? chunk * 2 + weight * 2 : 0));
    ledger_.give(chunk * bytes_);
    ledger_.at("the backward of the head");
    ledger_.take(stream_);
    ledger_.give(stream_ + 4 * weight);
  }

  // Comes with the gradient of the stream, one tensor for residual and branch, and leaves with that of its inputs.
  void backward(int64_t layer) {
    const KernelSelection level = levels(layer);
    const Level norm = gated_ ? level.rms_norm : level.layer_norm;
    const Recompute recompute = config_.gradient_checkpointing.of(layer);
    const bool full = recompute == Recompute::full, selective = recompute == Recompute::selective;
    const int64_t sum = layer > 0 ? stream_ : 0;
    const int64_t dropped = model_.dropout > 0 ? stream_ : 0;
    if (full) run_forward(layer, level, norm, /*keeps_cheap=*/true, /*keeps=*/true);

    if (selective) ledger_.take(stream_), norm_forward(norm), ledger_.take(inner_);
    dropout(level.dropout);
    ledger_.take(inner_);  // gradient of the activation's output
    weight_gradient(model_.width, model_.feed_forward_width(), level.linear);
    ledger_.give(inner_ + dropped);
    ledger_.take(up_);
    if (gated_) ledger_.give(inner_ + up_);
    ledger_.take(stream_);
    weight_gradient(gated_ ? 2 * model_.feed_forward_width() : model_.feed_forward_width(), model_.width, level.linear);
    ledger_.give(gated_ ? up_ : 3 * inner_);
    ledger_.give(stream_);  // the norm's output
    ledger_.take(stream_);
    norm_backward(norm);
    ledger_.give(2 * stream_ + statistics_ + (full ? 0 : stream_));  // its gradients and what it kept

    dropout(level.dropout);
    if (selective) ledger_.take(stream_), norm_forward(norm);
    ledger_.take(stream_);
    weight_gradient(model_.width, model_.width, level.linear);
    ledger_.give(dropped);
    ledger_.take(packed_);
    attention_backward(level.attention);
    ledger_.give(2 * stream_ + logsumexp_ + packed_);
    rotary(level.rotary);
    ledger_.take(stream_);
    weight_gradient(packed_width_, model_.width, level.linear);
    ledger_.give(packed_ + stream_);
    ledger_.take(stream_);
    norm_backward(norm);
    ledger_.give(2 * stream_ + sum + statistics_);
    if (!full) return;
    ledger_.need(stream_);                 // the gradients of residual and branch become two tensors
    ledger_.give(2 * stream_);             // the branch that was made again, and the gradient that came
    if (layer > 0) ledger_.give(stream_);  // the branch that was kept
    if (layer > 0 && is_full(layer - 1)) ledger_.give(stream_);
  }

  void leave_embedding() {
    ledger_.give(stream_);
    ledger_.need(model_.vocabulary * model_.width * bytes_);
  }

  const TrainerConfig& config_;
  const modules::TransformerConfig& model_;
  const bool on_gpu_, gated_;
  const int64_t bytes_, tokens_;
  const int64_t stream_, inner_, up_;  // bytes of [N, D], [N, F], and what the first product of the mlp makes
  const int64_t packed_width_, packed_, logsumexp_, statistics_;
  const KernelSelection root_;
  Ledger ledger_;
};

}  // namespace

StepMemory step_memory(const TrainerConfig& config, const modules::TransformerConfig& model) {
  return Step(config, model).run();
}

}  // namespace strata::trainer

// SPDX-License-Identifier: MIT
#include "trainer/memory/op_memory.h"

#include "modules/config/module_name.h"

namespace strata::trainer {
namespace {

using kernels::Level;

// Levels that were not measured yet count as cuda.
modules::KernelsConfig with_default(modules::KernelsConfig kernels) {
  if (!kernels.default_level) kernels.default_level = Level::cuda;
  return kernels;
}

int64_t filled_up(int64_t number, int64_t to) { return (number + to - 1) / to * to; }

int64_t packed_width(const modules::BlockConfig& block) {
  return (block.heads + 2 * block.key_value_heads) * block.head_width();
}

}  // namespace

bool is_traced(Level level) { return level == Level::aten || level == Level::torchscript; }

OpMemory::OpMemory(const TrainerConfig& config, const modules::BlockConfig& block, const GroupNames& groups,
                   int64_t samples, int64_t positions, MemoryLedger& ledger)
    : config_(config),
      kernels_(with_default(config.kernels)),
      block_(block),
      samples_(samples),
      positions_(positions),
      ledger_(ledger),
      on_gpu_(config.run.device != sharding::DeviceWish::cpu),
      sharded_(config.sharding.ranks_per_copy(config.run.ranks) > 1),
      elements_(tokens() * block.width),
      outside_(part("root", "")),
      head_(part(groups.head, "")) {
  for (int64_t i = 0; i < block.layers; ++i) {
    const std::string name = groups.layers + "." + std::to_string(i);
    layers_.push_back(part(name, name));
    layers_.back().recompute = config.gradient_checkpointing.of(i);
  }
}

int64_t OpMemory::tensor(int64_t elements, int64_t bytes) const {
  return on_gpu_ ? filled_up(elements * bytes, 512) : elements * bytes;
}

Part OpMemory::part(const std::string& group, const std::string& name) const {
  const FloatType compute = config_.precision.compute_of(group), reduce = config_.precision.reduce_of(group);
  const int64_t bytes = bytes_of(compute), inner = tokens() * block_.feed_forward;
  Part part{.name = name,
            .bytes = bytes,
            .stream = tensor(elements_, bytes),
            .inner = tensor(inner, bytes),
            .up = tensor(block_.gated ? 2 * inner : inner, bytes),
            .packed = tensor(tokens() * packed_width(block_), bytes),
            .wide_stream = tensor(elements_, 4),
            .same_gradient_type = compute == (sharded_ ? reduce : FloatType::float32)};
  part.logsumexp = logsumexp(levels(part, "attention").attention, bytes);
  return part;
}

modules::KernelSelection OpMemory::levels(const Part& part, const char* module) const {
  return modules::kernels_for(kernels_, modules::joined_name(part.name, module));
}

// In fp32, but for ATen's layer norm on CPUs.
int64_t OpMemory::statistics(const Part& part, const char* module) const {
  if (block_.root_mean_square) return tensor(tokens(), 4);
  const bool traced = is_traced(levels(part, module).layer_norm);
  return 2 * tensor(tokens(), !on_gpu_ && traced ? part.bytes : 4);
}

// On GPUs ATen's attention in fp32 fills positions up to whole blocks of 32.
int64_t OpMemory::logsumexp(Level level, int64_t bytes) const {
  const bool in_blocks = on_gpu_ && is_traced(level) && bytes == 4;
  return tensor(samples_ * block_.heads * (in_blocks ? filled_up(positions_, 32) : positions_), 4);
}

void OpMemory::weight_gradient(const Part& part, const char* module, int64_t out, int64_t in) {
  const Level level = levels(part, module).linear;
  if (level == Level::torchscript || (level == Level::aten && !part.same_gradient_type)) {
    ledger_.need(out * in * part.bytes);
  }
}

// Hashes of all elements, 8 bytes each and two at a time, where nothing makes them in registers.
void OpMemory::dropout(const Part& part, const char* module) {
  if (block_.dropout == 0) return;
  const Level level = levels(part, module).dropout;
  const bool stores_hashes = level == Level::torchscript || (level == Level::aten && on_gpu_);
  if (stores_hashes) ledger_.need(16 * elements_);
  ledger_.take(part.stream);
  if (stores_hashes) ledger_.need(9 * elements_);
}

// On CPUs ATen has rms_norm in several passes, in fp32.
void OpMemory::norm_forward(const Part& part, const char* module) {
  if (!block_.root_mean_square || on_gpu_ || !is_traced(levels(part, module).rms_norm)) return;
  if (part.bytes == 2) ledger_.need(2 * part.wide_stream);
}
void OpMemory::norm_backward(const Part& part, const char* module) {
  if (!block_.root_mean_square || on_gpu_ || !is_traced(levels(part, module).rms_norm)) return;
  ledger_.need((part.bytes == 2 ? 4 : 1) * part.wide_stream);
}

void OpMemory::rotary(const Part& part) {
  if (!block_.rotary) return;
  const int64_t turned = tokens() * (block_.heads + block_.key_value_heads) * block_.head_width() * 4;
  const Level level = levels(part, "attention").rotary;
  if (is_traced(level)) ledger_.need(part.bytes == 2 ? 2 * turned : turned);
  if (level == Level::aot_inductor) ledger_.need(part.packed);
}

bool OpMemory::knows_its_attention() const {
  return std::none_of(layers_.begin(), layers_.end(), [this](const Part& part) {
    return on_gpu_ && !block_.causal && part.bytes == 2 && is_traced(levels(part, "attention").attention);
  });
}

// What level aten on GPUs keeps besides: two numbers of a dropout that is not used, or in fp32 keys and values of their
// own for all query heads.
int64_t OpMemory::kept_by_attention(const Part& part) const {
  if (!on_gpu_ || levels(part, "attention").attention != Level::aten) return 0;
  if (part.bytes == 2) return 2 * tensor(1, 8);
  return block_.key_value_heads < block_.heads ? 2 * part.stream : 0;
}

// ATen's backward: for each query a number and its gradient in fp32. In fp32 the gradients are filled up to tiles of 64
// x 64 for each head, with a lock. In 16 bits (cuDNN) gradients of keys and values that query heads share are made for
// each of these first.
int64_t OpMemory::workspace_of_attention(const Part& part) const {
  const int64_t rows = samples_ * block_.heads, width = block_.head_width();
  const int64_t numbers = tensor(rows * positions_, 4);
  if (part.bytes == 4) {
    return numbers + tensor(rows * filled_up(positions_, 64) / 64 * (64 * filled_up(width, 64) * 4 + 16), 1);
  }
  return numbers + tensor(rows * positions_ * width, 4) + (block_.key_value_heads < block_.heads ? 2 * part.stream : 0);
}

void OpMemory::attention_backward(const Part& part) {
  const int64_t output = 2 * part.stream + part.logsumexp;  // and its gradient
  const Level level = levels(part, "attention").attention;
  if (on_gpu_ && is_traced(level)) {
    // The gradient of what is packed, which is taken already, comes later. In a layer of fp32 that is computed again
    // one more tensor of the stream is there then, as was measured on an H200.
    const int64_t parts = part.bytes == 2 ? part.packed : (part.recompute == Recompute::full ? 4 : 3) * part.stream;
    ledger_.need(parts + workspace_of_attention(part) - part.packed);
    // Autograd puts the gradients of queries, keys and values together when attention's own node is done.
    ledger_.give(output + kept_by_attention(part));
    ledger_.need(3 * part.stream + 2 * part.packed);
    return;
  }
  if (level == Level::cuda && config_.run.deterministic) {
    ledger_.need(2 * tokens() * block_.heads * positions_);
  } else if (level == Level::cuda) {
    ledger_.need(part.wide_stream);  // gradients of queries are summed in fp32
  } else if (is_traced(level)) {
    ledger_.need(part.packed);  // parts, which are then put together
  }
  ledger_.give(output);
}

void OpMemory::cross_entropy(Level level, int64_t rows, int64_t classes) {
  const int64_t scores = tensor(rows * classes, head_.bytes), wide = tensor(rows * classes, 4);
  if (is_traced(level)) {
    ledger_.take(wide);  // log p, whose memory the gradient takes
    if (head_.bytes == 2) ledger_.take(wide + scores), ledger_.give(2 * wide);
    ledger_.give(scores);
  } else if (level == Level::aot_inductor) {
    ledger_.need(scores);
  }
}

void OpMemory::cross_entropy_backward(Level level, int64_t rows, int64_t classes) {
  if (on_gpu_ || !is_traced(level)) ledger_.need(tensor(rows * classes, head_.bytes));
}

}  // namespace strata::trainer

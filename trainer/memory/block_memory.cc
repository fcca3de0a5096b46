// SPDX-License-Identifier: MIT
#include "trainer/memory/block_memory.h"

#include <string>
#include <utility>

#include "modules/config/stochastic_depth.h"

namespace strata::trainer {

bool BlockMemory::is_full(size_t layer) const { return ops_.layers()[layer].recompute == Recompute::full; }

bool BlockMemory::leaves_out(size_t layer) const {
  return modules::share_left_out(ops_.block(), static_cast<int64_t>(layer)) > 0;
}

int64_t BlockMemory::forward(size_t layer) {
  const Recompute recompute = ops_.layers()[layer].recompute;
  ledger_.at("the forward of layer " + std::to_string(layer));
  const int64_t before = ledger_.now();
  ledger_.take(copies(layer));
  block(layer, recompute == Recompute::none, recompute != Recompute::full);
  if (layer > 0 || is_full(layer)) ledger_.give(copies(layer));  // else the first norm keeps it
  const int64_t left = ledger_.now() - before;
  leave_inputs(layer);
  return left;
}

bool BlockMemory::turns_inputs(size_t layer) const {
  return (layer == 0 ? ops_.outside() : ops_.layers()[layer - 1]).bytes != ops_.layers()[layer].bytes;
}

bool BlockMemory::turns_outputs(size_t layer) const {
  return layer + 1 < ops_.layers().size() ? turns_inputs(layer + 1)
                                          : ops_.outside().bytes != ops_.layers()[layer].bytes;
}

// Of residual and branch, in the layer's type, where they come in another.
int64_t BlockMemory::copies(size_t layer) const {
  return turns_inputs(layer) ? (layer > 0 ? 2 : 1) * ops_.layers()[layer].stream : 0;
}

// norm, attention, norm, mlp. Leaves what the layer keeps and what it puts out: the residual, which the second norm
// keeps, and the branch.
void BlockMemory::block(size_t layer, bool keeps_cheap, bool keeps) {
  const Part& part = ops_.layers()[layer];
  const bool gated = ops_.block().gated;
  const int64_t sum = layer > 0 ? part.stream : 0;
  ledger_.take(part.stream + sum);
  ops_.norm_forward(part, "norm1");
  if (keeps) ledger_.take(ops_.statistics(part, "norm1"));
  ledger_.take(part.packed);
  ops_.rotary(part);
  ledger_.take(ops_.kept_by_attention(part) + part.stream + part.logsumexp);
  if (!keeps) ledger_.give(ops_.kept_by_attention(part));
  ledger_.take(part.stream);
  if (!keeps) ledger_.give(part.packed + part.stream + part.logsumexp);
  if (keeps && !keeps_cheap) ledger_.give(part.stream);
  residual_branch(layer, "attention", keeps);
  ledger_.take(2 * part.stream);
  ops_.norm_forward(part, "norm2");
  if (keeps) ledger_.take(ops_.statistics(part, "norm2"));
  ledger_.give(part.stream);
  ledger_.take(part.up);
  ledger_.take(part.inner);
  if (!keeps && !gated) ledger_.give(part.up);
  ledger_.take(part.stream);
  if (!keeps && gated) ledger_.give(part.up);
  if (!keeps_cheap) ledger_.give(part.inner + part.stream);
  residual_branch(layer, "mlp", keeps);
  if (!keeps) ledger_.give(part.stream + sum);
}

// Dropout, LayerScale and stochastic depth: a branch comes and one leaves, and what the backward reads.
void BlockMemory::residual_branch(size_t layer, const char* branch, bool keeps) {
  const Part& part = ops_.layers()[layer];
  if (ops_.block().dropout > 0) ops_.dropout(part, branch), ledger_.give(part.stream);
  if (ops_.block().layer_scale > 0) {
    ledger_.take(part.stream);
    if (!keeps) ledger_.give(part.stream);  // else the gradient of the factors reads what they multiply
  }
  if (!leaves_out(layer)) return;
  const int64_t numbers = ops_.tensor(ops_.samples(), 4), wide = part.bytes == 2 ? part.wide_stream : 0;
  ledger_.take(2 * numbers);  // ones, and what becomes of them
  ledger_.take(wide);         // the product with numbers in fp32
  ledger_.take(part.stream);
  ledger_.give(wide + part.stream + (keeps ? 1 : 2) * numbers);
}

// What went into the layer is let go, unless it keeps that: the branch, and the residual where it is nobody's.
void BlockMemory::leave_inputs(size_t layer) {
  if (layer == 0 || is_full(layer)) return;
  ledger_.give(ops_.layers()[layer - 1].stream);
  if (is_full(layer - 1)) ledger_.give(ops_.layers()[layer - 1].stream);
}

int64_t BlockMemory::let_go_behind_layers() const {
  const int64_t embedded = turns_inputs(0) && !is_full(0) ? ops_.outside().stream : 0;
  return embedded + (is_full(ops_.layers().size() - 1) ? 2 : 1) * ops_.layers().back().stream;
}

void BlockMemory::backward(size_t layer) {
  ledger_.at("the backward of layer " + std::to_string(layer));
  const Part& part = ops_.layers()[layer];
  const modules::BlockConfig& block = ops_.block();
  const bool full = is_full(layer), selective = part.recompute == Recompute::selective;
  const int64_t sum = layer > 0 ? part.stream : 0;
  int64_t own = 0;
  if (turns_outputs(layer)) {  // the gradient becomes one tensor for the residual and one for the branch
    ledger_.take(2 * part.stream);
    ledger_.give(layer + 1 < ops_.layers().size() ? ops_.layers()[layer + 1].stream : ops_.outside().stream);
    own = full ? 0 : part.stream;  // the nested backward does not own it
  }
  if (full) {
    ledger_.take(copies(layer));
    this->block(layer, /*keeps_cheap=*/true, /*keeps=*/true);
    if (layer > 0) ledger_.give(copies(layer));
  }

  own = residual_branch_backward(layer, "mlp", own);
  if (selective) ledger_.take(part.stream), ops_.norm_forward(part, "norm2"), ledger_.take(part.inner);
  ledger_.take(part.inner);
  ops_.weight_gradient(part, "mlp.down", block.width, block.feed_forward);
  ledger_.give(part.inner + own);
  ledger_.take(part.up);
  if (block.gated) ledger_.give(part.inner + part.up);
  ledger_.take(part.stream);
  ops_.weight_gradient(part, block.gated ? "mlp.gate_up" : "mlp.up", (block.gated ? 2 : 1) * block.feed_forward,
                       block.width);
  ledger_.give((block.gated ? part.up : 3 * part.inner) + part.stream);
  ledger_.take(part.stream);
  ops_.norm_backward(part, "norm2");
  const int64_t gradient = full ? 0 : part.stream;  // the nested backward does not own it
  ledger_.give(2 * part.stream + ops_.statistics(part, "norm2") + gradient);

  own = residual_branch_backward(layer, "attention", 0);
  if (selective) ledger_.take(part.stream), ops_.norm_forward(part, "norm1");
  ledger_.take(part.stream);
  ops_.weight_gradient(part, "attention.output", block.width, block.width);
  ledger_.give(own);
  ledger_.take(part.packed);
  ops_.attention_backward(part);
  ledger_.give(part.packed);
  ops_.rotary(part);
  ledger_.take(part.stream);
  ops_.weight_gradient(part, "attention.qkv", (block.heads + 2 * block.key_value_heads) * block.head_width(),
                       block.width);
  ledger_.give(part.packed + part.stream);
  ledger_.take(part.stream);
  ops_.norm_backward(part, "norm1");
  ledger_.give(2 * part.stream + sum + ops_.statistics(part, "norm1"));
  if (layer == 0) {
    ledger_.give(full ? copies(0) + ops_.outside().stream : part.stream);  // what the first norm kept
    if (turns_inputs(0)) ledger_.take(ops_.outside().stream), ledger_.give(part.stream);
  }
  if (!full) return;
  ledger_.need(part.stream);  // the gradients of residual and branch become two tensors
  ledger_.give((turns_outputs(layer) ? 3 : 2) * part.stream);  // the branch that was made again, and what came
  if (layer > 0) ledger_.give((is_full(layer - 1) ? 2 : 1) * ops_.layers()[layer - 1].stream);  // kept inputs
}

// Comes with the gradient of the stream, which the residual reads too, but where the branch has its own; returns what
// that takes, if there is one then, which its linear layer reads last.
int64_t BlockMemory::residual_branch_backward(size_t layer, const char* branch, int64_t own) {
  const Part& part = ops_.layers()[layer];
  const auto let_go_last_one = [&] { ledger_.give(std::exchange(own, part.stream)); };
  if (leaves_out(layer)) {
    const int64_t wide = part.bytes == 2 ? part.wide_stream : 0;
    ledger_.take(2 * wide + part.stream);  // the gradient and its product with the numbers, in fp32
    ledger_.give(2 * wide + ops_.tensor(ops_.samples(), 4));
    let_go_last_one();
  }
  if (ops_.block().layer_scale > 0) {
    ledger_.need(2 * part.stream);  // its products with the factors and, to be summed up, with what they multiply
    let_go_last_one();              // in place of the new one stands what the factors multiplied
  }
  if (ops_.block().dropout > 0) ops_.dropout(part, branch), let_go_last_one();
  return own;
}

}  // namespace strata::trainer

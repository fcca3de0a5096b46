// SPDX-License-Identifier: MIT
// The ops of a graph network: what they make, keep, and need while they run.
#include <algorithm>
#include <utility>

#include "trainer/memory/graph_memory.h"

namespace strata::trainer {

using kernels::Level;
using kernels::Reduction;

namespace {

constexpr int64_t kTargetStatistics = 16;  // bytes, of level cuda

}  // namespace

// That is made in a step of parameters, and hands its gradient on to them.
GraphMemory::Value GraphMemory::made(const Memory& memory) {
  return tape_.record({}, memory, {}, /*learns=*/true, [](const Gradients&) { return Gradients(); });
}

// For kernels that read rows one after another.
Memory GraphMemory::dense(const Part& part, const Gradient& gradient, int64_t elements) {
  return gradient.dense ? gradient.memory : make(part, elements);
}

GraphMemory::Value GraphMemory::linear(const Part& part, const Value& x, const Product& product) {
  const Memory y = make(part, product.rows * product.outputs);
  std::vector<Memory> kept = {x.memory, product.made_weight.memory, product.made_bias.memory};
  if (product.relu) kept.push_back(y);
  const bool needs_x = x.maker != nullptr, has_weight = product.made_weight.maker != nullptr;
  const auto backward = [=, this, &part](const Gradients& gradients) {
    const Level level = ops_.levels(part, product.module).linear;
    const int64_t elements = product.rows * product.outputs, weights = product.outputs * product.inputs;
    const Memory grad = product.relu                           ? make(part, elements)
                        : level == Level::cuda && product.bias ? dense(part, gradients[0], elements)
                                                               : gradients[0].memory;
    Gradients made(3);
    if (needs_x) made[0] = make(part, product.rows * product.inputs);
    if (has_weight) {
      made[1] = make(part, weights);
    } else {
      ops_.weight_gradient(part, product.module, product.outputs, product.inputs);
    }
    if (product.bias) made[2] = make(part, product.outputs);
    return made;
  };
  return tape_.record({x, product.made_weight, product.made_bias}, y, kept, /*learns=*/true, backward);
}

GraphMemory::Value GraphMemory::aggregate(const Part& part, const Value& x, const MatrixSize& matrix, int64_t width,
                                          Reduction reduction) {
  const Memory y = make(part, matrix.rows * width);
  std::vector<Memory> kept;
  if (reduction == Reduction::max) kept.push_back(make_wide(matrix.rows * width));
  const auto backward = [=, this, &part](const Gradients& gradients) {
    const Memory grad = ops_.on_gpu() ? gradients[0].memory : dense(part, gradients[0], matrix.rows * width);
    const Memory grad_x = make(part, matrix.columns * width);
    const Memory share = ops_.on_gpu() && reduction == Reduction::mean ? make_wide(matrix.rows) : nullptr;
    return Gradients{grad_x};
  };
  return tape_.record({x}, y, kept, /*learns=*/false, backward);
}

GraphMemory::Value GraphMemory::attention(const Part& part, const Value& x, const Value& source, const Value& target,
                                          const MatrixSize& matrix, int64_t heads, int64_t width, bool copies_scores) {
  const int64_t of_sources = matrix.columns * heads, of_targets = matrix.rows * heads;
  const auto copies = [this, copies_scores, of_sources, of_targets] {
    return copies_scores ? std::pair(make_wide(of_sources), make_wide(of_targets)) : std::pair<Memory, Memory>();
  };
  const Memory y = make(part, of_targets * width), logsumexp = make_wide(of_targets);
  copies();
  const auto backward = [=, this, &part](const Gradients& gradients) {
    const Memory grad = dense(part, gradients[0], of_targets * width);
    const auto scores = copies();
    const Memory of_rows = tape_.make(ops_.tensor(of_targets, ops_.on_gpu() ? kTargetStatistics : 4));
    const Memory grad_score = make_wide(matrix.entries * heads);
    const Memory grad_x = make(part, of_sources * width);
    Memory grad_source = make_wide(of_sources), grad_target = make_wide(of_targets);
    if (part.bytes == 2) grad_source = make(part, of_sources), grad_target = make(part, of_targets);
    return Gradients{grad_x, grad_source, grad_target};
  };
  return tape_.record({x, source, target}, y, {x.memory, source.memory, target.memory, y, logsumexp},
                      /*learns=*/false, backward);
}

GraphMemory::Value GraphMemory::relu(const Part& part, const Value& x, int64_t elements) {
  const auto backward = [this, &part, elements](const Gradients&) { return Gradients{make(part, elements)}; };
  return tape_.record({x}, make(part, elements), {x.memory}, /*learns=*/false, backward);
}

GraphMemory::Value GraphMemory::dropout(const Part& part, const Value& x, int64_t elements) {
  if (model_.dropout == 0) return x;
  const Level level = ops_.levels(part, "").dropout;
  const bool stores_hashes = level == Level::torchscript || (level == Level::aten && ops_.on_gpu());
  const auto masked = [this, &part, stores_hashes, elements] {
    if (stores_hashes) ledger_.need(16 * elements);
    const Memory y = make(part, elements);
    if (stores_hashes) ledger_.need(9 * elements);
    return y;
  };
  return tape_.record({x}, masked(), {}, /*learns=*/false, [masked](const Gradients&) { return Gradients{masked()}; });
}

// y, and the sum that it is of.
GraphMemory::Stream GraphMemory::norm(const Part& part, const Stream& stream, int64_t rows, int64_t elements) {
  const bool adds = stream.branch.memory != nullptr;
  const int64_t bytes = !ops_.on_gpu() && is_traced(ops_.levels(part, "norm").layer_norm) ? part.bytes : 4;
  const Memory whole = adds ? make(part, elements) : stream.residual.memory;
  const Memory y = make(part, elements);
  std::vector<Memory> kept = {whole, tape_.make(ops_.tensor(rows, bytes)), tape_.make(ops_.tensor(rows, bytes))};
  const auto backward = [this, &part, adds, elements](const Gradients&) {
    return Gradients(adds ? 2 : 1, Gradient(make(part, elements)));
  };
  if (!adds) return {tape_.record({stream.residual}, y, kept, /*learns=*/true, backward), stream.residual};
  const std::vector<Memory> outputs = {y, whole};
  const std::vector<Value> values = tape_.record({stream.residual, stream.branch}, outputs, kept, true, backward);
  return {values[0], values[1]};
}

GraphMemory::Value GraphMemory::sum(const Part& part, const Value& a, const Value& b, int64_t elements) {
  const auto both = [](const Gradients& g) { return Gradients{g[0], g[0]}; };
  return tape_.record({a, b}, make(part, elements), {}, /*learns=*/false, both);
}

// Some rows or columns of x, without a copy; the gradient of x is filled up.
GraphMemory::Value GraphMemory::narrowed(const Part& part, const Value& x, int64_t elements) {
  const auto backward = [this, &part, elements](const Gradients&) { return Gradients{make(part, elements)}; };
  return tape_.record({x}, x.memory, {}, /*learns=*/false, backward);
}

GraphMemory::Value GraphMemory::targets_of(const Part& part, const Value& x, int64_t layer, int64_t rows,
                                           int64_t width) {
  return rows == graph_.of_layer(layer).rows ? x : narrowed(part, x, rows * width);
}

GraphMemory::Value GraphMemory::with_halo(const Part& part, const Value& x, int64_t layer, int64_t width) {
  if (!exchanges_ || takes_features(layer)) return x;
  const MatrixSize matrix = graph_.of_layer(layer);
  const int64_t own = matrix.rows * width, all_rows = matrix.columns * width, sent = graph_.sent * width;
  const Memory all = make(part, all_rows);
  make(part, sent);
  const auto backward = [=, this, &part](const Gradients& gradients) {
    const Memory grad = dense(part, gradients[0], all_rows);
    const Memory back = make(part, sent), returned = make(part, own);
    return Gradients{make(part, own)};
  };
  return tape_.record({x}, all, {}, /*learns=*/false, backward);
}

}  // namespace strata::trainer

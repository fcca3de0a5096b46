// SPDX-License-Identifier: MIT
#include "trainer/memory/memory_tape.h"

#include <algorithm>

namespace strata::trainer {

std::vector<MemoryTape::Value> MemoryTape::record(const std::vector<Value>& inputs, const std::vector<Memory>& outputs,
                                                  const std::vector<Memory>& kept, bool learns, Backward backward) {
  learns = learns || std::any_of(inputs.begin(), inputs.end(), [](const Value& input) { return input.maker; });
  std::shared_ptr<Node> node;
  if (records_ && learns) {
    node = std::make_shared<Node>(Node{inputs, kept, std::move(backward), Gradients(outputs.size()), {}});
    for (Value& input : node->inputs) input.memory = nullptr;
    nodes_.push_back(node);
  }
  std::vector<Value> values;
  for (const Memory& output : outputs) values.push_back({output, node, values.size()});
  return values;
}

// In the order of autograd: what was recorded last comes first.
void MemoryTape::backward(std::vector<std::pair<Value, Gradient>> roots) {
  for (auto& [value, gradient] : roots) add(value, std::move(gradient));
  roots.clear();
  while (!nodes_.empty()) {
    const std::shared_ptr<Node> node = std::move(nodes_.back());
    nodes_.pop_back();
    if (node->event) node->event();
    Gradients gradients = std::exchange(node->gradients, {});
    const bool any = std::any_of(gradients.begin(), gradients.end(), [](const Gradient& g) { return g.memory; });
    Gradients made = any ? node->backward(gradients) : Gradients(node->inputs.size());
    gradients.clear();
    node->kept.clear();
    node->backward = nullptr;
    for (size_t i = 0; i < made.size(); ++i) {
      const Value& input = node->inputs[i];
      Gradient gradient = std::exchange(made[i], {});
      if (input.maker && gradient.memory) add(input, std::move(gradient));
    }
  }
}

// Into the sum, where nobody else holds that; autograd does the same.
void MemoryTape::add(const Value& input, Gradient more) {
  Gradient& sum = input.maker->gradients[input.place];
  if (!sum.memory) {
    sum = std::move(more);
  } else if (!sum.dense || sum.memory.use_count() > 1) {
    sum = Gradient(make(sum.bytes));
  }
}

}  // namespace strata::trainer

// SPDX-License-Identifier: MIT
// Follows what autograd keeps: tensors that have a size and no values, and the backward of what was made of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "trainer/memory/memory_ledger.h"

namespace strata::trainer {

// The bytes of a tensor and its views: taken as long as somebody holds it.
using Memory = std::shared_ptr<const int64_t>;

class MemoryTape {
 public:
  explicit MemoryTape(MemoryLedger& ledger) : ledger_(ledger) {}

  Memory make(int64_t bytes) {
    ledger_.take(bytes);
    return Memory(new int64_t(bytes), [this](const int64_t* taken) {
      ledger_.give(*taken);
      delete taken;
    });
  }

  struct Gradient {
    Gradient() = default;  // there is none
    Gradient(Memory memory)
        : memory(std::move(memory)), bytes(this->memory ? *this->memory : 0) {}  // NOLINT: a whole one
    Gradient(Memory memory, int64_t bytes) : memory(std::move(memory)), bytes(bytes), dense(false) {}
    Memory memory;
    int64_t bytes = 0;
    bool dense = true;  // false: a view whose rows do not follow each other
  };
  using Gradients = std::vector<Gradient>;
  // From the gradients of the outputs to those of the inputs.
  using Backward = std::function<Gradients(const Gradients&)>;

  struct Node;
  struct Value {
    Memory memory;
    std::shared_ptr<Node> maker = {};  // none: it needs no gradient
    size_t place = 0;                  // among the outputs of its maker
  };
  struct Node {
    std::vector<Value> inputs;  // without their memory
    std::vector<Memory> kept;   // until the backward is over
    Backward backward;
    Gradients gradients;  // that have come so far, of each output
    std::function<void()> event = {};
  };

  // What an op made of its inputs. `learns`: there is a backward also where no input needs a gradient, because weights
  // do.
  std::vector<Value> record(const std::vector<Value>& inputs, const std::vector<Memory>& outputs,
                            const std::vector<Memory>& kept, bool learns, Backward backward);
  // Of one output.
  Value record(const std::vector<Value>& inputs, const Memory& output, const std::vector<Memory>& kept, bool learns,
               Backward backward) {
    return record(inputs, std::vector<Memory>{output}, kept, learns, std::move(backward)).front();
  }
  // Needs a gradient that stays with it.
  static Value leaf(const Memory& memory) {
    return {memory, std::make_shared<Node>(Node{{}, {}, {}, Gradients(1), {}})};
  }

  // Called when the backward comes back here.
  void in_backward(std::function<void()> event) {
    if (records_) nodes_.push_back(std::make_shared<Node>(Node{{}, {}, {}, {}, std::move(event)}));
  }

  // Nothing is kept and there is no backward of what `body` makes.
  template <class Body>
  auto without_gradients(const Body& body) {
    const bool before = std::exchange(records_, false);
    auto result = body();
    records_ = before;
    return result;
  }
  // A step within a backward: what `body` makes has a tape of its own.
  template <class Body>
  void nested(const Body& body) {
    auto outer = std::exchange(nodes_, {});
    body();
    nodes_ = std::move(outer);
  }

  void backward(std::vector<std::pair<Value, Gradient>> roots);

 private:
  void add(const Value& input, Gradient more);

  MemoryLedger& ledger_;
  std::vector<std::shared_ptr<Node>> nodes_;
  bool records_ = true;
};

}  // namespace strata::trainer

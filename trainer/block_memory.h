// SPDX-License-Identifier: MIT
// What the blocks of a transformer take in a step, layer by layer, and let go again.
#pragma once

#include <cstddef>
#include <cstdint>

#include "trainer/memory_ledger.h"
#include "trainer/op_memory.h"

namespace strata::trainer {

class BlockMemory {
 public:
  BlockMemory(OpMemory& ops, MemoryLedger& ledger) : ops_(ops), ledger_(ledger) {}

  // Comes with the stream and leaves with that and what the backward reads, both of which are returned.
  int64_t forward(size_t layer);
  // Comes with the gradient of the stream, one tensor for residual and branch, and leaves with that of its inputs.
  void backward(size_t layer);
  // What the last layer puts out and nobody keeps.
  int64_t let_go_behind_layers() const;

 private:
  bool is_full(size_t layer) const;
  bool leaves_out(size_t layer) const;
  void enter(size_t layer);
  void block(size_t layer, bool keeps_cheap, bool keeps);
  void residual_branch(size_t layer, bool keeps);
  int64_t residual_branch_backward(size_t layer);
  void leave_inputs(size_t layer);

  OpMemory& ops_;
  MemoryLedger& ledger_;
};

}  // namespace strata::trainer

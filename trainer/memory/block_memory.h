// SPDX-License-Identifier: MIT
// What the blocks of a transformer take in a step, layer by layer, and let go again.
#pragma once

#include <cstddef>
#include <cstdint>

#include "trainer/memory/memory_ledger.h"
#include "trainer/memory/op_memory.h"

namespace strata::trainer {

class BlockMemory {
 public:
  BlockMemory(OpMemory& ops, MemoryLedger& ledger) : ops_(ops), ledger_(ledger) {}

  // Comes with the stream and leaves with that and what the backward reads, both of which are returned.
  int64_t forward(size_t layer);
  // Comes with the gradient of the stream in the type of what follows, one tensor for residual and branch, and leaves
  // with that of its inputs; the first layer lets go of the stream that it was given, and leaves that of its gradient.
  void backward(size_t layer);
  // What the last layer puts out and nobody keeps, and the embedded stream where the first layer keeps a copy.
  int64_t let_go_behind_layers() const;

 private:
  bool is_full(size_t layer) const;
  bool leaves_out(size_t layer) const;
  // What comes before it, or follows, has another type.
  bool turns_inputs(size_t layer) const;
  bool turns_outputs(size_t layer) const;
  int64_t copies(size_t layer) const;
  void block(size_t layer, bool keeps_cheap, bool keeps);
  void residual_branch(size_t layer, const char* branch, bool keeps);
  int64_t residual_branch_backward(size_t layer, const char* branch, int64_t own);
  void leave_inputs(size_t layer);

  OpMemory& ops_;
  MemoryLedger& ledger_;
};

}  // namespace strata::trainer

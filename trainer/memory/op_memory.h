// SPDX-License-Identifier: MIT
// How large the tensors of a step are, and what ops allocate besides their outputs, at the levels that were chosen.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "modules/config/block_config.h"
#include "modules/config/kernel_selection.h"
#include "trainer/config/trainer_config.h"
#include "trainer/memory/memory_ledger.h"

// N tokens of a micro-batch, D width, F width inside of the mlp, Q width of query, key and value together

namespace strata::trainer {

// Aten, or torchscript, which counts as aten.
bool is_traced(kernels::Level level);

// Of one layer, of the head, or of what else is outside of layers.
struct Part {
  std::string name;  // of a layer: "blocks.3"; empty outside of layers
  Recompute recompute = Recompute::none;
  int64_t bytes = 4;                      // of an element
  int64_t stream = 0, inner = 0, up = 0;  // of [N, D], [N, F], and what the first product of the mlp makes
  int64_t packed = 0;                     // of [N, Q]
  int64_t wide_stream = 0;                // of [N, D] in fp32
  int64_t logsumexp = 0;                  // of attention
  bool same_gradient_type = true;         // products that are gradients have the type of their buffer
};

// Of parameters, as a model calls them.
struct GroupNames {
  std::string layers = "blocks", head = "head";
};

class OpMemory {
 public:
  // Of micro-batches of `samples`, each of `positions` tokens.
  OpMemory(const TrainerConfig& config, const modules::BlockConfig& block, const GroupNames& groups, int64_t samples,
           int64_t positions, MemoryLedger& ledger);

  const Part& outside() const { return outside_; }  // embedding and last norm
  const Part& head() const { return head_; }        // and loss
  const std::vector<Part>& layers() const { return layers_; }
  const modules::BlockConfig& block() const { return block_; }
  kernels::Level loss_level() const { return modules::kernels_for(kernels_, "").cross_entropy; }
  bool on_gpu() const { return on_gpu_; }
  int64_t samples() const { return samples_; }
  int64_t positions() const { return positions_; }
  int64_t tokens() const { return samples_ * positions_; }

  // Of a tensor: on GPUs it is given out in multiples of 512 bytes.
  int64_t tensor(int64_t elements, int64_t bytes) const;

  // Below, `module` is the name in its part of one that has the op; empty: the part itself.
  modules::KernelSelection levels(const Part& part, const char* module) const;
  // The product that is a weight's gradient, where it cannot be written straight into its buffer.
  void weight_gradient(const Part& part, const char* module, int64_t out, int64_t in);
  // Leaves a copy of the stream, if there is dropout.
  void dropout(const Part& part, const char* module);
  void norm_forward(const Part& part, const char* module);
  void norm_backward(const Part& part, const char* module);
  int64_t statistics(const Part& part, const char* module) const;
  void rotary(const Part& part);
  // Not what ATen's needs of whole sequences in 16 bits on GPUs: more than cuDNN takes, as was measured.
  bool knows_its_attention() const;
  int64_t kept_by_attention(const Part& part) const;
  // Lets go what attention put out and kept.
  void attention_backward(const Part& part);
  // Scores of rows x classes are taken already; leaves their gradient in their place.
  void cross_entropy(kernels::Level level, int64_t rows, int64_t classes);
  // Of the scores' gradient times that of the loss.
  void cross_entropy_backward(kernels::Level level, int64_t rows, int64_t classes);

 private:
  Part part(const std::string& group, const std::string& name) const;
  int64_t logsumexp(kernels::Level level, int64_t bytes) const;
  int64_t workspace_of_attention(const Part& part) const;

  const TrainerConfig& config_;
  const modules::KernelsConfig kernels_;
  const modules::BlockConfig block_;
  const int64_t samples_, positions_;
  MemoryLedger& ledger_;
  const bool on_gpu_, sharded_;
  const int64_t elements_;  // of the stream
  const Part outside_, head_;
  std::vector<Part> layers_;
};

}  // namespace strata::trainer

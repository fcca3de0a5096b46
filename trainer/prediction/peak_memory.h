// SPDX-License-Identifier: MIT
// Predicts the peak of the memory that tensors of a rank take, by class.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "trainer/config/trainer_config.h"
#include "trainer/prediction/memory_estimate.h"
#include "trainer/prediction/trace_step.h"
#include "trainer/tasks/declared_model.h"

namespace strata::trainer {

class PeakMemory {
 public:
  explicit PeakMemory(TrainerConfig config);

  // Returns the classes of memory_per_rank, what the task keeps on the device, and what else a step takes at its peak.
  std::vector<MemoryClass> classes(const StepTrace& step) const;

  // Returns the classes whose bytes are the same during the whole step: all but the two of activations.
  std::vector<MemoryClass> lasting(const StepTrace& step) const;

  // Bytes that a step may take beyond its classes, because its trace does not know them. Choices for a limit keep them
  // free:
  // - On GPUs 1 % of the classes, because it was at most 1 % off (13 steps of GPT-2 and Llama on an H200), and 32 MiB,
  //   which cuBLASLt may take for a product.
  // - On CPUs 8 MiB if a group computes in 16 bits: oneDNN took up to 6.3 MB for a product. In fp32 a trace is exact.
  // - 10 % of activations and batches if each step has a graph of its own, because the first one is traced. The
  //   standard deviation was 1.7 % for samples of 512 nodes with 10 and 5 neighbors (random graph of 170,000 nodes).
  // Neither this nor classes() counts temporary tensors of packages (level aot_inductor), except for attention.
  int64_t margin(const StepTrace& step) const;

  // Returns the bytes of host memory that a save takes, see save_memory.
  int64_t save_bytes() const;

  // A line for each class, one for the sum and one for saves, which is not in the sum. Without a trace the classes are
  // those of memory_per_rank, and the line of the sum says so.
  std::string table(const std::optional<StepTrace>& step) const;

 private:
  std::vector<MemoryClass> without_step() const;

  const TrainerConfig config_;
  const DeclaredModel model_;
};

int64_t sum_of(const std::vector<MemoryClass>& classes);

}  // namespace strata::trainer

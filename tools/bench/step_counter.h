// SPDX-License-Identifier: MIT
// Counts what a step does on one rank. Counts have no noise: each step of a run has the same, and so has each run.
#pragma once

#include <ATen/record_function.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <map>
#include <mutex>
#include <string>

#include "trainer/memory/allocation_meter.h"

namespace strata::tools {

struct StepCounts {
  struct Collectives {
    int64_t calls = 0, bytes = 0;  // bytes: see sharding::Collective::bytes()
  };
  std::map<std::string, int64_t> operators = {};        // calls of LibTorch's operators by name: "aten::mm"
  int64_t allocations = 0, allocated_bytes = 0;         // allocations of tensors, freed within the step or not
  std::map<std::string, Collectives> collectives = {};  // by name: "all_gather"; none on a single rank
};

// Counts in the thread that made it, and in the backwards that this thread starts. An operator that another operator
// calls is not counted, because LibTorch may choose it by the processor. Threads that read data are not counted,
// because they read for later steps. Only one counter may exist at a time. It has the restriction of AllocationMeter.
class StepCounter {
 public:
  // Counts allocations on `device`.
  explicit StepCounter(c10::Device device);
  ~StepCounter();
  StepCounter(const StepCounter&) = delete;
  StepCounter& operator=(const StepCounter&) = delete;

  // Starts all counts again at 0.
  void begin_step();
  StepCounts counts() const;
  // Returns the most bytes that tensors took at once, beside those that existed when the step began.
  int64_t peak_bytes() const { return meter_.counts().peak_bytes - counts_at_start_.current_bytes; }

 private:
  static std::unique_ptr<at::ObserverContext> operator_begins(const at::RecordFunction& function);
  static void operator_ends(const at::RecordFunction& function, at::ObserverContext* context);
  static std::unique_ptr<at::ObserverContext> scope_begins(const at::RecordFunction& function);

  trainer::AllocationMeter meter_;
  at::CallbackHandle operators_, scopes_;
  mutable std::mutex mutex_;  // on GPUs a thread of autograd counts, too
  StepCounts counts_;
  trainer::AllocationCounts counts_at_start_;
};

}  // namespace strata::tools

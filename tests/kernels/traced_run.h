// SPDX-License-Identifier: MIT
// One call of an op case, with its backward, whose memory is counted: with values, or traced without them.
#pragma once

#include <c10/core/Device.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "kernels/proof/op_case.h"

namespace strata::kernels {

// Counts bytes. peak_bytes() is the largest number since the last reset_peak().
struct Meter {
  std::function<int64_t()> current_bytes, peak_bytes;
  std::function<void()> reset_peak;
};

struct CountedRun {
  int64_t kept = 0;  // bytes that exist after the forward and did not before
  int64_t most = 0;  // largest number of bytes in forward and backward, beyond those before
  // "output 0: Float [2, 3] strides [3, 1]", and the gradient of each leaf.
  std::vector<std::string> tensors;
};

// Runs `op_case` on leaves that are made for `device`, in `dtype`. The gradients of all outputs are ones.
CountedRun counted_run(const OpCase& op_case, Level level, at::ScalarType dtype, c10::Device device,
                       const Meter& meter);

// Traces it: meta tensors stand for tensors of `device`.
CountedRun traced_run(const OpCase& op_case, Level level, at::ScalarType dtype, c10::DeviceType device);

// The cases that are traced: those of op_cases() and some of larger shapes.
const std::vector<OpCase>& traced_cases();

// A case by its place in traced_cases(), at a level in a dtype.
struct TracedRun {
  size_t op_case;
  Level level;
  at::ScalarType dtype;
};
std::string run_name(const testing::TestParamInfo<TracedRun>& info);

// Every case in fp32 and bf16, at those of `levels` that its op has on one of `devices`.
std::vector<TracedRun> traced_runs(const std::vector<Level>& levels, const std::vector<c10::DeviceType>& devices);

}  // namespace strata::kernels

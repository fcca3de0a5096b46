// SPDX-License-Identifier: MIT
// KernelTable: the kernels of one op, one named slot per level. A kernel is a pair of plain functions, forward and
// backward; an empty slot holds the reason why there is no kernel. A call at an empty slot throws a c10::Error.
#pragma once

#include <c10/core/Device.h>
#include <c10/util/Exception.h>

#include <string>
#include <string_view>

#include "kernels/runtime/level.h"

namespace strata::kernels {

// Fills a slot that has no kernel, and gives the reason.
struct Absent {
  std::string_view reason;
};

inline constexpr Absent kNotWritten{"not written yet"};
inline constexpr std::string_view kGpuCode = "this level is GPU code";
inline constexpr std::string_view kOtherDevice = "ops run on cpu and cuda";

// The type of Op::Backward for an op that has no backward (adamw, global_norm).
struct NotDifferentiable;

// True if the kernels of `level` can run on `device`. Levels triton and cuda run on GPUs only.
constexpr bool runs_on(Level level, c10::DeviceType device) {
  return device == c10::kCUDA || (device == c10::kCPU && level != Level::triton && level != Level::cuda);
}

template <class Op>
struct Kernel {
  using Forward = typename Op::Forward;
  using Backward = typename Op::Backward;

  // If `backward` is null, autograd differentiates the operations of the forward.
  constexpr Kernel(Forward* forward, Backward* backward) : forward(forward), backward(backward) {}
  constexpr Kernel(Absent absent) : absent(absent.reason) {}  // NOLINT(google-explicit-constructor): reads as a slot

  Forward* forward = nullptr;
  Backward* backward = nullptr;
  std::string_view absent;  // why the slot is empty
};

// The slots have no default values, so a table that leaves one out does not compile.
template <class Op>
struct KernelTable {
  Kernel<Op> aten, torchscript, aot_inductor, triton, cuda;

  constexpr const Kernel<Op>& slot(Level level) const {
    switch (level) {
      case Level::aten:
        return aten;
      case Level::torchscript:
        return torchscript;
      case Level::aot_inductor:
        return aot_inductor;
      case Level::triton:
        return triton;
      case Level::cuda:
        return cuda;
    }
    return aten;  // unreachable: the switch is complete
  }

  // Returns "" if `level` exists on `device`. Otherwise returns a sentence that says why it does not, and which levels
  // do.
  std::string why_not(Level level, c10::DeviceType device) const {
    const bool empty = slot(level).forward == nullptr;
    if (!empty && runs_on(level, device)) return "";
    std::string existing;
    for (size_t i = 0; i < kLevelNames.size(); ++i) {
      const Level other = static_cast<Level>(i);
      if (slot(other).forward == nullptr || !runs_on(other, device)) continue;
      existing += (existing.empty() ? "" : ", ") + std::string(name(other));
    }
    return std::string(Op::kName) + " has no kernel at level " + std::string(name(level)) + " on " +
           c10::DeviceTypeName(device, /*lower_case=*/true) + " (" +
           std::string(empty                 ? slot(level).absent
                       : device == c10::kCPU ? kGpuCode
                                             : kOtherDevice) +
           "); levels there: " + (existing.empty() ? "none" : existing);
  }

  // Returns the kernel of `level` or throws a c10::Error. It never falls back to another level.
  const Kernel<Op>& at(Level level, c10::Device device) const {
    TORCH_CHECK(slot(level).forward != nullptr && runs_on(level, device.type()), why_not(level, device.type()));
    return slot(level);
  }
};

}  // namespace strata::kernels

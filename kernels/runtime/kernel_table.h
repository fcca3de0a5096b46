// SPDX-License-Identifier: MIT
// KernelTable: the kernels of one op, one named slot per level. A kernel is a pair of plain functions, forward and
// backward; an empty slot holds the reason why there is no kernel. A call at an empty slot throws a c10::Error.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/GradMode.h>
#include <c10/util/Exception.h>

#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "kernels/runtime/level.h"
#include "kernels/runtime/traced.h"

namespace strata::kernels {

// Fills a slot that has no kernel, and gives the reason.
struct Absent {
  std::string_view reason;
};

inline constexpr std::string_view kGpuCode = "this level is GPU code";
inline constexpr std::string_view kOtherDevice = "ops run on cpu and cuda";
inline constexpr std::string_view kNoLibrary = "no library with such a kernel was loaded";

// The type of Op::Backward for an op that has no backward (adamw, sum_of_squares).
struct NotDifferentiable;

// What a traced call of level aot_inductor runs, because packages take no tensors without values. aten: the kernel
// of level aten; only its results are counted as memory, not its temporary tensors. own: the level's own kernel,
// which then calls no package.
enum class TracedKernel { aten, own };

// True if the kernels of `level` can run on `device`. Levels triton and cuda run on GPUs only. Device meta is the
// device that it stands for while a Tracing lives.
inline bool runs_on(Level level, c10::DeviceType device) {
  const c10::DeviceType there = traced_device(device);
  return there == c10::kCUDA || (there == c10::kCPU && level != Level::triton && level != Level::cuda);
}

template <class Op>
struct Kernel {
  using Forward = typename Op::Forward;
  using Backward = typename Op::Backward;

  // If `backward` is null, autograd differentiates the operations of the forward. If `on_cpu` has a reason, the kernel
  // is for GPUs only.
  constexpr Kernel(Forward* forward, Backward* backward, TracedKernel traced = TracedKernel::aten, Absent on_cpu = {})
      : forward(forward), backward(backward), traced(traced), absent(on_cpu.reason) {}
  constexpr Kernel(Absent absent) : absent(absent.reason) {}  // NOLINT(google-explicit-constructor): reads as a slot

  // True if a call must be recorded with `backward` for autograd.
  bool is_recorded() const { return backward != nullptr && c10::GradMode::is_enabled(); }

  Forward* forward = nullptr;
  Backward* backward = nullptr;
  TracedKernel traced = TracedKernel::aten;
  std::string_view absent;  // why the slot is empty, or empty on CPUs
};

// The kernel of kLibraryLevel. It is empty until kernels/load_candidates.h fills it.
template <class Op>
inline Kernel<Op> library_kernel = Absent{kNoLibrary};

// Calls the forward or the backward of level aten, and counts the memory of its results only.
template <class Op, class Function>
struct ResultsOfAten;
template <class Op, class Result, class... Arguments>
struct ResultsOfAten<Op, Result(Arguments...)> {
  static Result forward(Arguments... arguments) {
    const ResultsOnly results_only;
    return Op::kKernels.aten.forward(std::forward<Arguments>(arguments)...);
  }
  static Result backward(Arguments... arguments) {
    const ResultsOnly results_only;
    return Op::kKernels.aten.backward(std::forward<Arguments>(arguments)...);
  }
};

// The kernel of level aot_inductor while ops are traced.
template <class Op>
const Kernel<Op>& traced_package() {
  if constexpr (std::is_function_v<typename Op::Backward>) {
    static constexpr Kernel<Op> kernel = {ResultsOfAten<Op, typename Op::Forward>::forward,
                                          ResultsOfAten<Op, typename Op::Backward>::backward};
    return kernel;
  } else {
    static constexpr Kernel<Op> kernel = {ResultsOfAten<Op, typename Op::Forward>::forward, nullptr};
    return kernel;
  }
}

// All ops of one folder, declared by its header, for example as RmsNormOps. The list of folders is in kernels/op.bzl.
template <class... Ops>
struct OpList {
  template <class Visit>
  static void each_table(Visit& visit) {
    (visit(Ops::kKernels), ...);
  }
};

// The slots have no default values, so a table that leaves one out does not compile.
template <class Op>
struct KernelTable {
  Kernel<Op> aten, torchscript, aot_inductor, triton, cuda;

  const Kernel<Op>& slot(Level level) const {
    switch (level) {
      case Level::aten:
        return aten;
      case Level::torchscript:
        return torchscript;
      case Level::aot_inductor:
        if (is_tracing() && aot_inductor.forward != nullptr && aot_inductor.traced == TracedKernel::aten) {
          return traced_package<Op>();
        }
        return aot_inductor;
      case Level::triton:
        return triton;
      case Level::cuda:
        return cuda;
    }
    return library_kernel<Op>;
  }

  // Returns "" if there is a kernel of `level` on `device`, or why there is none.
  std::string_view why_absent(Level level, c10::DeviceType device) const {
    const Kernel<Op>& kernel = slot(level);
    const bool cpu = traced_device(device) == c10::kCPU;
    if (kernel.forward == nullptr || (cpu && !kernel.absent.empty())) return kernel.absent;
    return runs_on(level, device) ? std::string_view() : cpu ? kGpuCode : kOtherDevice;
  }

  // Returns "" if `level` exists on `device`. Otherwise returns a sentence that says why it does not, and which levels
  // do.
  std::string why_not(Level level, c10::DeviceType device) const {
    const std::string_view reason = why_absent(level, device);
    if (reason.empty()) return "";
    std::string existing;
    for (size_t i = 0; i < kLevelNames.size(); ++i) {
      const Level other = static_cast<Level>(i);
      if (!why_absent(other, device).empty()) continue;
      existing += (existing.empty() ? "" : ", ") + std::string(name(other));
    }
    return std::string(Op::kName) + " has no kernel at level " + std::string(name(level)) + " on " +
           c10::DeviceTypeName(device, /*lower_case=*/true) + " (" + std::string(reason) +
           "); levels there: " + (existing.empty() ? "none" : existing);
  }

  // Returns the kernel of `level` or throws a c10::Error. It never falls back to another level.
  const Kernel<Op>& at(Level level, c10::Device device) const {
    TORCH_CHECK(why_absent(level, device.type()).empty(), why_not(level, device.type()));
    return slot(level);
  }
};

}  // namespace strata::kernels

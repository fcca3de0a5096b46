// SPDX-License-Identifier: MIT
// The `fault:` section: a fault to inject, for tests.
#pragma once

#include <array>
#include <cstdint>
#include <cstdio>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>

namespace strata::trainer {

// What happens to the rank and in the step that `at` names. A flip changes one bit of the value with the largest
// magnitude.
enum class Fault {
  none,
  nan,                    // the first gradient of each group is NaN, before it is reduced
  kill,                   // SIGKILL in the forward
  hang,                   // SIGSTOP in the forward
  extra_collective,       // all-reduces in the forward that other ranks do not start
  exception,              // an exception in the forward
  nan_loss,               // the loss that the rank reports is NaN; its gradients stay finite
  nan_weights,            // the rank's weights are NaN, in all later steps too
  scale_gradient,         // the gradients are 1000 times as large
  large_gradient,         // the gradients are 2^30 times as large, above what float16 has
  slow,                   // the host sleeps for 100 ms, in this step and in all later ones
  flip_weight,            // flips a bit of the weights of the layer
  flip_gradient,          // flips a bit of the first gradient of the layer, before it is reduced
  flip_activation,        // flips a bit of the output of the layer
  flip_reduced_gradient,  // flips a bit of the gradients of the layer, after they are reduced
  endless_kernel,         // the GPU gets a kernel that never ends, before the step
  illegal_address,        // the GPU gets a kernel that writes to an invalid address, before the step
  endless_inside          // a kernel that never ends in the forward of the layer, also in a captured step
};
constexpr std::array<std::string_view, 18> names(Fault) {
  return {"none",
          "nan",
          "kill",
          "hang",
          "extra_collective",
          "exception",
          "nan_loss",
          "nan_weights",
          "scale_gradient",
          "large_gradient",
          "slow",
          "flip_weight",
          "flip_gradient",
          "flip_activation",
          "flip_reduced_gradient",
          "endless_kernel",
          "illegal_address",
          "endless_inside"};
}

constexpr bool stops_the_gpu(Fault kind) {
  return kind == Fault::endless_kernel || kind == Fault::illegal_address || kind == Fault::endless_inside;
}
// True if the fault needs no host inside of a step, so that the step may be a replay of a CUDA graph.
constexpr bool can_strike_captured(Fault kind) {
  return kind == Fault::none || kind == Fault::slow || kind == Fault::nan || kind == Fault::nan_loss ||
         kind == Fault::flip_weight || stops_the_gpu(kind);
}

struct FaultPlace {
  int64_t step = 0;
  int rank = 0;
  int64_t layer = 0;  // where a bit flips
};

// Reads 'step 7 rank 1' or 'step 7 rank 1 layer 2'. Returns nothing if the text is no such place.
inline std::optional<FaultPlace> parse_fault_place(const std::string& at) {
  long long step = 0, layer = 0;
  int rank = 0, read = 0;
  bool whole = std::sscanf(at.c_str(), "step %lld rank %d%n", &step, &rank, &read) == 2 && read == std::ssize(at);
  whole = whole || (std::sscanf(at.c_str(), "step %lld rank %d layer %lld%n", &step, &rank, &layer, &read) == 3 &&
                    read == std::ssize(at));
  if (!whole || step <= 0 || rank < 0 || layer < 0) return std::nullopt;
  return FaultPlace{step, rank, layer};
}

// A fault to inject in a test. It is refused unless STRATA_FAULTS=1 is in the environment.
struct FaultConfig {
  std::string at = {};
  Fault kind = Fault::none;
  bool repeats_after_rollback = false;

  // Returns the fault of the run after a rollback because of `step`: none if it was to strike at or before `step`,
  // unless `repeats_after_rollback` is set.
  FaultConfig after_rollback(int64_t step) const {
    const std::optional<FaultPlace> place = parse_fault_place(at);
    return repeats_after_rollback || !place || place->step > step ? *this : FaultConfig{};
  }

  template <class Fields>
  void describe(Fields& fields) {
    fields.add(
        "at", at,
        "step and rank of the fault, such as 'step 7 rank 1'; for a flipped bit also the layer, such as 'step 7 rank 1 "
        "layer 2'");
    fields.add("kind", kind, "the fault to inject there; none: no fault");
    fields.add("repeats_after_rollback", repeats_after_rollback,
               "the fault strikes again when the run comes to its step after a rollback");
  }
};

}  // namespace strata::trainer

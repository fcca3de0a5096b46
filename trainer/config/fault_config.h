// SPDX-License-Identifier: MIT
// The `fault:` section: a fault to inject, for tests.
#pragma once

#include <array>
#include <string>
#include <string_view>

namespace strata::trainer {

// nan: in the gradient of a rank. nan_loss: only in its loss. nan_weights: in its weights, so that all later steps have
// it. slow: the host sleeps for 100 ms in this step and in all later ones.
enum class Fault { none, nan, kill, hang, extra_collective, exception, nan_loss, nan_weights, slow };
constexpr std::array<std::string_view, 9> names(Fault) {
  return {"none", "nan", "kill", "hang", "extra_collective", "exception", "nan_loss", "nan_weights", "slow"};
}

// A fault to inject in a test. It is refused unless STRATA_FAULTS=1 is in the environment.
struct FaultConfig {
  std::string at = {};
  Fault kind = Fault::none;

  template <class Fields>
  void describe(Fields& fields) {
    fields.add("at", at, "step and rank of the fault, such as 'step 7 rank 1'");
    fields.add("do", kind, "the fault to inject there; none: no fault");
  }
};

}  // namespace strata::trainer

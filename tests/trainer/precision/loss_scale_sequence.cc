// SPDX-License-Identifier: MIT
// loss_scale_sequence INITIAL GROWTH BACKOFF INTERVAL: reads a letter for each step from the standard input and prints
// the loss scale that the step has. 1: its gradients are not finite; 0: they are; r: no step, but the scale goes on in
// another object from the state that a checkpoint keeps.
#include <ATen/ops/scalar_tensor.h>

#include <cstdio>
#include <cstdlib>
#include <optional>

#include "trainer/step/loss_scale.h"

int main(int count, char** arguments) {
  using namespace strata::trainer;
  if (count != 5) return 2;
  const LossScaling config = {.initial = std::atof(arguments[1]),
                              .growth = std::atof(arguments[2]),
                              .backoff = std::atof(arguments[3]),
                              .growth_interval = std::atoll(arguments[4])};
  const Tensor loss = at::scalar_tensor(3, at::kFloat);
  std::optional<LossScale> scale(std::in_place, config, at::kCPU);
  for (int letter = std::getchar(); letter != EOF; letter = std::getchar()) {
    if (letter == 'r') {
      const LossScale::State state = scale->state();
      scale.emplace(config, at::kCPU);
      scale->restore(state);
      continue;
    }
    std::printf("%.9g\n", scale->value().item<double>());
    const Tensor skipped = at::scalar_tensor(letter == '1' ? 1 : 0, at::kFloat);
    scale->update(scale->overflowed(loss, skipped), skipped);
  }
  return 0;
}

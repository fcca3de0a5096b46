// SPDX-License-Identifier: MIT
// Placement: the device and the type of the weights, the level of ops, and whether steps are captured, as options of a
// program.
#pragma once

#include <c10/core/TensorOptions.h>

#include <CLI/CLI.hpp>
#include <string>

namespace strata::generation {

struct Placement {
  std::string dtype = "fp32", device = "auto", cuda_graph = "auto";
  std::string kernels = "auto";  // see chosen_kernels

  // Adds --dtype, --device, --kernels and --cuda-graph, which write into this object.
  void add_options(CLI::App& app);
  void add_device_option(CLI::App& app);  // --device alone

  // The type of the weights, and their device. cuda: the first GPU, or an Error if there is none. auto: the first GPU,
  // or else the CPU. Samples are the same on both, except for rounding.
  at::TensorOptions tensor_options() const;
  bool captures() const { return cuda_graph != "off"; }
};

}  // namespace strata::generation

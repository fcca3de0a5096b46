// SPDX-License-Identifier: MIT
// Constants on devices: numbers that kernels read and that never change, such as lists of tiles. They stay on each
// device for the life of the process.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "kernels/attention/pattern/pattern.h"

namespace strata::kernels {

// Returns an int32 vector of what `make` returned at the first call with this name. The first call for a GPU copies it
// there and waits for the copy. It throws during the capture of a CUDA graph, which would record the copy. Without a
// GPU the vector is on the CPU; for device meta its bytes are counted as a workspace.
at::Tensor device_constants(const std::string& name, at::Device device,
                            const std::function<std::vector<int32_t>()>& make);

// The same for fp32 numbers.
at::Tensor float_device_constants(const std::string& name, at::Device device, const std::vector<double>& numbers);

// The program of a pattern, int32 [3 x instructions]: operation, first and second number of each (pattern/program.h).
at::Tensor program_on(at::Device device, const Pattern& pattern);

}  // namespace strata::kernels

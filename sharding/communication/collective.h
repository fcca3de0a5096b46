// SPDX-License-Identifier: MIT
// Names collectives for plans, reports and profiles, and checks their arguments for all communicators.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace strata::sharding {

struct Collective {
  std::string_view operation;
  std::string label;
  c10::ScalarType dtype = c10::ScalarType::Undefined;
  int64_t count = 0;  // elements of the larger side; -1 if ranks may differ (all_to_all)

  // A text such as "reduce_scatter of blocks.2 (197376 bfloat16)".
  std::string text() const;
  // Equal on two ranks if their collectives match, as far as one rank can see.
  uint64_t hash() const;
};

// Each function checks the arguments as class Communicator requires and describes the collective. `size` is the number
// of ranks of the group.
Collective all_gather_of(const at::Tensor& output, const at::Tensor& input, int size, std::string_view label);
Collective reduce_scatter_of(const at::Tensor& output, const at::Tensor& input, int size, std::string_view label);
Collective all_reduce_of(const at::Tensor& tensor, std::string_view label);
Collective broadcast_of(const at::Tensor& tensor, int root, int size, std::string_view label);
Collective all_to_all_of(const at::Tensor& output, const std::vector<int64_t>& output_counts, const at::Tensor& input,
                         const std::vector<int64_t>& input_counts, int size, std::string_view label);

}  // namespace strata::sharding

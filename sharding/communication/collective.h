// SPDX-License-Identifier: MIT
// Collective: a collective with its arguments, which are checked here for all communicators, and its text for
// comparisons, reports and profiles.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace strata::sharding {

enum class Operation { all_gather, reduce_scatter, all_reduce, all_reduce_max, broadcast, all_to_all };

std::string_view name(Operation operation);

struct Collective {
  Operation operation;
  std::string label;
  at::Tensor output, input;                              // one tensor unless it gathers, scatters or exchanges
  int root = 0;                                          // rank that sends, in broadcast
  std::vector<int64_t> output_counts{}, input_counts{};  // elements per rank, in all_to_all

  // The number of elements of the larger side; -1 if ranks may differ (all_to_all).
  int64_t count() const;
  // The bytes of the larger side on this rank: an all-gather of n ranks has n times its input.
  int64_t bytes() const;
  // A text such as "reduce_scatter of blocks.2 (197376 bfloat16)".
  std::string text() const;
  // Equal on two ranks if their collectives match, as far as one rank can see.
  uint64_t hash() const;
};

// Each function checks the arguments as class Communicator requires, and throws a c10::Error otherwise. `size` is the
// number of ranks of the group.
Collective all_gather_of(const at::Tensor& output, const at::Tensor& input, int size, std::string_view label);
Collective reduce_scatter_of(const at::Tensor& output, const at::Tensor& input, int size, std::string_view label);
// `operation` is all_reduce or all_reduce_max.
Collective all_reduce_of(const at::Tensor& tensor, std::string_view label, Operation operation = Operation::all_reduce);
Collective broadcast_of(const at::Tensor& tensor, int root, int size, std::string_view label);
Collective all_to_all_of(const at::Tensor& output, const std::vector<int64_t>& output_counts, const at::Tensor& input,
                         const std::vector<int64_t>& input_counts, int size, std::string_view label);

}  // namespace strata::sharding

// SPDX-License-Identifier: MIT
// Losses and gradients of one step on the ranks of a test, and on one rank that holds everything, for small models:
// transformers of both families, vision transformers and graph networks.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "sharding/communication/communicator.h"
#include "trainer/config/trainer_config.h"

namespace strata::trainer {

using at::Tensor;
using Overrides = std::vector<std::string>;

// A language model with five layers, so that they share slots. No number of ranks divides its sizes.
TrainerConfig config_for(const Overrides& overrides, int ranks);

inline const Overrides kGpt2 = {"model.family=gpt2", "model.feed_forward=0", "model.key_value_heads=0"};

// A vision transformer with all optional parts, instead of the language model.
Overrides vision(const Overrides& overrides);

// A graph network with this convolution, whose nodes are split over the ranks.
Overrides graph(const std::string& convolution, const Overrides& overrides);

struct Result {
  float loss = 0;
  std::map<std::string, Tensor> gradients;  // unsharded
  int64_t bytes = 0;
};

// Runs forward and backward of one step on the ranks of `world`, with NaN in every released slot.
Result gradients_of(const TrainerConfig& config, sharding::Communicator& world);

// Computes each result once.
const Result& on_one_rank(const Overrides& overrides);
Result on_all_ranks(const Overrides& overrides);

// Returns the largest difference as a share of the largest element of `b`.
double relative_difference(const Tensor& a, const Tensor& b);

void expect_close(const Result& actual, const Result& expected, double tolerance);
void expect_same_bits(const Result& actual, const Result& expected);

// A step of two micro-batches on any number of ranks. Results are not compared between numbers of ranks.
std::string two_micro_batches();

// With one micro-batch, gradients keep the type of their reduction.
std::string one_micro_batch();

}  // namespace strata::trainer

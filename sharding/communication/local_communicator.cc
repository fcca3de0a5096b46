// SPDX-License-Identifier: MIT
#include "sharding/communication/local_communicator.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>

#include "sharding/communication/collective.h"

namespace strata::sharding {
namespace {

PendingCollective copy(Tensor& output, const Tensor& input) {
  const at::NoGradGuard no_gradients;
  if (output.data_ptr() != input.data_ptr()) output.view(-1).copy_(input.view(-1));
  return PendingCollective();
}

}  // namespace

PendingCollective LocalCommunicator::all_gather(Tensor output, const Tensor& input, std::string_view label) {
  all_gather_of(output, input, 1, label);
  return copy(output, input);
}

PendingCollective LocalCommunicator::reduce_scatter(Tensor output, const Tensor& input, std::string_view label) {
  reduce_scatter_of(output, input, 1, label);
  return copy(output, input);
}

PendingCollective LocalCommunicator::all_reduce(Tensor tensor, std::string_view label) {
  all_reduce_of(tensor, label);
  return PendingCollective();
}

PendingCollective LocalCommunicator::broadcast(Tensor tensor, int root, std::string_view label) {
  broadcast_of(tensor, root, 1, label);
  return PendingCollective();
}

PendingCollective LocalCommunicator::all_to_all(Tensor output, const std::vector<int64_t>& output_counts,
                                                const Tensor& input, const std::vector<int64_t>& input_counts,
                                                std::string_view label) {
  all_to_all_of(output, output_counts, input, input_counts, 1, label);
  return copy(output, input);
}

Tensor LocalCommunicator::gather_buffer(int64_t elements, at::TensorOptions options) {
  return at::zeros({elements}, options);
}

std::unique_ptr<Communicator> LocalCommunicator::split(int) { return std::make_unique<LocalCommunicator>(device_); }

}  // namespace strata::sharding

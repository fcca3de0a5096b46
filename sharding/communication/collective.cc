// SPDX-License-Identifier: MIT
#include "sharding/communication/collective.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <functional>
#include <numeric>

namespace strata::sharding {
namespace {

using at::Tensor;
using c10::ScalarType;

std::string_view name(ScalarType dtype) {
  switch (dtype) {
    case ScalarType::Float:
      return "float32";
    case ScalarType::BFloat16:
      return "bfloat16";
    case ScalarType::Half:
      return "float16";
    case ScalarType::Double:
      return "float64";
    case ScalarType::Long:
      return "int64";
    case ScalarType::Byte:
      return "uint8";
    default:
      return "unsupported";
  }
}

void check_tensor(const Tensor& tensor, std::string_view operation, std::string_view label) {
  TORCH_CHECK(tensor.defined(), operation, " of ", label, ": a tensor is undefined");
  TORCH_CHECK(tensor.is_contiguous(), operation, " of ", label, ": tensors must be contiguous, strides are ",
              tensor.strides());
  TORCH_CHECK(name(tensor.scalar_type()) != "unsupported", operation, " of ", label,
              ": float32, bfloat16, float16, float64, int64 and uint8 are known, not ", tensor.scalar_type());
}

void check_pair(const Tensor& output, const Tensor& input, std::string_view operation, std::string_view label) {
  check_tensor(output, operation, label);
  check_tensor(input, operation, label);
  TORCH_CHECK(output.scalar_type() == input.scalar_type() && output.device() == input.device(), operation, " of ",
              label, ": input is ", input.scalar_type(), " on ", input.device(), ", output is ", output.scalar_type(),
              " on ", output.device());
}

void check_part(const Tensor& whole, const Tensor& part, int size, std::string_view operation, std::string_view label) {
  TORCH_CHECK(whole.numel() == part.numel() * size, operation, " of ", label, " over ", size, " ranks: one side has ",
              part.numel(), " elements, the other must have ", part.numel() * size, " and has ", whole.numel());
}

int64_t checked_sum(const std::vector<int64_t>& counts, int size, std::string_view side, std::string_view label) {
  TORCH_CHECK(counts.size() == static_cast<size_t>(size), "all_to_all of ", label, " over ", size,
              " ranks: ", counts.size(), " ", side, " counts");
  for (const int64_t count : counts)
    TORCH_CHECK(count >= 0, "all_to_all of ", label, ": negative ", side, " count ", count);
  return std::accumulate(counts.begin(), counts.end(), int64_t{0});
}

}  // namespace

std::string_view name(Operation operation) {
  switch (operation) {
    case Operation::all_gather:
      return "all_gather";
    case Operation::reduce_scatter:
      return "reduce_scatter";
    case Operation::all_reduce:
      return "all_reduce";
    case Operation::all_reduce_max:
      return "all_reduce_max";
    case Operation::broadcast:
      return "broadcast";
    case Operation::all_to_all:
      return "all_to_all";
  }
  return "";  // unreachable: the switch is complete
}

int64_t Collective::count() const {
  return operation == Operation::all_to_all ? -1 : std::max(output.numel(), input.numel());
}

int64_t Collective::bytes() const {
  const auto bytes_of = [](const at::Tensor& tensor) {
    return tensor.defined() ? tensor.numel() * static_cast<int64_t>(tensor.element_size()) : 0;
  };
  return std::max(bytes_of(output), bytes_of(input));
}

std::string Collective::text() const {
  std::string text(name(operation));
  text.append(" of ").append(label);
  if (operation == Operation::broadcast) text.append(" from rank ").append(std::to_string(root));
  text.append(" (");
  if (count() >= 0) text.append(std::to_string(count())).append(" ");
  return text.append(name(input.scalar_type())).append(")");
}

uint64_t Collective::hash() const { return std::hash<std::string>()(text()); }

Collective all_gather_of(const Tensor& output, const Tensor& input, int size, std::string_view label) {
  check_pair(output, input, "all_gather", label);
  check_part(output, input, size, "all_gather", label);
  return {Operation::all_gather, std::string(label), output, input};
}

Collective reduce_scatter_of(const Tensor& output, const Tensor& input, int size, std::string_view label) {
  check_pair(output, input, "reduce_scatter", label);
  check_part(input, output, size, "reduce_scatter", label);
  return {Operation::reduce_scatter, std::string(label), output, input};
}

Collective all_reduce_of(const Tensor& tensor, std::string_view label, Operation operation) {
  check_tensor(tensor, name(operation), label);
  return {operation, std::string(label), tensor, tensor};
}

Collective broadcast_of(const Tensor& tensor, int root, int size, std::string_view label) {
  check_tensor(tensor, "broadcast", label);
  TORCH_CHECK(root >= 0 && root < size, "broadcast of ", label, " over ", size, " ranks: there is no rank ", root);
  return {Operation::broadcast, std::string(label), tensor, tensor, root};
}

Collective all_to_all_of(const Tensor& output, const std::vector<int64_t>& output_counts, const Tensor& input,
                         const std::vector<int64_t>& input_counts, int size, std::string_view label) {
  check_pair(output, input, "all_to_all", label);
  const int64_t received = checked_sum(output_counts, size, "output", label),
                sent = checked_sum(input_counts, size, "input", label);
  TORCH_CHECK(output.numel() == received, "all_to_all of ", label, ": the counts receive ", received,
              " elements, output has ", output.numel());
  TORCH_CHECK(input.numel() == sent, "all_to_all of ", label, ": the counts send ", sent, " elements, input has ",
              input.numel());
  return {Operation::all_to_all, std::string(label), output, input, /*root=*/0, output_counts, input_counts};
}

}  // namespace strata::sharding

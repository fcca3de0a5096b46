// SPDX-License-Identifier: MIT
// CallScope and require: how one call of an op appears to the profiler and to an observer, and how its arguments are
// checked.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/record_function.h>
#include <c10/util/Exception.h>
#include <c10/util/accumulate.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "kernels/runtime/call_observer.h"
#include "kernels/runtime/level.h"

namespace strata::kernels {

inline constexpr std::string_view kBackward = "/backward";

// Returns the name of a call for the profiler: "rms_norm/aten", or "rms_norm/aten/backward" with kBackward as suffix.
inline std::string scope_name(std::string_view op, Level level, std::string_view suffix) {
  return std::string(op).append("/").append(name(level)).append(suffix);
}

// Records one forward or backward with at::RecordFunction for the profiler, and reports it with its shape to a
// CallObserver. `shape` is a function, called only if there is an observer.
class CallScope {
 public:
  template <class Shape>
  CallScope(std::string_view op, Level level, const at::Tensor& elements, const Shape& shape)
      : CallScope(op, level, /*suffix=*/"", elements.scalar_type(), shape) {}
  template <class Shape>
  CallScope(std::string_view op, Level level, std::string_view suffix, const at::Tensor& elements, const Shape& shape)
      : CallScope(op, level, suffix, elements.scalar_type(), shape) {}
  template <class Shape>
  CallScope(std::string_view op, Level level, std::string_view suffix, at::ScalarType type, const Shape& shape)
      : record_(at::RecordScope::USER_SCOPE) {
    if (record_.isActive()) record_.before(scope_name(op, level, suffix));
    if (calls_are_observed()) report_call(op, shape(), level, suffix == kBackward, type);
  }

 private:
  at::RecordFunction record_;
};

// Width and number of the rows of a tensor, which are along its last dimension. A scalar is one row of one element.
inline int64_t row_width(const at::Tensor& tensor) { return tensor.dim() == 0 ? 1 : tensor.size(-1); }
inline int64_t row_count(const at::Tensor& tensor) {
  return tensor.dim() == 0 ? 1 : c10::multiply_integers(tensor.sizes().slice(0, tensor.dim() - 1));
}

// Checks an argument. The ValueError begins with "rms_norm/aten: " and says what was given and what is expected.
template <class... Parts>
void require(bool condition, std::string_view op, Level level, const Parts&... parts) {
  if (!condition) TORCH_CHECK_VALUE(false, op, "/", name(level), ": ", parts...);
}

// Saves the level of a forward for its backward. Context is torch::autograd::AutogradContext, whose header is slow to
// compile.
template <class Context>
void save_level(Context* context, Level level) {
  context->saved_data["level"] = static_cast<int64_t>(level);
}
template <class Context>
Level saved_level(Context* context) {
  return static_cast<Level>(context->saved_data["level"].toInt());
}

// Wraps an argument that may be undefined, because a torch::autograd::Function does not accept undefined tensors.
inline std::optional<at::Tensor> if_defined(const at::Tensor& tensor) {
  return tensor.defined() ? std::optional<at::Tensor>(tensor) : std::nullopt;
}

// Checks that two tensors have the same shape, dtype and device.
inline void require_alike(std::string_view op, Level level, std::string_view name_a, const at::Tensor& a,
                          std::string_view name_b, const at::Tensor& b) {
  require(a.sizes() == b.sizes() && a.scalar_type() == b.scalar_type() && a.device() == b.device(), op, level, name_a,
          " is ", a.scalar_type(), " ", a.sizes(), " on ", a.device(), " and ", name_b, " is ", b.scalar_type(), " ",
          b.sizes(), " on ", b.device(), ", expected the same");
}

// Checks that two tensors have the same floating point dtype and device. Their shapes are checked elsewhere.
inline void require_same_kind(std::string_view op, Level level, std::string_view name_a, const at::Tensor& a,
                              std::string_view name_b, const at::Tensor& b) {
  require(a.is_floating_point() && a.scalar_type() == b.scalar_type() && a.device() == b.device(), op, level, name_a,
          " is ", a.scalar_type(), " on ", a.device(), " and ", name_b, " is ", b.scalar_type(), " on ", b.device(),
          ", expected one floating point type on one device");
}

}  // namespace strata::kernels

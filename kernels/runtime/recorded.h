// SPDX-License-Identifier: MIT
// Recorded: the autograd function of an op, from a forward that saves tensors and a backward that returns gradients. It
// reports both to the profiler and to an observer, and keeps the level and the options of the call.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/Exception.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>

#include "kernels/runtime/call.h"
#include "kernels/runtime/kernel_table.h"

namespace strata::kernels {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// What a call keeps until its backward, except the tensors that its forward saved.
struct RecordedCall : torch::CustomClassHolder {
  virtual variable_list backward(AutogradContext* context, const variable_list& gradients) const = 0;
};

// True for structs of tensors that have no gradients, such as a graph. They may be options.
template <class Option>
inline constexpr bool kHasNoGradients = false;

// The options of a call are its arguments that are not tensors.
inline std::tuple<> option_of(const at::Tensor&) { return {}; }
inline std::tuple<> option_of(const std::optional<at::Tensor>&) { return {}; }
template <class Option>
std::tuple<Option> option_of(const Option& option) {
  static_assert(std::is_trivially_copyable_v<Option> || kHasNoGradients<Option>,
                "pass tensors alone: autograd does not see those in a struct");
  return {option};
}

template <class Argument>
const Argument& defined_or_not(const Argument& argument) {
  return argument;
}
inline at::Tensor defined_or_not(const std::optional<at::Tensor>& tensor) { return tensor.value_or(at::Tensor()); }

// The autograd function of Op. `Function` has two static functions, which get the kernel of the level:
//   forward(context, kernel, arguments...) saves tensors with context->save_for_backward(), and returns y or a list
//   backward(context, kernel, gradients, options...) returns the gradients of the first arguments, without those after
// A call is Function::apply(level, shape, arguments...). The first argument is a tensor with the dtype of the elements,
// and a tensor that may be undefined is passed as if_defined(tensor).
template <class Function, class Op>
struct Recorded : torch::autograd::Function<Recorded<Function, Op>> {
  template <class Shape, class... Arguments>
  static auto forward(AutogradContext* context, Level level, const Shape& shape, const Arguments&... arguments) {
    const at::ScalarType type = std::get<0>(std::tie(arguments...)).scalar_type();
    const CallScope scope(Op::kName, level, /*suffix=*/"", type, [&] { return shape; });
    auto options = std::tuple_cat(option_of(arguments)...);
    using Kept = Call<Shape, decltype(options), sizeof...(Arguments)>;
    context->saved_data["call"] =
        at::IValue::make_capsule(c10::make_intrusive<Kept>(level, type, shape, std::move(options)));
    return Function::forward(context, Op::kKernels.slot(level), defined_or_not(arguments)...);
  }

  // The list is passed by reference, because a copy would hold another reference to every gradient.
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto call = context->saved_data["call"].toCapsule();
    return static_cast<const RecordedCall&>(*call).backward(context, gradients);
  }

 private:
  template <class Shape, class Options, size_t kArguments>
  struct Call final : RecordedCall {
    Call(Level level, at::ScalarType type, const Shape& shape, Options options)
        : level(level), type(type), shape(shape), options(std::move(options)) {}

    variable_list backward(AutogradContext* context, const variable_list& gradients) const override {
      std::optional<CallScope> scope;  // without a gradient of the first result nothing is computed
      if (gradients[0].defined()) scope.emplace(Op::kName, level, kBackward, type, [&] { return shape; });
      variable_list argument_gradients = std::apply(
          [&](const auto&... option) {
            return Function::backward(context, Op::kKernels.slot(level), gradients, option...);
          },
          options);
      TORCH_INTERNAL_ASSERT(argument_gradients.size() <= kArguments, Op::kName, ": ", argument_gradients.size(),
                            " gradients of ", kArguments, " arguments");
      variable_list all(2 + kArguments);  // undefined for level, shape and options
      std::move(argument_gradients.begin(), argument_gradients.end(), all.begin() + 2);
      return all;
    }

    Level level;
    at::ScalarType type;
    Shape shape;
    Options options;
  };
};

}  // namespace strata::kernels

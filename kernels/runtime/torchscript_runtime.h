// SPDX-License-Identifier: MIT
// Formula: one function of an op's `.py` file, compiled by TorchScript and called with tensors and numbers.
#pragma once

#include <ATen/core/ivalue.h>

#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

namespace torch::jit {
struct Function;
struct CompilationUnit;
}  // namespace torch::jit

namespace strata::kernels {

// Compiles its function once, in the constructor. Each op holds its formulas as function-local statics, which C++
// initializes once for all threads. Calls are thread-safe and differentiable.
//
// TorchScript optimizes a function for the calls that it has seen, which changes the last bits of later results. So
// calls while a Tracing lives go to a second function, which is compiled at the first of them.
class Formula {
 public:
  // `source` is the whole text of the file, which lives as long as the formula. Everything before the first function
  // (the imports that Python needs) is skipped.
  Formula(std::string_view source, std::string_view function);

  template <class... Arguments>
  at::Tensor operator()(const Arguments&... arguments) const {
    return call({value(arguments)...}).toTensor();
  }
  // Calls a function that returns a tuple of tensors.
  template <class... Arguments>
  std::vector<at::Tensor> tuple(const Arguments&... arguments) const {
    const at::IValue result = call({value(arguments)...});
    std::vector<at::Tensor> tensors;
    for (const at::IValue& element : result.toTupleRef().elements()) tensors.push_back(element.toTensor());
    return tensors;
  }

 private:
  static at::IValue value(const at::Tensor& tensor) { return tensor.defined() ? at::IValue(tensor) : at::IValue(); }
  template <class Argument>
  static at::IValue value(const Argument& argument) {
    return at::IValue(argument);
  }
  at::IValue call(std::vector<at::IValue> arguments) const;

  struct Compiled {
    std::shared_ptr<torch::jit::CompilationUnit> unit;
    torch::jit::Function* function = nullptr;
  };
  static Compiled compile(std::string_view source, std::string_view name);

  std::string_view source_, name_;
  Compiled real_;
  mutable std::once_flag compiles_traced_;
  mutable Compiled traced_;
};

}  // namespace strata::kernels

// SPDX-License-Identifier: MIT
#include "kernels/torchscript_runtime.h"

#include <ATen/core/function.h>
#include <c10/util/Exception.h>
#include <torch/csrc/jit/api/compilation_unit.h>
#include <torch/csrc/jit/api/function_impl.h>

#include <string>

namespace torch::jit {
// Declared in torch/jit.h, which includes all of torch/torch.h (17 s to compile).
TORCH_API std::shared_ptr<CompilationUnit> compile(const std::string& source);
}  // namespace torch::jit

namespace strata::kernels {

Formula::Formula(std::string_view source, std::string_view function) {
  const size_t first = source.find("\ndef ");
  TORCH_INTERNAL_ASSERT(first != std::string_view::npos, "formula ", function, ": no function in its source");
  unit_ = torch::jit::compile(std::string(source.substr(first + 1)));
  function_ = unit_->find_function(c10::QualifiedName(std::string(function)));
  TORCH_INTERNAL_ASSERT(function_ != nullptr, "formula ", function, ": not in its source");
}

at::IValue Formula::call(std::vector<at::IValue> arguments) const { return (*function_)(std::move(arguments)); }

}  // namespace strata::kernels

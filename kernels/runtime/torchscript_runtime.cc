// SPDX-License-Identifier: MIT
#include "kernels/runtime/torchscript_runtime.h"

#include <ATen/core/function.h>
#include <c10/core/ScalarType.h>
#include <c10/util/Exception.h>
#include <torch/csrc/jit/api/compilation_unit.h>
#include <torch/csrc/jit/api/function_impl.h>
#include <torch/csrc/jit/frontend/resolver.h>
#include <torch/csrc/jit/frontend/sugared_value.h>
#include <torch/csrc/jit/passes/tensorexpr_fuser.h>

#include <array>
#include <string>
#include <utility>

#include "kernels/runtime/traced.h"

namespace strata::kernels {
namespace {

using torch::jit::GraphFunction;
using torch::jit::SourceRange;
using torch::jit::SugaredValue;

constexpr std::array<std::pair<std::string_view, c10::ScalarType>, 4> kDtypes = {
    {{"float32", c10::kFloat}, {"float64", c10::kDouble}, {"int64", c10::kLong}, {"bool", c10::kBool}}};

// The name `torch` inside formulas. It resolves operators as LibTorch's own resolver does, and also dtypes, which
// LibTorch's resolver does not know.
struct TorchModule : torch::jit::BuiltinModule {
  TorchModule() : BuiltinModule("aten") {}
  std::shared_ptr<SugaredValue> attr(const SourceRange& location, GraphFunction& function,
                                     const std::string& field) override {
    for (const auto& [dtype_name, dtype] : kDtypes) {
      if (dtype_name == field) {
        return std::make_shared<torch::jit::SimpleValue>(
            function.graph()->insertConstant(static_cast<int64_t>(dtype), location));
      }
    }
    return BuiltinModule::attr(location, function, field);
  }
};

struct FormulaResolver : torch::jit::Resolver {
  std::shared_ptr<SugaredValue> resolveValue(const std::string& name, GraphFunction&, const SourceRange&) override {
    if (name == "torch") return std::make_shared<TorchModule>();
    if (name == "AssertionError") return std::make_shared<torch::jit::ExceptionValue>(name);  // raised by `assert`
    return nullptr;
  }
};

}  // namespace

Formula::Formula(std::string_view source, std::string_view function)
    : source_(source), name_(function), real_(compile(source, function)) {}

Formula::Compiled Formula::compile(std::string_view source, std::string_view name) {
  const size_t first = source.find("\ndef ");
  TORCH_INTERNAL_ASSERT(first != std::string_view::npos, "formula ", name, ": no function in its source");
  // On GPUs the fuser of LibTorch 2.11 writes kernels that nvrtc refuses: where a kernel computes in fp32 and reads
  // weights in bf16, it names the type __nv_bfloat16 and does not declare it. On CPUs the wheels have no fuser.
  torch::jit::setTensorExprFuserEnabled(false);
  auto unit = std::make_shared<torch::jit::CompilationUnit>();
  unit->define(/*prefix=*/std::nullopt, std::string(source.substr(first + 1)), std::make_shared<FormulaResolver>(),
               /*self=*/nullptr);
  torch::jit::Function* function = unit->find_function(c10::QualifiedName(std::string(name)));
  TORCH_INTERNAL_ASSERT(function != nullptr, "formula ", name, ": not in its source");
  return {std::move(unit), function};
}

at::IValue Formula::call(std::vector<at::IValue> arguments) const {
  if (!is_tracing()) return (*real_.function)(std::move(arguments));
  std::call_once(compiles_traced_, [this] { traced_ = compile(source_, name_); });
  return (*traced_.function)(std::move(arguments));
}

}  // namespace strata::kernels

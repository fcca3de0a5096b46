// SPDX-License-Identifier: MIT
#include "kernels/runtime/aot_inductor_runtime.h"

#include <ATen/core/grad_mode.h>
#include <ATen/cuda/CUDAContextLight.h>
#include <ATen/ops/scalar_tensor.h>
#include <c10/core/DeviceGuard.h>
#include <c10/cuda/CUDAGraphsC10Utils.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/inductor/aoti_torch/tensor_converter.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <optional>
#include <string>

#include "kernels/runtime/aot_inductor_package.h"
#include "kernels/runtime/call.h"

namespace strata::kernels {
namespace {

using at::Tensor;

constexpr std::string_view kCpuArchitecture = "x86-64-v3";  // AVX2 and FMA
constexpr uintptr_t kAlignment = 16;                        // bytes, which generated GPU code assumes

std::string architecture_of(c10::Device device) {
  if (device.is_cpu()) return std::string(kCpuArchitecture);
  const cudaDeviceProp& properties = *at::cuda::getDeviceProperties(device.index());
  return "sm_" + std::to_string(properties.major * 10 + properties.minor);
}

// True if the package for any width is needed; AotWidths has the rules. fp16 always uses it, because packages for
// single widths in a third type would make each build longer.
bool takes_any_width(AotWidths rule, at::ScalarType dtype, const std::vector<AotWidth>& widths,
                     const std::vector<Tensor>& inputs, c10::Device device) {
  if (rule == AotWidths::exact) return false;
  constexpr int64_t kNarrow = 256, kLimit = int64_t{1} << 31;
  if (device.is_cpu() || widths.empty() || dtype == at::kHalf) return true;
  const int64_t width = widths.back().size;
  if (rule == AotWidths::rows ? width < kNarrow || width % 8 != 0 : width % 16 != 0) return true;
  if (rule == AotWidths::lanes && width != kLanes) return true;
  // The result (rows times widths) may have more elements than any input.
  const auto first = std::find_if(inputs.begin(), inputs.end(), [](const Tensor& input) { return input.dim() > 0; });
  int64_t result_elements = first == inputs.end() ? 1 : first->size(0);
  for (const AotWidth& each : widths) result_elements *= each.size;
  return result_elements >= kLimit ||
         std::any_of(inputs.begin(), inputs.end(), [](const Tensor& input) { return input.numel() >= kLimit; });
}

std::string widths_text(const std::vector<AotWidth>& widths, bool any) {
  std::string text;
  for (const auto& [letter, size] : widths) {
    text += (text.empty() ? "" : ",") + std::string(1, letter) + "=" + (any ? "*" : std::to_string(size));
  }
  return text.empty() ? "-" : text;
}

// Makes an input contiguous and 16-byte aligned, because generated code loads whole vectors.
Tensor prepared(const Tensor& input) {
  const Tensor contiguous = input.contiguous();
  const bool aligned = contiguous.is_cpu() || reinterpret_cast<uintptr_t>(contiguous.data_ptr()) % kAlignment == 0;
  return aligned ? contiguous : contiguous.clone();
}

void release(char* problem, std::string_view op, const PackageRequest& request) {
  if (problem == nullptr) return;
  const std::string sentence = problem;
  std::free(problem);
  TORCH_CHECK(false, op, "/aot_inductor: ", request.description(), " failed: ", sentence);
}

}  // namespace

struct AotFunction::Loaded {
  c10::Device device;
  PackageRequest request;
  std::vector<int64_t> sizes;  // values of the widths; empty if any width fits
  const PackagedFunction* function;
  const PackageLibrary* library;
  void* model = nullptr;
  std::mutex mutex;  // held during calls on GPUs, because a model loads its GPU kernels in its first call
  bool was_called = false;

  template <class... Parts>
  void require(bool condition, size_t argument, const Parts&... parts) const {
    if (condition) return;
    TORCH_CHECK(false, request.op, "/aot_inductor: ", request.description(), ", argument ", argument, " is ", parts...);
  }

  // Checks what the library itself does not. A letter stands for the same size in all arguments, and the letters of the
  // widths have fixed sizes.
  void check(const std::vector<Tensor>& inputs, const std::vector<AotWidth>& widths) const {
    TORCH_INTERNAL_ASSERT(inputs.size() == function->arguments.size(), request.description(), " takes ",
                          function->arguments.size(), " arguments, got ", inputs.size());
    std::array<int64_t, 128> bound;
    bound.fill(-1);
    for (const auto& [letter, size] : widths) bound[static_cast<size_t>(letter)] = size;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const Tensor& input = inputs[i];
      const PackagedArgument& argument = function->arguments[i];
      require(input.scalar_type() == argument.dtype, i, input.scalar_type(), ", expected ", argument.dtype);
      const c10::Device expected = argument.on_host ? c10::Device(c10::kCPU) : device;
      require(input.device() == expected, i, "on ", input.device(), ", expected on ", expected);
      require(input.numel() <= function->limit, i, input.sizes(), ", expected at most ", function->limit, " elements");
      require(input.dim() == static_cast<int64_t>(argument.dimensions.size()), i, input.sizes(), ", expected ",
              argument.dimensions.size(), " dimensions");
      for (int64_t d = 0; d < input.dim(); ++d) {
        const std::string& name = argument.dimensions[d];
        const bool is_number = name[0] >= '0' && name[0] <= '9';
        int64_t number = is_number ? std::stoll(name) : 0;
        int64_t& size = is_number ? number : bound[static_cast<size_t>(name[0]) % bound.size()];
        if (size < 0) size = input.size(d);
        require(input.size(d) == size, i, input.sizes(), ", expected ", size, " in dimension ", d);
      }
    }
  }
};

AotFunction::Loaded& AotFunction::loaded(at::ScalarType dtype, const std::vector<AotWidth>& widths, bool any,
                                         c10::Device device) const {
  const std::lock_guard lock(mutex_);
  std::vector<int64_t> sizes;
  if (!any) {
    for (const AotWidth& width : widths) sizes.push_back(width.size);
  }
  for (const auto& known : all_) {
    if (known->device == device && known->request.dtype == dtype && known->sizes == sizes) return *known;
  }
  auto& catalog = PackageCatalog::instance();
  // The formula is hashed as it is on disk. The embedded constant has one line break in front of it.
  const std::string_view formula = formula_.substr(formula_.starts_with('\n') ? 1 : 0);
  const PackageRequest request{op_, function_, formula, dtype, widths_text(widths, any), architecture_of(device)};
  TORCH_CHECK(!device.is_cpu() || __builtin_cpu_supports("avx2"), op_,
              "/aot_inductor: packages for CPUs need AVX2, which this machine has not");
  const PackagedFunction& function = catalog.find(request);
  const PackageLibrary& library = catalog.load(function, request);
  auto entry = std::make_shared<Loaded>(device, request, sizes, &function, &library);
  release(library.create(function.number, device.str().c_str(), &entry->model), op_, request);
  all_.push_back(entry);
  return *all_.back();
}

std::vector<Tensor> AotFunction::operator()(at::ScalarType dtype, const std::vector<AotWidth>& widths,
                                            std::vector<Tensor> inputs) const {
  const c10::Device device = inputs.at(0).device();
  const bool any = takes_any_width(rule_, dtype, widths, inputs, device);
  const at::NoGradGuard no_grad;
  const c10::DeviceGuard guard(device);
  Loaded& loaded = this->loaded(dtype, widths, any, device);
  for (Tensor& input : inputs) input = prepared(input);
  loaded.check(inputs, widths);
  void* stream = device.is_cuda() ? c10::cuda::getCurrentCUDAStream(device.index()).stream() : nullptr;
  std::vector<AtenTensorHandle> handles = torch::aot_inductor::unsafe_alloc_new_handles_from_tensors(inputs);
  std::vector<AtenTensorHandle> results(loaded.function->results);
  std::unique_lock lock(loaded.mutex, std::defer_lock);
  std::optional<c10::cuda::CUDAStreamCaptureModeGuard> mode;
  if (device.is_cuda()) {
    lock.lock();
    if (!loaded.was_called) mode.emplace(cudaStreamCaptureModeRelaxed);  // a CUDA graph capture forbids loading kernels
    loaded.was_called = true;
  }
  release(loaded.library->run(loaded.function->number, loaded.model, handles.data(), results.data(), stream), op_,
          loaded.request);
  return torch::aot_inductor::alloc_tensors_by_stealing_from_handles(results.data(), results.size());
}

Tensor host_number(double value) { return at::scalar_tensor(value, at::kFloat); }
Tensor host_number(int64_t value) { return at::scalar_tensor(value, at::kLong); }

Tensor as_rows(const Tensor& x) { return x.dim() == 1 ? x.unsqueeze(0) : x.contiguous().flatten(0, -2); }

Tensor as_lanes(const Tensor& x) {
  const bool whole = x.numel() % kLanes == 0;
  return x.contiguous().view({whole ? x.numel() / kLanes : 1, whole ? kLanes : x.numel()});
}

Tensor accumulate_wide(const Tensor& gradient, const Tensor& weight, const GradientDestination& where) {
  return accumulate(where.into.defined() ? gradient : gradient.to(weight.scalar_type()), where);
}

}  // namespace strata::kernels

// SPDX-License-Identifier: MIT
#include "kernels/runtime/triton_runtime.h"

#include <ATen/cuda/CUDAContextLight.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <c10/util/Exception.h>
#include <cuda.h>
#include <cuda_runtime_api.h>

#include <limits>
#include <sstream>

#include "kernels/runtime/gpus.h"

namespace strata::kernels {
namespace {

constexpr int kSharedWithoutAsking = 48 * 1024;  // bytes; a kernel that uses more needs an attribute
constexpr unsigned kDriverVersion = 12000;       // the first version with context-independent loading

// Driver functions that are looked up at run time. The program does not link libcuda, so it starts without a driver.
struct Driver {
  template <class Function>
  static Function* entry(const char* name) {
    void* address = nullptr;
    cudaDriverEntryPointQueryResult found;
    const cudaError_t status =
        cudaGetDriverEntryPointByVersion(name, &address, kDriverVersion, cudaEnableDefault, &found);
    TORCH_CHECK(status == cudaSuccess && address != nullptr,
                "level triton needs an NVIDIA driver of CUDA 12 or newer, ", "and there is no ", name,
                " on this machine; choose level aten or torchscript");
    return reinterpret_cast<Function*>(address);
  }
  static const Driver& get() {
    static const Driver driver;
    return driver;
  }

  decltype(&cuLibraryLoadData) load = entry<decltype(cuLibraryLoadData)>("cuLibraryLoadData");
  decltype(&cuLibraryGetKernel) kernel = entry<decltype(cuLibraryGetKernel)>("cuLibraryGetKernel");
  decltype(&cuKernelGetFunction) function = entry<decltype(cuKernelGetFunction)>("cuKernelGetFunction");
  decltype(&cuKernelSetAttribute) attribute = entry<decltype(cuKernelSetAttribute)>("cuKernelSetAttribute");
  decltype(&cuCtxGetCurrent) context = entry<decltype(cuCtxGetCurrent)>("cuCtxGetCurrent");
  decltype(&cuLaunchKernel) launch = entry<decltype(cuLaunchKernel)>("cuLaunchKernel");
  decltype(&cuGetErrorString) error = entry<decltype(cuGetErrorString)>("cuGetErrorString");
};

void check(CUresult status, const TritonCall& call, const char* what) {
  if (status == CUDA_SUCCESS) return;
  const char* reason = nullptr;
  Driver::get().error(status, &reason);
  TORCH_CHECK(false, call.text(), " failed: ", what, ": ", reason == nullptr ? "unknown error" : reason);
}

// Relaxes the capture mode of this thread. During a CUDA graph capture a thread may not make calls that could wait for
// the GPU, and loading code counts as one although it does not wait.
class RelaxedCapture {
 public:
  RelaxedCapture() { C10_CUDA_CHECK(cudaThreadExchangeStreamCaptureMode(&mode_)); }
  ~RelaxedCapture() { cudaThreadExchangeStreamCaptureMode(&mode_); }

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

}  // namespace

bool TritonCall::has_types(const TritonVariant& variant) const {
  size_t i = 0;
  for (const at::Tensor* tensor : tensors_) {
    if (tensor->defined() && tensor->scalar_type() != variant.types[i]) return false;
    ++i;
  }
  return true;
}

bool TritonCall::are_aligned(std::initializer_list<const at::Tensor*> tensors) {
  for (const at::Tensor* tensor : tensors) {
    if (reinterpret_cast<uintptr_t>(triton_pointer(*tensor)) % 16 != 0) return false;
  }
  return true;
}

int32_t TritonCall::narrow(const char* name, int64_t value) const {
  TORCH_CHECK(value >= 0 && value <= std::numeric_limits<int32_t>::max(), text(), ": ", name, " is ", value,
              ", expected less than 2^31");
  return static_cast<int32_t>(value);
}

c10::Device TritonCall::device() const {
  for (const at::Tensor* tensor : tensors_) {
    if (tensor->defined()) return tensor->device();
  }
  return c10::kCPU;
}

std::string TritonCall::text() const {
  std::ostringstream text;
  text << kernel_ << "(";
  const char* separator = "";
  for (const at::Tensor* tensor : tensors_) {
    text << separator;
    separator = ", ";
    if (tensor->defined()) {
      text << tensor->scalar_type() << " " << tensor->sizes();
    } else {
      text << "none";
    }
  }
  for (const Number& number : numbers_) text << ", " << number.name << " = " << number.value;
  text << ")";
  return text.str();
}

void TritonCall::refuse() const {
  TORCH_CHECK_VALUE(false, text(), ": level triton was compiled for Float, BFloat16 and Half and for some sizes, ",
                    "expected one of these; choose level aten or torchscript");
}

void TritonCall::refuse_number(const char* name, int64_t value, const char* expected) const {
  TORCH_CHECK_VALUE(false, text(), ": ", name, " is ", value, ", for which this kernel of level triton has no branch, ",
                    "expected ", expected, "; choose level aten or torchscript");
}

TritonImage& TritonVariant::image_for(const TritonCall& call) {
  if (!call.device().is_cuda()) return cubin;  // launches nothing
  const cudaDeviceProp& gpu = *at::cuda::getDeviceProperties(call.device().index());
  const int capability = chosen_capability(10 * gpu.major + gpu.minor);
  if (kHopper.has(capability)) return cubin;
  const std::string problem = why_not_on_gpu(portable.image().empty() ? kHopper : kPortable, {gpu.name, capability});
  TORCH_CHECK(problem.empty(), call.text(), ": level triton ", problem, "; choose level aten or torchscript");
  return portable;
}

void TritonImage::load(const TritonCall& call, int device) {
  const Driver& driver = Driver::get();
  const std::lock_guard lock(mutex_);
  const RelaxedCapture relaxed;
  if (kernel_ == nullptr) {
    CUlibrary library;
    check(driver.load(&library, image_, nullptr, nullptr, 0, nullptr, nullptr, 0), call, "cuLibraryLoadData");
    CUkernel kernel;
    check(driver.kernel(&kernel, library, function_), call, "cuLibraryGetKernel");
    kernel_ = kernel;
  }
  const auto kernel = static_cast<CUkernel>(kernel_);
  CUfunction function;
  check(driver.function(&function, kernel), call, "cuKernelGetFunction");  // loads the kernel into the device now
  if (shared_ > kSharedWithoutAsking) {
    check(driver.attribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, shared_, kernel, device), call,
          "cuKernelSetAttribute");
  }
  devices_.fetch_or(uint64_t{1} << device, std::memory_order_release);
}

void TritonImage::launch(const TritonCall& call, std::array<int64_t, 3> grid, const void** arguments) {
  if (grid[0] == 0 || grid[1] == 0 || grid[2] == 0) return;  // an empty grid is an error in CUDA
  // The op is traced. Its variant was chosen as on a GPU.
  if (call.device().is_meta()) return;
  const Driver& driver = Driver::get();
  TORCH_CHECK(call.device().is_cuda(), call.text(), ": tensors are on ", call.device(), ", expected a GPU");
  const c10::cuda::CUDAGuard guard(call.device());
  const int device = guard.current_device().index();
  CUcontext context = nullptr;
  check(driver.context(&context), call, "cuCtxGetCurrent");
  // A thread of autograd may not have a context on this device yet.
  if (context == nullptr) C10_CUDA_CHECK(cudaSetDevice(device));
  if ((devices_.load(std::memory_order_acquire) >> device & 1) == 0) load(call, device);
  // The driver accepts a CUkernel in place of the CUfunction of the current context.
  check(driver.launch(reinterpret_cast<CUfunction>(kernel_), static_cast<unsigned>(grid[0]),
                      static_cast<unsigned>(grid[1]), static_cast<unsigned>(grid[2]), 32 * warps_, 1, 1, shared_,
                      c10::cuda::getCurrentCUDAStream(), const_cast<void**>(arguments), nullptr),
        call, "cuLaunchKernel");
}

}  // namespace strata::kernels

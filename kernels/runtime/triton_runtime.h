// SPDX-License-Identifier: MIT
// TritonImage: GPU code that Triton compiled when Strata was built. It is embedded in this binary, and is loaded and
// launched through the CUDA driver. tools/triton_compile.py writes one launcher for each kernel of a `_triton.py` file.
// A variant of a kernel has a cubin for Hopper, and PTX that the driver compiles for other GPUs at the first launch.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <initializer_list>
#include <mutex>
#include <span>
#include <string>
#include <string_view>

namespace strata::kernels {

struct TritonVariant;

// One launch as it is described in errors: the kernel, its tensors and its numbers. Refers to the arguments of the
// launch and must not outlive it.
class TritonCall {
 public:
  struct Number {
    const char* name;
    int64_t value;
  };
  TritonCall(const char* kernel, std::span<const at::Tensor* const> tensors, std::span<const Number> numbers)
      : kernel_(kernel), tensors_(tensors), numbers_(numbers) {}

  // Undefined tensors are passed as null pointers and match any type.
  bool has_types(const TritonVariant& variant) const;
  static bool are_aligned(std::initializer_list<const at::Tensor*> tensors);
  // Converts a number to the int32 that the kernel takes. Throws a ValueError if it is negative or does not fit.
  int32_t narrow(const char* name, int64_t value) const;
  c10::Device device() const;
  std::string text() const;  // "rms_norm_forward_triton(Float [2, 8], ..., rows = 2, width = 8)"
  [[noreturn]] void refuse() const;
  // Refuses a number for which the kernel has no branch. `expected` lists the numbers that have a branch.
  [[noreturn]] void refuse_number(const char* name, int64_t value, const char* expected) const;

 private:
  const char* kernel_;
  std::span<const at::Tensor* const> tensors_;
  std::span<const Number> numbers_;
};

// Loaded once per process and device, at the first launch. This may happen during a CUDA graph capture: loading does
// not wait for captured work and is not recorded into the graph.
class TritonImage {
 public:
  constexpr TritonImage() = default;  // no code
  // A compressed fat binary of one cubin, or of one PTX. `shared` is the number of bytes of dynamic shared memory per
  // block.
  constexpr TritonImage(const char* image, size_t bytes, const char* function, int warps, int shared)
      : image_(image), bytes_(bytes), function_(function), warps_(warps), shared_(shared) {}

  std::string_view image() const { return {image_, bytes_}; }
  int shared() const { return shared_; }

  // Launches on the current stream of the call's device. Does nothing if the grid is empty.
  void launch(const TritonCall& call, std::array<int64_t, 3> grid, const void** arguments);

 private:
  void load(const TritonCall& call, int device);

  const char* image_ = nullptr;
  size_t bytes_ = 0;
  const char* function_ = nullptr;
  int warps_ = 0, shared_ = 0;
  std::mutex mutex_;
  void* kernel_ = nullptr;             // a CUkernel, which is independent of contexts
  std::atomic<uint64_t> devices_ = 0;  // one bit for each device on which the kernel is loaded
};

// Code with the types, alignment and constants for which it was compiled.
struct TritonVariant {
  std::array<at::ScalarType, 16> types;  // types of the pointer arguments, in order
  bool aligned;                          // true: pointers and sizes are multiples of 16
  std::array<int64_t, 9> constants;
  TritonImage cubin;     // for kHopper
  TritonImage portable;  // PTX for kPortable; none if the kernel is for Hopper alone

  // Returns the image for the GPU of the call. Throws a c10::Error if there is none.
  TritonImage& image_for(const TritonCall& call);
};

// All variants of one kernel, in the order in which the launcher tries them. The first one that fits is launched.
struct TritonKernel {
  const char* name;
  std::span<const TritonVariant> variants;
};

inline const void* triton_pointer(const at::Tensor& tensor) { return tensor.defined() ? tensor.data_ptr() : nullptr; }

// The functions that expressions for grids may call; they mean the same in C++ and in Python.
namespace triton {
constexpr int64_t ceil_div(int64_t value, int64_t divisor) { return (value + divisor - 1) / divisor; }
constexpr int64_t min(int64_t a, int64_t b) { return a < b ? a : b; }
constexpr int64_t max(int64_t a, int64_t b) { return a < b ? b : a; }
}  // namespace triton

}  // namespace strata::kernels

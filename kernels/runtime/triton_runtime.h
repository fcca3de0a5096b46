// SPDX-License-Identifier: MIT
// TritonCubin: GPU code that Triton compiled when Strata was built; in this binary, loaded and launched through the
// CUDA driver. tools/triton_compile.py writes one launcher for each kernel of a `_triton.py` file.
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

// One launch as errors name it: the kernel, its tensors and its numbers. Lives while the launch is made.
class TritonCall {
 public:
  struct Number {
    const char* name;
    int64_t value;
  };
  TritonCall(const char* kernel, std::span<const at::Tensor* const> tensors, std::span<const Number> numbers)
      : kernel_(kernel), tensors_(tensors), numbers_(numbers) {}

  // Undefined tensors are null pointers of any type.
  bool has_types(const TritonVariant& variant) const;
  static bool are_aligned(std::initializer_list<const at::Tensor*> tensors);
  // A number that the kernel takes as 32 bits.
  int32_t narrow(const char* name, int64_t value) const;
  c10::Device device() const;
  std::string text() const;  // "rms_norm_forward_triton(Float [2, 8], ..., rows = 2, width = 8)"
  [[noreturn]] void refuse() const;

 private:
  const char* kernel_;
  std::span<const at::Tensor* const> tensors_;
  std::span<const Number> numbers_;
};

// Loaded once per process, when it is first launched. In a graph capture too: loading waits for nothing that the
// capture records and is no part of the graph.
class TritonCubin {
 public:
  // `shared`: bytes of dynamic shared memory of a block.
  constexpr TritonCubin(const char* image, size_t bytes, const char* function, int warps, int shared)
      : image_(image), bytes_(bytes), function_(function), warps_(warps), shared_(shared) {}

  std::string_view image() const { return {image_, bytes_}; }

  // On the current stream of the call's device; nothing when the grid is empty.
  void launch(const TritonCall& call, std::array<int64_t, 3> grid, const void** arguments);

 private:
  void load(const TritonCall& call, int device);

  const char* image_;
  size_t bytes_;
  const char* function_;
  int warps_, shared_;
  std::mutex mutex_;
  void* kernel_ = nullptr;             // a CUkernel, which belongs to no context
  std::atomic<uint64_t> devices_ = 0;  // one bit for each device on which it can be launched
};

// A cubin and what it was compiled for.
struct TritonVariant {
  std::array<at::ScalarType, 12> types;  // of the pointers, in order
  bool aligned;                          // pointers and sizes are multiples of 16
  std::array<int64_t, 6> constants;
  TritonCubin cubin;
};

// All variants of one kernel, in the order in which the launcher tries them.
struct TritonKernel {
  const char* name;
  std::span<const TritonVariant> variants;
};

inline const void* triton_pointer(const at::Tensor& tensor) { return tensor.defined() ? tensor.data_ptr() : nullptr; }

// What grids are written in, the same in C++ and in Python.
namespace triton {
constexpr int64_t ceil_div(int64_t value, int64_t divisor) { return (value + divisor - 1) / divisor; }
constexpr int64_t min(int64_t a, int64_t b) { return a < b ? a : b; }
constexpr int64_t max(int64_t a, int64_t b) { return a < b ? b : a; }
}  // namespace triton

}  // namespace strata::kernels

// SPDX-License-Identifier: MIT
#include "kernels/runtime/triton_runtime.h"

#include <ATen/Context.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <iterator>
#include <string_view>
#include <tuple>

#include "kernels/activation/activation.h"
#include "kernels/cuda/partial_sums_triton_kernels.h"
#include "kernels/layer_norm/layer_norm.h"
#include "kernels/rms_norm/rms_norm.h"
#include "kernels/rms_norm_rotary/rms_norm_rotary.h"
#include "kernels/rotary/rotary.h"
#include "kernels/swiglu/swiglu.h"
#include "tests/kernels/every_triton_kernel.h"

namespace strata::kernels {
namespace {

// The heads of a fat binary and of an image in it. They are those of the objects of nvcc, which tools/bazel/gpu_code.py
// reads too.
struct FatBinaryHead {
  uint32_t magic;
  uint16_t version, head_bytes;
  uint64_t bytes;  // bytes of all images
};
struct ImageHead {
  uint16_t kind, version;
  uint32_t head_bytes;
  uint64_t bytes;
  uint32_t unused[3], capability;
  uint64_t name, flags;
};
constexpr uint32_t kMagic = 0xBA55ED50;
constexpr uint16_t kPtx = 1, kCubin = 2;
constexpr uint64_t kOfOneArchitecture = 1 << 20, kCompressed = 1 << 15;  // flags

// Returns the kind, the compute capability and whether it is of one architecture alone. Fails if there is not one whole
// image.
std::tuple<uint16_t, uint32_t, bool> kind_of(std::string_view image) {
  FatBinaryHead whole = {};
  ImageHead only = {};
  if (image.size() > sizeof(whole) + sizeof(only)) {
    std::memcpy(&whole, image.data(), sizeof(whole));
    std::memcpy(&only, image.data() + sizeof(whole), sizeof(only));
  }
  EXPECT_EQ(whole.magic, kMagic);
  EXPECT_EQ(whole.head_bytes, sizeof(whole));
  EXPECT_EQ(sizeof(whole) + whole.bytes, image.size()) << "it was cut";
  EXPECT_EQ(only.head_bytes + only.bytes, whole.bytes) << "expected one image";
  EXPECT_TRUE(only.flags & kCompressed);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(image.data()) % 16, 0u);
  return {only.kind, only.capability, (only.flags & kOfOneArchitecture) != 0};
}

TEST(TritonRuntime, EveryVariantHasACubinForHopper) {
  EXPECT_GT(std::size(kEveryKernel), 10u) << "the kernels were not found";
  for (const TritonKernel* kernel : kEveryKernel) {
    SCOPED_TRACE(kernel->name);
    EXPECT_FALSE(kernel->variants.empty());
    for (const TritonVariant& variant : kernel->variants) {
      EXPECT_EQ(kind_of(variant.cubin.image()), std::tuple(kCubin, 90u, true));
    }
  }
}

// A block of a GPU of compute capability 8.6, 8.9 or 12.0 has no more dynamic shared memory.
TEST(TritonRuntime, EveryVariantButThoseOfAttentionHasPtxThatFitsOtherGpus) {
  for (const TritonKernel* kernel : kEveryKernel) {
    SCOPED_TRACE(kernel->name);
    const bool of_attention = std::string_view(kernel->name).starts_with("attention_");
    for (const TritonVariant& variant : kernel->variants) {
      ASSERT_EQ(variant.portable.image().empty(), of_attention);
      if (of_attention) continue;
      EXPECT_EQ(kind_of(variant.portable.image()), std::tuple(kPtx, 80u, false));
      EXPECT_LE(variant.portable.shared(), 99 << 10);
    }
  }
}

std::string what_is_thrown(const std::function<void()>& call) {
  try {
    call();
  } catch (const std::exception& error) {
    const std::string text = error.what();
    return text.substr(0, text.find('\n'));
  }
  return "nothing";
}

void sum(const at::Tensor& partials, const at::Tensor& into) {
  launch_sum_partials_triton(partials, into, partials.size(0), partials.size(1), /*add=*/0);
}

// Without a GPU the driver is missing; with one the tensors are on the wrong device.
TEST(TritonRuntime, CpuTensorsAreRefused) {
  const at::Tensor partials = at::full({2, 8}, 1.0f), into = at::full({8}, 7.0f);
  const std::string message = what_is_thrown([&] { sum(partials, into); });
  const std::string expected = at::hasCUDA() ? "expected a GPU" : "needs an NVIDIA driver of CUDA 12 or newer";
  EXPECT_NE(message.find(expected), std::string::npos) << message;
  EXPECT_EQ(into.sum().item<float>(), 56.0f);
}

TEST(TritonRuntime, TypesWithoutACubinAreRefused) {
  const at::Tensor partials = at::full({2, 8}, 1.0f);
  const std::string message = what_is_thrown([&] { sum(partials, at::empty({8}, at::kDouble)); });
  EXPECT_NE(message.find("sum_partials_triton(Float [2, 8], Double [8], count = 2, width = 8, add = 0)"),
            std::string::npos)
      << message;
}

// activation is called with a kind that no level knows, and swiglu with one that is no gate.
TEST(TritonRuntime, KindsOfActivationsWithoutABranchAreRefused) {
  const at::Tensor x = at::full({2, 8}, 1.0f), gate_up = at::full({2, 16}, 1.0f);
  const auto made_up = static_cast<Activation>(99);
  EXPECT_EQ(name(made_up), "unknown");
  EXPECT_EQ(what_is_thrown([&] { activation_forward_triton(x, made_up); }),
            "activation_forward_triton(Float [2, 8], Float [2, 8], count = 16, kind = -1): kind is -1, for which this "
            "kernel of level triton has no branch, expected gelu (1), gelu_tanh (2), relu (3), silu (4); choose level "
            "aten or torchscript");
  const std::string of_gate = what_is_thrown([&] { swiglu_forward_triton(gate_up, Activation::relu); });
  EXPECT_NE(of_gate.find("kind is 3, for which this kernel of level triton has no branch, expected silu (4), "
                         "gelu_tanh (2)"),
            std::string::npos)
      << of_gate;
}

TEST(TritonRuntime, NumbersOf32BitsAreChecked) {
  const at::Tensor partials = at::full({2, 8}, 1.0f), into = at::empty({8});
  const std::string message =
      what_is_thrown([&] { launch_sum_partials_triton(partials, into, int64_t{1} << 31, 8, 0); });
  EXPECT_NE(message.find("count is 2147483648, expected less than 2^31"), std::string::npos) << message;
}

TEST(TritonRuntime, AnEmptyGridLaunchesNothing) {
  launch_sum_partials_triton(at::empty({2, 0}), at::empty({0}), 2, 0, 0);
}

// A kernel reports unsupported arguments before any launch, so this test needs no GPU.
TEST(TritonRuntime, WidthsThatAKernelDoesNotHaveAreRefused) {
  const at::Tensor x = at::full({1, 16385}, 1.0f), weight = x[0];
  const at::Tensor angle = at::full({1, 129}, 0.0f), qkv = at::full({1, 1, 3 * 258}, 1.0f);
  const std::vector<std::pair<std::function<void()>, std::string>> refusals = {
      {[&] { RmsNormOp::kKernels.triton.forward(x, {}, weight, 1e-5); },
       "rms_norm/triton: x is [1, 16385], expected a last dimension of at most 16384"},
      {[&] { AddRmsNormOp::kKernels.triton.forward(x, x, weight, 1e-5); },
       "add_rms_norm/triton: x is [1, 16385], expected a last dimension of at most 16384"},
      {[&] { LayerNormOp::kKernels.triton.forward(x, {}, weight, {}, 1e-5); },
       "layer_norm/triton: x is [1, 16385], expected a last dimension of at most 16384"},
      {[&] { AddLayerNormOp::kKernels.triton.forward(x, x, weight, {}, 1e-5); },
       "add_layer_norm/triton: x is [1, 16385], expected a last dimension of at most 16384"},
      {[&] { RotaryOp::kKernels.triton.forward(qkv, angle, angle, 1, 1); },
       "rotary/triton: heads are 258 wide, expected at most 256"},
      {[&] {
         RmsNormRotaryOp::kKernels.triton.forward({qkv, {weight, weight}, angle, angle, 1, 1, 1e-5});
       },
       "rms_norm_rotary/triton: heads are 258 wide, expected at most 256"},
  };
  for (const auto& [call, sentence] : refusals) EXPECT_EQ(what_is_thrown(call), sentence);
}

}  // namespace
}  // namespace strata::kernels

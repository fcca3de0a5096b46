// SPDX-License-Identifier: MIT
// Level aot_inductor in CUDA graphs, on a GPU, including a package that is loaded during the capture.
#include <ATen/Context.h>
#include <ATen/cuda/CUDAGraph.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/zeros.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <gtest/gtest.h>

#include "kernels/activation/activation.h"
#include "kernels/linear/linear.h"
#include "kernels/rms_norm/rms_norm.h"

namespace strata::kernels {
namespace {

constexpr Level kLevel = Level::aot_inductor;
const at::TensorOptions kOnGpu = at::TensorOptions(at::kCUDA).dtype(at::kFloat);

class AotInductorCapture : public testing::Test {
 protected:
  void SetUp() override {
    if (!at::hasCUDA()) GTEST_SKIP() << "not run: there is no GPU";
  }
};

TEST_F(AotInductorCapture, TheFirstCallMayBeCaptured) {
  const Tensor x = at::rand({64, 256}, kOnGpu);
  at::cuda::CUDAGraph graph;
  const c10::cuda::CUDAStreamGuard stream(c10::cuda::getStreamFromPool());
  graph.capture_begin();
  const Tensor y = activation(x, Activation::silu, kLevel);
  graph.capture_end();
  graph.replay();
  EXPECT_TRUE(at::equal(y, activation(x, Activation::silu, kLevel)));
}

// Runs forward and backward: the product of the library stands between generated kernels.
TEST_F(AotInductorCapture, AReplayReadsWhatIsThereThen) {
  const Tensor x = at::zeros({40, 1000}, kOnGpu), norm = at::rand({1000}, kOnGpu);
  const Tensor weight = at::rand({72, 1000}, kOnGpu), bias = at::rand({72}, kOnGpu);
  const auto step = [&] {
    const auto [normed, sum, rstd] = RmsNormOp::kKernels.aot_inductor.forward(x, /*branch=*/{}, norm, 1e-5);
    const auto [y, pre] = LinearOp::kKernels.aot_inductor.forward(normed, weight, bias, Activation::gelu_tanh);
    const auto products = LinearOp::kKernels.aot_inductor.backward(y, normed, weight, /*has_bias=*/true, pre,
                                                                   Activation::gelu_tanh, {true, {}, {}});
    const auto gradient = RmsNormOp::kKernels.aot_inductor.backward(products.x, /*grad_sum=*/{}, x, norm, rstd, {});
    return std::vector<Tensor>{y, products.weight, products.bias, gradient.x, gradient.weight};
  };
  const c10::cuda::CUDAStreamGuard stream(c10::cuda::getStreamFromPool());
  step();  // cuBLAS allocates its workspace outside of a capture
  at::cuda::CUDAGraph graph;
  graph.capture_begin();
  const std::vector<Tensor> in_graph = step();
  graph.capture_end();
  x.copy_(at::rand({40, 1000}, kOnGpu));
  graph.replay();
  const std::vector<Tensor> eager = step();
  for (size_t i = 0; i < eager.size(); ++i) EXPECT_TRUE(at::equal(in_graph[i], eager[i])) << "result " << i;
}

}  // namespace
}  // namespace strata::kernels

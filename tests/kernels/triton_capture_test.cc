// SPDX-License-Identifier: MIT
// Level triton in CUDA graphs, on a GPU, including a kernel whose first launch is in the capture.
#include <ATen/Context.h>
#include <ATen/cuda/CUDAGraph.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/zeros.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <gtest/gtest.h>

#include <thread>

#include "kernels/activation/activation.h"
#include "kernels/rms_norm/rms_norm.h"

namespace strata::kernels {
namespace {

const at::TensorOptions kOnGpu = at::TensorOptions(at::kCUDA).dtype(at::kFloat);

class TritonCapture : public testing::Test {
 protected:
  void SetUp() override {
    if (!at::hasCUDA()) GTEST_SKIP() << "not run: there is no GPU";
  }
};

// Captures `call` on a separate stream and replays it once.
Tensor replayed(const std::function<Tensor()>& call) {
  at::cuda::CUDAGraph graph;
  Tensor result;
  {
    const c10::cuda::CUDAStreamGuard stream(c10::cuda::getStreamFromPool());
    graph.capture_begin();
    result = call();
    graph.capture_end();
    graph.replay();
    c10::cuda::getCurrentCUDAStream().synchronize();
  }
  return result.clone();
}

TEST_F(TritonCapture, TheFirstLaunchMayBeCaptured) {
  const Tensor x = at::rand({64, 256}, kOnGpu);
  const Tensor in_graph = replayed([&] { return activation(x, Activation::silu, Level::triton); });
  EXPECT_TRUE(at::equal(in_graph, activation(x, Activation::silu, Level::triton)));
}

TEST_F(TritonCapture, AReplayReadsWhatIsThereThen) {
  const Tensor x = at::zeros({8, 128}, kOnGpu), weight = at::rand({128}, kOnGpu);
  at::cuda::CUDAGraph graph;
  const c10::cuda::CUDAStreamGuard stream(c10::cuda::getStreamFromPool());
  graph.capture_begin();
  const Tensor y = rms_norm(x, weight, 1e-5, Level::triton);
  graph.capture_end();
  x.copy_(at::rand({8, 128}, kOnGpu));
  graph.replay();
  EXPECT_TRUE(at::equal(y, rms_norm(x, weight, 1e-5, Level::triton)));
}

// A thread that has not used the GPU has no current context.
TEST_F(TritonCapture, AnyThreadMayLaunch) {
  const Tensor x = at::rand({64, 256}, kOnGpu);
  Tensor there;
  std::thread([&] { there = activation(x, Activation::relu, Level::triton); }).join();
  EXPECT_TRUE(at::equal(there, activation(x, Activation::relu, Level::triton)));
}

}  // namespace
}  // namespace strata::kernels

// SPDX-License-Identifier: MIT
// Level triton in CUDA graphs, on a GPU, including a kernel whose first launch is in the capture.
#include <ATen/Context.h>
#include <ATen/cuda/CUDAGraph.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "kernels/activation/activation.h"
#include "kernels/attention/attention.h"
#include "kernels/attention/pattern/parse_pattern.h"
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

// The lists of tiles are made from the documents of the replay.
TEST_F(TritonCapture, AReplayHasItsOwnDocuments) {
  const Tensor qkv = at::rand({2, 300, 4 * 64}, kOnGpu.dtype(at::kBFloat16));
  const auto on_gpu = [](const std::vector<int32_t>& numbers) { return at::tensor(numbers, at::kInt).to(at::kCUDA); };
  for (const char* text : {"causal & documents", "causal & documents | global(5)"}) {
    const AttentionMask mask = {parse_pattern(text), on_gpu({0, 300, 310, 590, 600})};
    const auto call = [&] { return attention(qkv, 2, 1, mask, {}, Level::triton); };
    const Tensor first = call();
    c10::cuda::device_synchronize();  // the stream of the capture does not wait for this one
    at::cuda::CUDAGraph graph;
    const c10::cuda::CUDAStreamGuard stream(c10::cuda::getStreamFromPool());
    graph.capture_begin();
    const Tensor y = call();
    graph.capture_end();
    mask.document_offsets.copy_(on_gpu({0, 5, 170, 300, 600}));
    graph.replay();
    EXPECT_TRUE(at::equal(y, call())) << text;
    EXPECT_FALSE(at::equal(y, first)) << text;
  }
}

TEST_F(TritonCapture, ListsOfTilesMustBeThereBefore) {
  const Tensor qkv = at::rand({1, 77, 4 * 64}, kOnGpu);
  const AttentionMask mask = {parse_pattern("window(19)")};
  std::string refusal = "nothing was refused";
  at::cuda::CUDAGraph graph;
  const c10::cuda::CUDAStreamGuard stream(c10::cuda::getStreamFromPool());
  graph.capture_begin();
  try {
    attention(qkv, 2, 1, mask, {}, Level::triton);
  } catch (const c10::Error& error) {
    refusal = error.what_without_backtrace();
  }
  graph.capture_end();
  EXPECT_NE(refusal.find("run one step of these sizes before the capture"), std::string::npos) << refusal;
  EXPECT_EQ(attention(qkv, 2, 1, mask, {}, Level::triton).sizes(), at::IntArrayRef({1, 77, 2 * 64}));
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

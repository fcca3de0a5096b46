// SPDX-License-Identifier: MIT
// A copy of shards on a GPU and the update that comes after it: the GPU waits for the copy, and the host for neither.
#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/cuda/CUDAGraph.h>
#include <ATen/ops/full.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <functional>
#include <optional>

#include "trainer/checkpoint/snapshot.h"
#include "trainer/checkpoint/update_gate.h"

namespace strata::trainer {
namespace {

// 1 GiB takes 20 ms over PCIe at 55 GB/s, and an update of it less than 1 ms.
constexpr int64_t kElements = int64_t{1} << 28;

double milliseconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
}

bool all_are(const at::Tensor& data, float value) { return data.eq(value).all().item<bool>(); }

class SnapshotOnGpu : public testing::Test {
 protected:
  void SetUp() override {
    if (!at::hasCUDA()) GTEST_SKIP() << "not run: there is no GPU";
    device_ = at::Device(at::kCUDA, c10::cuda::current_device());
    stream_.emplace(c10::cuda::getStreamFromPool(/*isHighPriority=*/false, device_.index()));
    gate_.emplace(device_);
    shard_ = at::full({kElements}, 0.0f, at::TensorOptions(device_));
    update(/*waits=*/false);  // the driver loads the kernel at its first call, and the host waits for that
  }

  // A step of which only the update is left.
  void update(bool waits) {
    if (waits) gate_->wait_until_open();
    shard_.add_(1);
  }

  // Saves after each of some steps and goes on at once. Returns how many copies are of the moment of their save.
  int good_copies(const std::function<void()>& step) {
    constexpr int kSaves = 3;
    Snapshot snapshot;
    const TensorPiece piece = {"a/master", {kElements}, 0, shard_};
    snapshot.reserve({piece});
    shard_.fill_(1);
    int good = 0;
    for (int save = 1; save <= kSaves; ++save) {
      c10::cuda::device_synchronize();
      const auto begin = std::chrono::steady_clock::now();
      snapshot.take({piece});
      gate_->close_until_done(*snapshot.copies());
      step();
      const double on_host = milliseconds_since(begin);
      snapshot.wait();
      const double in_all = milliseconds_since(begin);
      std::printf("the host queued copy and step in %.2f ms, the copy took %.2f ms: %.1f GB/s\n", on_host, in_all,
                  1e-6 * 4 * kElements / in_all);
      EXPECT_LT(on_host, 0.5 * in_all) << "the host waited";
      EXPECT_TRUE(snapshot.pieces()[0].data.is_pinned());
      EXPECT_TRUE(all_are(shard_, static_cast<float>(save + 1)));
      if (all_are(snapshot.pieces()[0].data, static_cast<float>(save))) ++good;
    }
    return good;
  }

  at::Device device_ = at::kCPU;
  std::optional<c10::cuda::CUDAStreamGuard> stream_;
  std::optional<UpdateGate> gate_;
  at::Tensor shard_;
};

TEST_F(SnapshotOnGpu, AnUpdateWaitsForTheCopy) {
  EXPECT_EQ(good_copies([&] { update(/*waits=*/true); }), 3);
}

TEST_F(SnapshotOnGpu, AnUpdateInAReplayedGraphWaitsForTheCopy) {
  at::cuda::CUDAGraph graph;
  graph.capture_begin({0, 0}, cudaStreamCaptureModeRelaxed);
  update(/*waits=*/true);
  graph.capture_end();
  EXPECT_EQ(good_copies([&] { graph.replay(); }), 3);
}

// Otherwise the cases above would not see an update that is too early.
TEST_F(SnapshotOnGpu, AnUpdateThatDoesNotWaitOvertakesTheCopy) {
  EXPECT_LT(good_copies([&] { update(/*waits=*/false); }), 3);
}

}  // namespace
}  // namespace strata::trainer

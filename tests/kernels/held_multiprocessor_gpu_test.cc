// SPDX-License-Identifier: MIT
// Kernels that fill the GPU while another kernel holds some multiprocessors, as a collective does. If each block had a
// fixed share of the work, the blocks without a multiprocessor would begin when the others end, and take as long again.
#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/cuda/CUDAEvent.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/randn.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "kernels/cuda/gelu_gemm.h"
#include "tests/kernels/held_multiprocessors.h"

namespace strata::kernels {
namespace {

using at::Tensor;

constexpr int kRounds = 4, kRuns = 8;

struct Held {
  int multiprocessors;
  float most;  // of the time alone
};
constexpr Held kHeld[] = {{1, 1.3f}, {8, 1.5f}};

// A kernel, what is done before each run and is not timed, and the tensors that it writes.
struct Timed {
  std::string name;
  std::function<void()> prepare, run;
  std::vector<Tensor> results;
};

class HeldMultiprocessor : public testing::Test {
 protected:
  void SetUp() override {
    if (!at::hasCUDA()) GTEST_SKIP() << "not run: there is no GPU";
  }

  static Tensor random(at::IntArrayRef sizes) {
    return at::randn(sizes, at::TensorOptions(at::kCUDA).dtype(at::kBFloat16));
  }

  // Returns the shortest of some runs in milliseconds.
  static float milliseconds_of(const Timed& timed) {
    float best = std::numeric_limits<float>::infinity();
    for (int i = 0; i < kRuns; ++i) {
      timed.prepare();
      at::cuda::CUDAEvent start(cudaEventDefault), end(cudaEventDefault);
      start.record();
      timed.run();
      end.record();
      end.synchronize();
      best = std::min(best, start.elapsed_time(end));
    }
    return best;
  }

  // The clock falls while the GPU works, so the runs alone and the others take turns.
  static void expect_little_delay(const Timed& timed) {
    c10::cuda::getCurrentCUDAStream().synchronize();  // the operands are computed there
    const c10::cuda::CUDAStreamGuard stream(c10::cuda::getStreamFromPool());
    milliseconds_of(timed);  // loads the kernels: later that could wait for sleeping ones
    std::vector<Tensor> alone;
    for (const Tensor& result : timed.results) alone.push_back(result.clone());
    const auto expect_same = [&](int held) {
      for (size_t i = 0; i < alone.size(); ++i) {
        EXPECT_TRUE(at::equal(timed.results[i], alone[i]))
            << timed.name << ": other bits in result " << i << " with " << held << " held multiprocessors";
      }
    };
    expect_same(0);  // no result is equal to itself if it has a NaN, which stands where nothing was written
    float time_alone = std::numeric_limits<float>::infinity(), times[std::size(kHeld)];
    std::fill(std::begin(times), std::end(times), time_alone);
    for (int round = 0; round < kRounds; ++round) {
      time_alone = std::min(time_alone, milliseconds_of(timed));
      for (size_t i = 0; i < std::size(kHeld); ++i) {
        c10::cuda::getCurrentCUDAStream().synchronize();
        {
          const HeldMultiprocessors held(kHeld[i].multiprocessors);
          times[i] = std::min(times[i], milliseconds_of(timed));
          ASSERT_TRUE(held.hold()) << "the sleeping blocks ended before the kernel";
        }
        expect_same(kHeld[i].multiprocessors);
      }
    }
    std::printf("%s: %.3f ms alone", timed.name.c_str(), time_alone);
    for (size_t i = 0; i < std::size(kHeld); ++i) {
      std::printf(", %.3f ms (%.2f times) with %d held", times[i], times[i] / time_alone, kHeld[i].multiprocessors);
    }
    std::printf("\n");
    for (size_t i = 0; i < std::size(kHeld); ++i) {
      EXPECT_LE(times[i], kHeld[i].most * time_alone)
          << timed.name << " with " << kHeld[i].multiprocessors << " held multiprocessors";
    }
  }

  static void expect_little_delay_of_gelu_gemm(int64_t rows, int64_t depth, int64_t columns) {
    const Tensor a = random({rows, depth}), b = random({columns, depth}), bias = random({columns});
    const Tensor out = at::empty({rows, columns}, a.options()), pre_activation = at::empty_like(out);
    const GeluGemm gemm = {.type = CudaType::bfloat16,
                           .a = a.const_data_ptr(),
                           .b = b.const_data_ptr(),
                           .bias = bias.const_data_ptr(),
                           .out = out.mutable_data_ptr(),
                           .pre_activation = pre_activation.mutable_data_ptr(),
                           .rows = rows,
                           .columns = columns,
                           .depth = depth,
                           .a_distance = depth,
                           .b_distance = depth,
                           .out_distance = columns};
    expect_little_delay(
        {.name = "gelu_gemm " + std::to_string(rows) + " x " + std::to_string(depth) + " -> " + std::to_string(columns),
         .prepare =
             [&] {
               out.fill_(NAN);
               pre_activation.fill_(NAN);
             },
         .run = [&] { ASSERT_EQ(launch_gelu_gemm(gemm, c10::cuda::getCurrentCUDAStream()), cudaSuccess); },
         .results = {out, pre_activation}});
  }
};

TEST_F(HeldMultiprocessor, DelaysManyTilesOfGeluGemmLittle) { expect_little_delay_of_gelu_gemm(65536, 768, 3072); }

TEST_F(HeldMultiprocessor, DelaysDeepTilesOfGeluGemmLittle) { expect_little_delay_of_gelu_gemm(8192, 1600, 6400); }

}  // namespace
}  // namespace strata::kernels

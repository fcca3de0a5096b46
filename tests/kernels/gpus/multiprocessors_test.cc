// SPDX-License-Identifier: MIT
// The number of multiprocessors is asked for once for each GPU. The two functions of CUDA that it calls are this
// file's, so no GPU is needed.
#include "kernels/cuda/multiprocessors.h"

#include <gtest/gtest.h>

namespace {

constexpr int kCounts[] = {132, 108, 78};  // multiprocessors of GPU 0, 1 and 2; others fail
int current = 0, asked = 0, forgotten = 0;
bool has_driver = true;

}  // namespace

extern "C" cudaError_t cudaGetDevice(int* device) {
  if (!has_driver) return cudaErrorInsufficientDriver;
  *device = current;
  return cudaSuccess;
}

extern "C" cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  EXPECT_EQ(attribute, cudaDevAttrMultiProcessorCount);
  ++asked;
  if (device > 2) return cudaErrorInvalidDevice;
  *value = kCounts[device];
  return cudaSuccess;
}

extern "C" cudaError_t cudaGetLastError() {
  ++forgotten;
  return cudaSuccess;
}

namespace strata::kernels {
namespace {

// One test, because what is known of a GPU stays known in a process.
TEST(Multiprocessors, AreAskedForOncePerGpu) {
  has_driver = false;
  EXPECT_EQ(multiprocessors(), 132) << "what is predicted without a GPU is for an H100 or H200";
  EXPECT_EQ(forgotten, 1) << "an error that stays would be that of the next launch";
  EXPECT_EQ(asked, 0);
  has_driver = true;
  for (int turn = 0; turn < 3; ++turn) {
    for (current = 0; current < 3; ++current) EXPECT_EQ(multiprocessors(), kCounts[current]);
  }
  EXPECT_EQ(asked, 3);
  for (const int unknown : {3, 1000}) {
    current = unknown;
    EXPECT_EQ(multiprocessors(), 132);
  }
  EXPECT_EQ(forgotten, 3);
  current = 1;
  set_multiprocessors(78);
  EXPECT_EQ(multiprocessors(), 78);
  set_multiprocessors(0);
  EXPECT_EQ(multiprocessors(), 108);
  EXPECT_EQ(asked, 5);
}

}  // namespace
}  // namespace strata::kernels

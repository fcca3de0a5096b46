// SPDX-License-Identifier: MIT
#include "trainer/refused_memory.h"

#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include <stdexcept>

namespace strata::trainer {
namespace {

TEST(RefusedMemory, IsRecognizedByItsTypeAndByItsText) {
  const c10::OutOfMemoryError typed(c10::SourceLocation{__func__, __FILE__, 1}, "NCCL could not allocate 5 bytes");
  EXPECT_EQ(refused_by_gpu(typed), "NCCL could not allocate 5 bytes");
  const std::runtime_error interpreter(
      "The following operation failed in the TorchScript interpreter.\nTraceback of TorchScript:\n  y = x + x\n"
      "RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79 GiB\nframes");
  EXPECT_EQ(refused_by_gpu(interpreter),
            "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79 GiB");
  EXPECT_FALSE(refused_by_host(interpreter));
  const std::runtime_error host("RuntimeError: DefaultCPUAllocator: you tried to allocate 7 bytes. Error code 12\n");
  EXPECT_EQ(refused_by_host(host), "you tried to allocate 7 bytes. Error code 12");
  EXPECT_FALSE(refused_by_gpu(host));
  EXPECT_FALSE(refused_by_gpu(std::runtime_error("shapes differ")));
}

}  // namespace
}  // namespace strata::trainer

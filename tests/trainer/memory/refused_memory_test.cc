// SPDX-License-Identifier: MIT
#include "trainer/memory/refused_memory.h"

#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include <stdexcept>

#include "base/errors.h"
#include "trainer/memory/memory_report.h"

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

// Runs `work` as a step or an evaluation does. Returns the error of the run.
std::string report_of(const std::function<void()>& work) {
  const auto report = [](const DeviceMemory& memory, const std::string& request) {
    return std::to_string(memory.total) + " bytes: " + request;
  };
  try {
    report_refused_memory(c10::kCPU, report, work);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::out_of_memory);
    return error.what();
  }
  return "";
}

TEST(RefusedMemory, EndsTheRunWithTheReport) {
  const std::string text = report_of([] {
    throw c10::OutOfMemoryError(c10::SourceLocation{__func__, __FILE__, 1},
                                "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has 79 GiB");
  });
  EXPECT_EQ(text, "0 bytes: CUDA out of memory. Tried to allocate 2.00 GiB");
}

TEST(RefusedMemory, LeavesOtherErrorsAsTheyAre) {
  EXPECT_EQ(report_of([] {}), "");
  EXPECT_THROW(report_of([] { throw std::out_of_range("7"); }), std::out_of_range);
}

}  // namespace
}  // namespace strata::trainer

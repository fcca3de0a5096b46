// SPDX-License-Identifier: MIT
#include <ATen/Version.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <string>

#include "tests/kernels/test_device.h"

namespace strata::kernels {

c10::DeviceType test_device() { return c10::kCPU; }

// A test for other instruction sets must not run with those of this processor.
TEST(CpuCapability, IsTheOneThatWasAskedFor) {
  const std::string found = at::get_cpu_capability();
  const char* asked = std::getenv("ATEN_CPU_CAPABILITY");
  std::string expected = asked == nullptr ? found : asked;
  std::transform(expected.begin(), expected.end(), expected.begin(), [](unsigned char c) { return std::toupper(c); });
  EXPECT_EQ(found, expected);
}

}  // namespace strata::kernels

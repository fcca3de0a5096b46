// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <cstdlib>

#include "kernels/runtime/product_sums.h"
#include "tests/kernels/test_device.h"

namespace strata::kernels {
namespace {

// Without this variable, LibTorch refuses products in deterministic mode. The trainer sets it too.
[[maybe_unused]] const int kWorkspace = setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*overwrite=*/0);

// Level aten is proved with the settings of the trainer.
class SettingsOfTrainer : public testing::Environment {
  void SetUp() override { accumulate_products_in_fp32(); }
};

// GoogleTest takes ownership.
[[maybe_unused]] const testing::Environment* const kSettings = testing::AddGlobalTestEnvironment(new SettingsOfTrainer);

}  // namespace

c10::DeviceType test_device() { return c10::kCUDA; }

}  // namespace strata::kernels

// SPDX-License-Identifier: MIT
// A folder has all files of its weights, or none of them after an exception.
#include "tools/weights/weights_writer.h"

#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <iterator>
#include <new>
#include <string>
#include <vector>

#include "base/errors.h"
#include "base/files/temporary_folder.h"

namespace strata::tools {
namespace {

namespace fs = std::filesystem;

// Returns two weights, for a file each.
std::vector<Weight> weights() {
  return {{"a", {8}, [] { return at::full({8}, 1.F); }}, {"b", {8}, [] { return at::full({8}, 1e6F); }}};
}
constexpr uint64_t kFileBytes = 8;

class WeightsWriter : public testing::Test {
 protected:
  const TemporaryFolder temporary_;
  const std::string folder_ = temporary_.path() + "/weights";
};

TEST_F(WeightsWriter, LeavesNoFileIfAWeightIsTooLarge) {
  EXPECT_THROW(write_weights(folder_, weights(), kFileBytes, at::kHalf), Error);
  EXPECT_TRUE(fs::is_empty(folder_));
  write_weights(folder_, weights(), kFileBytes, at::kBFloat16);
  EXPECT_TRUE(fs::exists(folder_ + "/model-00002-of-00002.safetensors"));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 3);  // with the index
}

TEST_F(WeightsWriter, LeavesNoFileAfterAnyException) {
  std::vector<Weight> fails = weights();
  fails[1].values = []() -> at::Tensor { throw std::bad_alloc(); };
  EXPECT_THROW(write_weights(folder_, fails, kFileBytes), std::bad_alloc);
  EXPECT_TRUE(fs::is_empty(folder_));
}

}  // namespace
}  // namespace strata::tools

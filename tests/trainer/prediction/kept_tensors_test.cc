// SPDX-License-Identifier: MIT
// Checks what selective recompute releases in a layer: the outputs of norms and activations, and nothing else.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "trainer/config/load_config.h"
#include "trainer/prediction/trace_step.h"

namespace strata::trainer {
namespace {

// Returns what each of two layers keeps for its backward, in numbers of float32.
std::vector<int64_t> kept(const std::string& model, const std::string& data, const std::string& checkpointing) {
  const std::string text =
      "run: {folder: unused, ranks: 1, device: cpu}\nsteps: 1\nbatch: 3\nmicro_batch: 3\nmodel: {layers: 2, " + model +
      "}\ndata: {" + data + "}\noptimizer: {type: adamw, learning_rate: 1e-2}\nschedule: {type: constant}\n";
  const TrainerConfig config =
      parse_trainer_config("test.yaml", text, {"gradient_checkpointing=" + checkpointing}).config;
  std::vector<int64_t> numbers;
  const StepTrace step = trace_step_without_data(config).value();
  for (const int64_t bytes : step.kept_by_layer) numbers.push_back(bytes / 4);
  return numbers;
}

void expect_released(const std::string& model, const std::string& data, int64_t numbers) {
  const std::vector<int64_t> all = kept(model, data, "none"), fewer = kept(model, data, "selective");
  ASSERT_EQ(all.size(), 2u);
  ASSERT_EQ(fewer.size(), 2u);
  for (size_t layer = 0; layer < 2; ++layer) EXPECT_EQ(all[layer] - fewer[layer], numbers) << model;
}

const std::string kImages = "type: idx, train_images: a, train_labels: b, validation_images: c, validation_labels: d";
const std::string kSizes = "width: 8, image_size: 6, patch: 2, channels: 1, classes: 4";  // 9 patches
constexpr int64_t kImagesAtOnce = 3, kPatches = 9, kWidth = 8;

TEST(SelectiveRecompute, ReleasesOutputsOfNormsAndOfTheActivationOfATransformer) {
  expect_released("type: vision_transformer, heads: 2, pooling: mean, feed_forward: 20, " + kSizes, kImages,
                  kImagesAtOnce * kPatches * (2 * kWidth + 20));
}

TEST(SelectiveRecompute, ReleasesOutputsOfNormsAndOfBothActivationsOfAMixer) {
  expect_released("type: mixer, token_width: 5, feed_forward: 20, " + kSizes, kImages,
                  kImagesAtOnce * (kPatches * (2 * kWidth + 20) + kWidth * 5));
}

}  // namespace
}  // namespace strata::trainer

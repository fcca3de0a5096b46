// SPDX-License-Identifier: MIT
// Checks the messages for errors of a vision transformer and its data, word for word, with their places.
#include <gtest/gtest.h>

#include "tests/trainer/config/config_texts.h"

namespace strata::trainer {
namespace {

constexpr int kModel = 5, kData = 6, kEvaluation = 13;  // lines of the configuration

// Returns a good configuration of a vision transformer with one line replaced.
std::string vision_config_with(int number, const std::string& line) {
  return config_with(
      {{kModel,
        "model: {type: vision_transformer, layers: 4, image_size: 28, patch: 7, channels: 1, classes: 10, width: 64, "
        "heads: 4}"},
       {kData, "data: {type: idx, train_images: a, train_labels: b, validation_images: c, validation_labels: d}"},
       {kEvaluation, "evaluation: {every: 50}"},
       {number, line}});
}

class BadVisionLine : public testing::TestWithParam<BadLine> {};

TEST_P(BadVisionLine, IsReportedAlone) {
  expect_reported_alone(report_of(vision_config_with(GetParam().number, GetParam().line)), GetParam().message);
}

const std::string kSizes =
    "model: {type: vision_transformer, layers: 4, image_size: 28, patch: 7, channels: 1, classes: 10";
const std::string kFolder = "data: {type: image_folder, train: a, validation: b";
const std::string kFiles = "data: {type: idx, train_images: a, train_labels: b, validation_images: c";

INSTANTIATE_TEST_SUITE_P(
    Table, BadVisionLine,
    testing::Values(
        BadLine{"heads_do_not_divide", kModel, kSizes + ", width: 64, heads: 5}",
                "run.yaml:5:109: model.heads: width 64 is not a multiple of heads 5; the nearest that divide it are 4 "
                "and 8"},
        BadLine{"patch_does_not_divide", kModel,
                "model: {type: vision_transformer, size: vit_base_patch16_224, channels: 1, classes: 9, patch: 15}",
                "run.yaml:5:88: model.patch: image_size 224 is not a multiple of patch 15; the nearest that divide it "
                "are 14 and 16"},
        BadLine{
            "patch_of_a_mixer", kModel,
            "model: {type: mixer, layers: 2, width: 8, image_size: 28, patch: 8, channels: 1, classes: 10}",
            "run.yaml:5:59: model.patch: image_size 28 is not a multiple of patch 8; the nearest that divide it are "
            "7 and 14"},
        BadLine{"patch_of_too_many_values", kModel,
                "model: {type: vision_transformer, layers: 4, image_size: 65536, patch: 65536, channels: 1024, "
                "classes: 10, width: 64, heads: 4}",
                "run.yaml:5:65: model.patch: 1024 channels x 65536 x 65536 = 4398046511104 values; expected at most "
                "100000000"},
        BadLine{"patch_of_a_mixer_of_too_many_values", kModel,
                "model: {type: mixer, layers: 2, width: 8, image_size: 65536, patch: 65536, classes: 10}",
                "run.yaml:5:62: model.patch: 3 channels x 65536 x 65536 = 12884901888 values; expected at most "
                "100000000"},
        BadLine{"layer_scale_beyond_float32", kModel, kSizes + ", width: 64, heads: 4, layer_scale: 1e300}",
                "run.yaml:5:132: model.layer_scale: expected a number, at least 0, at most 1000, got '1e300'"},
        BadLine{"no_width", kModel, kSizes + ", heads: 4}",
                "run.yaml:5:1: model.width: expected a number above 0, because size custom names none, got none"},
        BadLine{"unknown_size", kModel,
                "model: {type: vision_transformer, size: vit_bse_patch16_224, channels: 1, classes: 9}",
                "run.yaml:5:41: model.size: expected custom, vit_tiny_patch16_224, vit_small_patch16_224, "
                "vit_base_patch16_224 or vit_large_patch16_224, got 'vit_bse_patch16_224'; did you mean "
                "'vit_base_patch16_224'?"},
        BadLine{"patterns", 14, "layers: [{only: 0, attention: full}]",
                "run.yaml:14:1: layers: expected none, because only a transformer attends by patterns, got a model of "
                "type vision_transformer"},
        BadLine{"no_classes", kModel, "model: {type: vision_transformer, size: vit_tiny_patch16_224, channels: 1}",
                "run.yaml:5:1: model.classes: missing; expected an integer, at least 2, at most 100000000"},
        BadLine{"key_of_language_models", kModel, kSizes + ", width: 64, heads: 4, vocabulary: 9}",
                "run.yaml:5:119: model.vocabulary: unknown key here; it belongs to type: transformer"},
        BadLine{"data_of_language_models", kData, "data: {type: text, train: a, validation: b}",
                "run.yaml:6:8: data.type: a model of type vision_transformer is not trained on data of type text"},
        BadLine{"no_labels", kData, kFiles + "}", "run.yaml:6:1: data.validation_labels: missing; expected text"},
        BadLine{"shifted_out_of_sight", kData, kFiles + ", validation_labels: d, shift: 28}",
                "run.yaml:6:97: data.shift: expected less than model.image_size 28, got 28"},
        BadLine{"areas_in_the_wrong_order", kData, kFolder + ", area: [1, 0.5]}",
                "run.yaml:6:53: data.area: expected the smaller share first"},
        BadLine{"shift_of_image_files", kData, kFolder + ", shift: 2}",
                "run.yaml:6:53: data.shift: unknown key here; it belongs to type: idx or type: safetensors"},
        BadLine{"evaluation_of_tokens", kEvaluation, "evaluation: {tokens: 64}",
                "run.yaml:13:14: evaluation.tokens: expected 0, because an evaluation visits all validation images, "
                "got 64"},
        BadLine{"last_evaluation_of_tokens", kEvaluation, "evaluation: {final_tokens: 64}",
                "run.yaml:13:14: evaluation.final_tokens: expected 0, because an evaluation visits all validation "
                "images, got 64"},
        BadLine{"head_with_the_loss", 11, "kernels: {default: aten, linear_cross_entropy: aten}",
                "run.yaml:11:26: kernels.linear_cross_entropy: computes head and loss of language models together; "
                "expected none, because the head of a vision_transformer has a bias"},
        BadLine{"layer_past_the_model", 11, "kernels: {default: aten, layers: [{only: 2-4, linear: aten}]}",
                "run.yaml:11:36: kernels.layers.0.only: expected layers below model.layers 4, counted from 0, got "
                "2-4"}),
    [](const auto& info) { return info.param.name; });

const modules::VisionTransformerConfig& vision(const TrainerConfig& config) {
  return std::get<modules::VisionTransformerConfig>(config.model.type);
}

TEST(VisionConfig, MixesImagesOfEvenMicroBatchesOnly) {
  for (const char* key : {"mixup", "cutmix"}) {
    const std::string text = vision_config_with(kData, kFolder + ", " + key + ": 0.2}");
    EXPECT_EQ(report_of(text, {"model.channels=3"}), "no error");
    EXPECT_EQ(first_line(report_of(text, {"model.channels=3", "micro_batch=1"})),
              "override 'micro_batch=1': micro_batch: expected an even number, because data.mixup and data.cutmix take "
              "images in pairs, got 1");
  }
  EXPECT_EQ(report_of(vision_config_with(kData, kFolder + "}"), {"model.channels=3", "micro_batch=1"}), "no error");
}

TEST(VisionConfig, ReadsImageFilesInGrayOrInColor) {
  for (const char* type : {"image_folder", "webdataset"}) {
    const std::string text =
        vision_config_with(kData, std::string("data: {type: ") + type + ", train: a, validation: b}");
    EXPECT_EQ(report_of(text), "no error");
    EXPECT_EQ(first_line(report_of(text, {"model.channels=2"})),
              "override 'model.channels=2': model.channels: expected 1 (gray) or 3, because the data are image files, "
              "got 2");
  }
}

TEST(VisionConfig, TakesWhatIsNotWrittenFromTheNamedSize) {
  const auto model_of = [](const std::string& keys) {
    const std::string line = "model: {type: vision_transformer, channels: 1, classes: 9, " + keys + "}";
    return vision(parse_trainer_config("run.yaml", vision_config_with(kModel, line), {}).config);
  };
  const auto large = model_of("size: vit_large_patch16_224");
  EXPECT_EQ(large.layers, 24);
  EXPECT_EQ(large.width, 1024);
  EXPECT_EQ(large.heads, 16);
  EXPECT_EQ(large.image_size, 224);
  EXPECT_EQ(large.patch, 16);
  // The result does not depend on the order of the keys.
  for (const char* keys :
       {"size: vit_tiny_patch16_224, image_size: 384", "image_size: 384, size: vit_tiny_patch16_224"}) {
    EXPECT_EQ(model_of(keys).image_size, 384);
    EXPECT_EQ(model_of(keys).layers, 12);
    EXPECT_EQ(model_of(keys).width, 192);
  }
}

TEST(VisionConfig, IsListedWithTheSizesThatItStandsFor) {
  const std::string line = "model: {type: vision_transformer, channels: 1, classes: 9, size: vit_small_patch16_224}";
  const std::string resolved = parse_trainer_config("run.yaml", vision_config_with(kModel, line), {}).resolved();
  EXPECT_NE(resolved.find("width: 384 "), std::string::npos) << resolved;
  EXPECT_EQ(vision(parse_trainer_config("resolved.yaml", resolved, {}).config).heads, 6);
}

}  // namespace
}  // namespace strata::trainer

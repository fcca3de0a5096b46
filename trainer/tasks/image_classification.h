// SPDX-License-Identifier: MIT
// Image classification: one label per image.
#pragma once

#include <memory>

#include "modules/image/image_model.h"
#include "trainer/tasks/open_images.h"
#include "trainer/tasks/task.h"
#include "trainer/tasks/task_powers.h"

namespace strata::trainer {

struct MixedImages {
  Tensor images;      // uint8 [B, C, H, W]: pixels, which are normalized and mixed on the device
  Tensor labels;      // int64 [B]
  Tensor share = {};  // fp32 [H, W]: weight of an image in its pair, see image_mixing.h; undefined: no mixing
};
inline MixedImages with_each(const MixedImages& batch, const ReplaceTensor& replaced) {
  const auto& [images, labels, share] = batch;
  return {replaced(images), replaced(labels), replaced(share)};
}

class ImageClassification : public Task, public FindsBadSamples, public ShowsSamples {
 public:
  // `images` comes from open_images, or is empty, see make_task_without_data.
  ImageClassification(const modules::ModelConfig& model, const modules::ImageSizes& sizes, const DataConfig& data,
                      ImageSets images, const TaskSettings& settings);

  void build_model(const modules::Scope& scope, at::Device device) override;
  void wrap_layers(const modules::WrapLayer& wrap) override { model_->wrap_layers(wrap); }

  MicroBatch training_batch(int64_t first_sample, int64_t count) const override;
  MicroBatch example_batch(int64_t count) const override;
  int64_t items_per_sample() const override { return 1; }
  std::string item_name() const override { return "images"; }

  int64_t evaluation_samples() const override { return images_.validation->count(); }
  int64_t evaluation_items(int64_t samples, const Tensor& sums) const override;
  MicroBatch evaluation_batch(int64_t first_sample, int64_t count, int64_t end) const override;
  // The sums are: losses without label smoothing, correct predictions, images whose label is among the first five, and
  // images that could be used.
  Tensor evaluation_sums(const MicroBatch& batch) const override;
  std::map<std::string, double> metrics(const std::vector<double>& means) const override;

  Tensor loss(const MicroBatch& batch, const Tensor& scale, const Tensor& dropout_key) const override;

  Tensor usable_samples(const MicroBatch& batch) const override;
  std::vector<std::string> take_bad_samples() const override;
  std::optional<Limit> bad_sample_limit() const override;
  std::string data_fingerprint() const override;

  // The label has this probability. An image that cannot be used has neither.
  std::vector<std::string> shown_names() const override { return {"label", "prediction", "probability"}; }
  Tensor shown_values(const MicroBatch& batch) const override;

 private:
  bool mixes() const { return mixing_.mixup > 0 || mixing_.cutmix > 0; }
  Tensor logits(const MixedImages& batch, int64_t first_sample, const Tensor& dropout_key) const;

  const TaskSettings settings_;
  const modules::ModelConfig model_config_;
  const modules::ImageSizes sizes_;
  kernels::Level loss_level_ = {};  // set by build_model
  ImageSets images_;                // without images if the task is without data
  ImageDataConfig mixing_;
  bool channels_last_;
  Tensor factor_, offset_;  // fp32 [C, 1, 1]: normalization is pixel * factor + offset
  std::unique_ptr<modules::ImageModel> model_;
};

}  // namespace strata::trainer

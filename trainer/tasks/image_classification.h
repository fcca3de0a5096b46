// SPDX-License-Identifier: MIT
// One label out of several for each image.
#pragma once

#include <memory>

#include "modules/vision_transformer.h"
#include "trainer/data/labelled_images.h"
#include "trainer/task.h"

namespace strata::trainer {

class ImageClassification : public Task {
 public:
  explicit ImageClassification(const TrainerConfig& config);

  std::vector<modules::ParameterGroup> parameter_table() const override;
  void build_model(const modules::ParameterLookup& parameter, at::Device device) override;
  void wrap_layers(const WrapLayer& wrap) override { model_->wrap_layers(wrap); }

  MicroBatch training_batch(int64_t first_sample, int64_t count) const override;
  int64_t items_per_sample() const override { return 1; }
  std::string item_name() const override { return "images"; }

  int64_t evaluation_samples() const override { return validation_.count(); }
  MicroBatch evaluation_batch(int64_t first_sample, int64_t count, int64_t end) const override;
  // Of the losses without label smoothing, of the images whose label is the first guess, or among the first five.
  Tensor evaluation_sums(const MicroBatch& batch) const override;
  std::map<std::string, double> metrics(const std::vector<double>& means) const override;

  Tensor loss(const MicroBatch& batch, const Tensor& scale, const Tensor& dropout_key) const override;
  std::string data_fingerprint() const override { return train_.fingerprint() + " " + validation_.fingerprint(); }

 private:
  Tensor logits(const MicroBatch& batch, const Tensor& dropout_key) const;

  TrainerConfig config_;
  modules::VisionTransformerConfig model_config_;
  kernels::Level loss_level_;
  LabelledImages train_, validation_;
  Normalization normalization_;  // of the training images
  std::unique_ptr<modules::VisionTransformer> model_;
};

}  // namespace strata::trainer

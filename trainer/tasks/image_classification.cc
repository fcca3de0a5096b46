// SPDX-License-Identifier: MIT
#include "trainer/tasks/image_classification.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/flip.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/topk.h>

#include <algorithm>

#include "kernels/cross_entropy/cross_entropy.h"
#include "modules/kernel_selection.h"
#include "trainer/data/image_mixing.h"
#include "trainer/data/permutation.h"

namespace strata::trainer {
namespace {

constexpr int64_t kIgnored = -100;  // a label that counts nothing
constexpr int64_t kGuesses = 5;

const IdxDataConfig& files(const TrainerConfig& config) { return std::get<IdxDataConfig>(config.data.type); }

LabelledImages::Shape shape_of(const modules::VisionTransformerConfig& model) {
  return {.channels = model.channels, .size = model.image_size, .classes = model.classes};
}

}  // namespace

ImageClassification::ImageClassification(const TrainerConfig& config)
    : config_(config),
      model_config_(std::get<modules::VisionTransformerConfig>(config.model.type)),
      loss_level_(modules::kernels_for_root(config.kernels).cross_entropy),
      train_(files(config).train_images, files(config).train_labels, shape_of(model_config_)),
      validation_(files(config).validation_images, files(config).validation_labels, shape_of(model_config_)),
      normalization_(train_.normalization()) {}

std::vector<modules::ParameterGroup> ImageClassification::parameter_table() const {
  return modules::parameter_table(model_config_);
}

void ImageClassification::build_model(const modules::ParameterLookup& parameter, at::Device /*device*/) {
  model_ = std::make_unique<modules::VisionTransformer>(model_config_, config_.kernels, parameter);
}

MicroBatch ImageClassification::training_batch(int64_t first_sample, int64_t count) const {
  const IdxDataConfig& data = files(config_);
  const auto seed = static_cast<uint64_t>(config_.run.seed);
  const auto [images, labels] =
      train_.training_batch(seed, first_sample, count, {data.flip, data.shift}, normalization_);
  const int64_t in_step = first_sample % config_.batch;
  if (data.mixup == 0 && data.cutmix == 0) return {images, labels, in_step};
  // The first image of a step is mixed with the last one, the second with the last but one, ...
  const int64_t step = first_sample / config_.batch, first_partner = config_.batch - in_step - count;
  const auto [partners, partner_labels] =
      train_.training_batch(seed, step * config_.batch + first_partner, count, {data.flip, data.shift}, normalization_);
  const ImageMix mix = draw_image_mix(data.mixup, data.cutmix, trainer::mix(seed, static_cast<uint64_t>(step)),
                                      model_config_.image_size);
  return {mixed(images, at::flip(partners, {0}), mix), at::stack({labels, at::flip(partner_labels, {0})}), in_step,
          at::scalar_tensor(mix.share, at::kFloat)};
}

MicroBatch ImageClassification::evaluation_batch(int64_t first_sample, int64_t count, int64_t end) const {
  const int64_t there = std::clamp<int64_t>(end - first_sample, 0, count);
  const int64_t missing = count - there;
  const auto [images, labels] = validation_.evaluation_batch(std::min(first_sample, end), there, normalization_);
  if (missing == 0) return {images, labels};
  return {at::constant_pad_nd(images, {0, 0, 0, 0, 0, 0, 0, missing}, 0),
          at::constant_pad_nd(labels, {0, missing}, kIgnored)};
}

Tensor ImageClassification::evaluation_sums(const MicroBatch& batch) const {
  const Tensor scores = logits(batch, /*dropout_key=*/{});
  const Tensor labels = batch.targets.unsqueeze(1);
  const Tensor guesses = std::get<1>(at::topk(scores, std::min(kGuesses, scores.size(1)), 1));
  const Tensor right = guesses.eq(labels);
  const Tensor one = at::ones({}, scores.options().dtype(at::kFloat));
  // Last: a level may make the gradient in the memory of the scores.
  const Tensor loss = kernels::cross_entropy(scores, batch.targets, one, kIgnored, /*label_smoothing=*/0, loss_level_);
  return at::stack({loss.to(at::kDouble), right.select(1, 0).sum().to(at::kDouble), right.sum().to(at::kDouble)});
}

std::map<std::string, double> ImageClassification::metrics(const std::vector<double>& means) const {
  return {{"validation_accuracy", means.at(1)}, {"validation_top5_accuracy", means.at(2)}};
}

Tensor ImageClassification::logits(const MicroBatch& batch, const Tensor& dropout_key) const {
  modules::StepContext context;
  context.dropout_key = dropout_key;
  context.first_row = batch.first_sample * model_config_.tokens();
  return (*model_)(batch.inputs, context);
}

Tensor ImageClassification::loss(const MicroBatch& batch, const Tensor& scale, const Tensor& dropout_key) const {
  const auto part = [&](const Tensor& scores, const Tensor& targets, const Tensor& weight) {
    return kernels::cross_entropy(scores, targets, weight, kIgnored, model_config_.label_smoothing, loss_level_);
  };
  const Tensor scores = logits(batch, dropout_key);
  if (!batch.share.defined()) return part(scores, batch.targets, scale);
  // A copy, because a level may make the gradient in the memory of the scores.
  const Tensor first = part(scores.clone(), batch.targets.select(0, 0), scale * batch.share);
  return first + part(scores, batch.targets.select(0, 1), scale * (1 - batch.share));
}

}  // namespace strata::trainer

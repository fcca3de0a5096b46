// SPDX-License-Identifier: MIT
#include "trainer/tasks/image_classification.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/addcmul.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/topk.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <variant>

#include "base/permutation.h"
#include "base/text/formatted.h"
#include "kernels/cross_entropy/cross_entropy.h"
#include "modules/image/image_model.h"
#include "trainer/config/data_config.h"
#include "trainer/data/ignored_label.h"
#include "trainer/data/images/image_mixing.h"

namespace strata::trainer {
namespace {

constexpr int64_t kGuesses = 5;

Tensor per_channel(const std::vector<double>& values, at::Device device) {
  return at::tensor(values, at::TensorOptions(at::kFloat).device(device)).view({-1, 1, 1});
}

}  // namespace

ImageClassification::ImageClassification(const modules::ModelConfig& model, const modules::ImageSizes& sizes,
                                         const DataConfig& data, ImageSets images, const TaskSettings& settings)
    : settings_(settings),
      model_config_(model),
      sizes_(sizes),
      images_(std::move(images)),
      mixing_(image_mixing(data)),
      channels_last_(has_channels_last(data)) {
  images_.normalization.resize(static_cast<size_t>(sizes.channels));
}

void ImageClassification::build_model(const modules::Scope& scope, at::Device device) {
  model_ = modules::make_image_model(model_config_, scope);
  loss_level_ = scope.level("cross_entropy");
  std::vector<double> factors, offsets;
  for (const Normalization& normalization : images_.normalization) {
    factors.push_back(1 / (255 * normalization.deviation));
    offsets.push_back(-normalization.mean / normalization.deviation);
  }
  factor_ = per_channel(factors, device);
  offset_ = per_channel(offsets, device);
}

MicroBatch ImageClassification::training_batch(int64_t first_sample, int64_t count) const {
  const auto [images, labels] = images_.training->training_batch(settings_.seed, first_sample, count);
  const int64_t in_step = first_sample % settings_.batch;
  if (!mixes()) return {MixedImages{images, labels}, in_step};
  const uint64_t key = mix(settings_.seed, static_cast<uint64_t>(first_sample / settings_.batch));  // key of the step
  const ImageMix drawn = draw_image_mix(mixing_.mixup, mixing_.cutmix, key, sizes_.size);
  return {MixedImages{images, labels, share_of_pixels(drawn, sizes_.size)}, in_step};
}

MicroBatch ImageClassification::example_batch(int64_t count) const {
  const auto options = at::TensorOptions(at::kMeta);
  const int64_t size = sizes_.size, channels = sizes_.channels;
  const auto pixels = options.dtype(at::kByte);
  return MixedImages{channels_last_ ? at::empty({count, size, size, channels}, pixels).permute({0, 3, 1, 2})
                                    : at::empty({count, channels, size, size}, pixels),
                     at::empty({count}, options.dtype(at::kLong)),
                     mixes() ? at::empty({size, size}, options.dtype(at::kFloat)) : Tensor()};
}

MicroBatch ImageClassification::evaluation_batch(int64_t first_sample, int64_t count, int64_t end) const {
  const int64_t present = std::clamp<int64_t>(end - first_sample, 0, count);
  const int64_t missing = count - present;
  const auto [images, labels] = images_.validation->evaluation_batch(std::min(first_sample, end), present);
  if (missing == 0) return MixedImages{images, labels};
  return MixedImages{at::constant_pad_nd(images, {0, 0, 0, 0, 0, 0, 0, missing}, 0),
                     at::constant_pad_nd(labels, {0, missing}, kIgnoredLabel)};
}

Tensor ImageClassification::evaluation_sums(const MicroBatch& batch) const {
  const MixedImages& images = batch.as<MixedImages>();
  const Tensor scores = logits(images, batch.first_sample, /*dropout_key=*/{});
  const Tensor labels = images.labels.unsqueeze(1);
  const Tensor guesses = std::get<1>(at::topk(scores, std::min(kGuesses, scores.size(1)), 1));
  const Tensor is_right = guesses.eq(labels);
  const Tensor unit_scale = at::ones({}, scores.options().dtype(at::kFloat));
  // The loss comes last, because a level may write the gradient into the memory of the scores.
  const Tensor loss =
      kernels::cross_entropy(scores, images.labels, unit_scale, kIgnoredLabel, /*label_smoothing=*/0, loss_level_);
  return at::stack({loss.to(at::kDouble), is_right.select(1, 0).sum().to(at::kDouble), is_right.sum().to(at::kDouble),
                    usable_samples(batch).to(at::kDouble)});
}

Tensor ImageClassification::shown_values(const MicroBatch& batch) const {
  const MixedImages& images = batch.as<MixedImages>();
  const Tensor scores = logits(images, batch.first_sample, /*dropout_key=*/{}).to(at::kFloat);
  const Tensor labels = images.labels.unsqueeze(1), unusable = labels.eq(kIgnoredLabel);
  const Tensor probabilities = at::softmax(scores, 1).gather(1, labels.clamp_min(0)).to(at::kDouble);
  const auto nan_if_unusable = [&](const Tensor& values) {
    return values.masked_fill(unusable, std::numeric_limits<double>::quiet_NaN());
  };
  return at::stack({nan_if_unusable(labels.to(at::kDouble)), scores.argmax(1, /*keepdim=*/true).to(at::kDouble),
                    nan_if_unusable(probabilities)},
                   1);
}

int64_t ImageClassification::evaluation_items(int64_t /*samples*/, const Tensor& sums) const {
  return static_cast<int64_t>(sums.select(0, 3).item<double>());
}

std::map<std::string, double> ImageClassification::metrics(const std::vector<double>& means) const {
  return {{"validation_accuracy", means.at(1)}, {"validation_top5_accuracy", means.at(2)}};
}

Tensor ImageClassification::usable_samples(const MicroBatch& batch) const {
  return batch.as<MixedImages>().labels.ne(kIgnoredLabel).sum().to(at::kFloat);
}

std::vector<std::string> ImageClassification::take_bad_samples() const {
  std::vector<std::string> bad_images = images_.training->take_bad_images(),
                           validation_images = images_.validation->take_bad_images();
  bad_images.insert(bad_images.end(), validation_images.begin(), validation_images.end());
  return bad_images;
}

std::optional<FindsBadSamples::Limit> ImageClassification::bad_sample_limit() const {
  if (!images_.bad_share) return {};
  const int64_t count = images_.training->count() + images_.validation->count();
  return Limit{static_cast<int64_t>(std::floor(*images_.bad_share * static_cast<double>(count))),
               formatted("data.bad_share %g of ", *images_.bad_share) + std::to_string(count) + " images"};
}

std::string ImageClassification::data_fingerprint() const {
  return images_.training->fingerprint() + " " + images_.validation->fingerprint();
}

Tensor ImageClassification::logits(const MixedImages& batch, int64_t first_sample, const Tensor& dropout_key) const {
  modules::StepContext context;
  context.dropout_key = dropout_key;
  context.first_row = first_sample * model_->rows_per_image();
  const Tensor images = at::addcmul(offset_, batch.images.to(at::kFloat), factor_);
  return (*model_)(batch.share.defined() ? mixed(images, batch.share) : images, context);
}

Tensor ImageClassification::loss(const MicroBatch& batch, const Tensor& scale, const Tensor& dropout_key) const {
  const auto scaled_loss = [&](const Tensor& scores, const Tensor& targets, const Tensor& weight) {
    return kernels::cross_entropy(scores, targets, weight, kIgnoredLabel, sizes_.label_smoothing, loss_level_);
  };
  const MixedImages& images = batch.as<MixedImages>();
  const Tensor scores = logits(images, batch.first_sample, dropout_key);
  if (!images.share.defined()) return scaled_loss(scores, images.labels, scale);
  const Tensor mean_share = images.share.mean();
  // The scores are cloned, because a level may write the gradient into their memory.
  const Tensor own_loss = scaled_loss(scores.clone(), images.labels, scale * mean_share);
  return own_loss + scaled_loss(scores, swapped_in_pairs(images.labels), scale * (1 - mean_share));
}

}  // namespace strata::trainer

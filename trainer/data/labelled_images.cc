// SPDX-License-Identifier: MIT
#include "trainer/data/labelled_images.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "configs/errors.h"
#include "trainer/data/idx_file.h"
#include "trainer/data/permutation.h"

namespace strata::trainer {
namespace {

// Streams of random choices of one epoch, besides its order.
constexpr uint64_t kFlip = 1, kRight = 2, kDown = 3;

std::array<float, 256> values_of(const Normalization& normalization) {
  std::array<float, 256> values;
  for (size_t pixel = 0; pixel < values.size(); ++pixel) {
    const double share = static_cast<double>(pixel) / 255;
    values[pixel] = static_cast<float>((share - normalization.mean) / normalization.deviation);
  }
  return values;
}

std::string text_of(int64_t channels, int64_t height, int64_t width) {
  return std::to_string(channels) + (channels == 1 ? " channel, " : " channels, ") + std::to_string(height) + " x " +
         std::to_string(width) + " pixels";
}

// A whole number in [-most, most].
int64_t offset(uint64_t key, int64_t most) {
  return static_cast<int64_t>(key % static_cast<uint64_t>(2 * most + 1)) - most;
}

}  // namespace

LabelledImages::LabelledImages(const std::string& images_path, const std::string& labels_path, const Shape& shape)
    : channels_(shape.channels), size_(shape.size) {
  IdxArray images = read_idx(images_path, 3, 4), labels = read_idx(labels_path, 1, 1);
  const int64_t channels = images.sizes.size() == 4 ? images.sizes[1] : 1;
  const int64_t width = images.sizes.back(), height = images.sizes[images.sizes.size() - 2];
  if (channels != channels_ || height != size_ || width != size_) {
    throw Error(ExitCode::data, images_path + ": holds images of " + text_of(channels, height, width) +
                                    "; model.channels and model.image_size ask for " +
                                    text_of(channels_, size_, size_));
  }
  if (images.sizes[0] != labels.sizes[0]) {
    throw Error(ExitCode::data, labels_path + ": holds " + std::to_string(labels.sizes[0]) + " labels for the " +
                                    std::to_string(images.sizes[0]) + " images of " + images_path +
                                    ": they do not belong together");
  }
  for (size_t i = 0; i < labels.values.size(); ++i) {
    if (labels.values[i] < shape.classes) continue;
    throw Error(ExitCode::data, labels_path + ": label " + std::to_string(i) + " is " +
                                    std::to_string(labels.values[i]) + ", outside of the " +
                                    std::to_string(shape.classes) + " classes of the model (model.classes)");
  }
  pixels_ = std::move(images.values);
  labels_ = std::move(labels.values);
}

ImageBatch LabelledImages::batch(int64_t count) const {
  return {at::empty({count, channels_, size_, size_}, at::kFloat), at::empty({count}, at::kLong)};
}

void LabelledImages::read_image(int64_t image, const View& view, const Values& values, int64_t row,
                                const ImageBatch& batch) const {
  const int64_t plane = size_ * size_;
  const uint8_t* pixels = pixels_.data() + image * channels_ * plane;
  float* out = batch.images.mutable_data_ptr<float>() + row * channels_ * plane;
  // Columns that show the image; the others are black. No question is asked for each pixel: 256 images of ViT-B take
  // 130 ms with one, longer than their training step on a GPU.
  const int64_t first = std::clamp<int64_t>(view.right, 0, size_);
  const int64_t last = std::clamp<int64_t>(size_ + view.right, 0, size_);
  for (int64_t line = 0; line < channels_ * size_; ++line, out += size_) {
    const int64_t y = line % size_ - view.down;
    if (y < 0 || y >= size_) {
      std::fill_n(out, size_, values[0]);
      continue;
    }
    const uint8_t* from = pixels + line / size_ * plane + y * size_;
    std::fill(out, out + first, values[0]);
    std::fill(out + last, out + size_, values[0]);
    if (view.flipped) {
      for (int64_t x = first - view.right; x < last - view.right; ++x)
        out[x + view.right] = values[from[size_ - 1 - x]];
    } else {
      for (int64_t x = first - view.right; x < last - view.right; ++x) out[x + view.right] = values[from[x]];
    }
  }
  batch.labels.mutable_data_ptr<int64_t>()[row] = labels_[static_cast<size_t>(image)];
}

ImageBatch LabelledImages::training_batch(uint64_t seed, int64_t first_sample, int64_t count,
                                          const Augmentation& augmentation, const Normalization& normalization) const {
  const ImageBatch result = batch(count);
  const Values values = values_of(normalization);
  for (int64_t row = 0; row < count; ++row) {
    const int64_t sample = first_sample + row;
    const uint64_t key = mix(seed, static_cast<uint64_t>(sample / this->count()));  // of the epoch
    const int64_t image = permuted(key, sample % this->count(), this->count());
    const auto choice = [&](uint64_t stream) { return mix(mix(key, stream), static_cast<uint64_t>(image)); };
    View view{.flipped = augmentation.flip && (choice(kFlip) & 1) == 1};
    if (augmentation.shift > 0) {
      view.right = offset(choice(kRight), augmentation.shift);
      view.down = offset(choice(kDown), augmentation.shift);
    }
    read_image(image, view, values, row, result);
  }
  return result;
}

ImageBatch LabelledImages::evaluation_batch(int64_t first_image, int64_t count,
                                            const Normalization& normalization) const {
  if (first_image < 0 || count < 0 || first_image + count > this->count()) {
    throw Error(ExitCode::internal, "images " + std::to_string(first_image) + " to " +
                                        std::to_string(first_image + count) + " of " + std::to_string(this->count()));
  }
  const ImageBatch result = batch(count);
  const Values values = values_of(normalization);
  for (int64_t row = 0; row < count; ++row) read_image(first_image + row, {}, values, row, result);
  return result;
}

std::string LabelledImages::fingerprint() const {
  uint64_t hash = mix(mix(static_cast<uint64_t>(channels_), static_cast<uint64_t>(size_)), labels_.size());
  for (const uint8_t label : labels_) hash = mix(hash, label);
  uint64_t word = 0;
  for (size_t i = 0; i < pixels_.size(); ++i) {
    word = word << 8 | pixels_[i];
    if (i % 8 == 7 || i + 1 == pixels_.size()) hash = mix(hash, std::exchange(word, 0));
  }
  char digits[17];
  std::snprintf(digits, sizeof(digits), "%016llx", static_cast<unsigned long long>(hash));
  return digits;
}

}  // namespace strata::trainer

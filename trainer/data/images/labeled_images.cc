// SPDX-License-Identifier: MIT
#include "trainer/data/images/labeled_images.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <utility>

#include "base/errors.h"
#include "base/permutation.h"
#include "base/text/hex_digits.h"

namespace strata::trainer {
namespace {

// Random streams of an epoch, in addition to its order.
constexpr uint64_t kFlip = 1, kRight = 2, kDown = 3;

std::string image_size_text(int64_t channels, int64_t height, int64_t width) {
  return std::to_string(channels) + (channels == 1 ? " channel, " : " channels, ") + std::to_string(height) + " x " +
         std::to_string(width) + " pixels";
}

// Returns a whole number in [-most, most].
int64_t offset(uint64_t key, int64_t most) {
  return static_cast<int64_t>(key % static_cast<uint64_t>(2 * most + 1)) - most;
}

}  // namespace

LabeledImages::LabeledImages(ImageArrays arrays, const Shape& shape, const Augmentation& augmentation)
    : arrays_(std::move(arrays)), augmentation_(augmentation), size_(shape.size) {
  if (arrays_.channels != shape.channels || arrays_.height != size_ || arrays_.width != size_) {
    throw Error(ExitCode::data, arrays_.images_from + ": holds images of " +
                                    image_size_text(arrays_.channels, arrays_.height, arrays_.width) +
                                    "; model.channels and model.image_size ask for " +
                                    image_size_text(shape.channels, size_, size_));
  }
  for (size_t i = 0; i < arrays_.labels.size(); ++i) {
    const int64_t label = arrays_.labels[i];
    if (label >= 0 && label < shape.classes) continue;
    throw Error(ExitCode::data, arrays_.labels_from + ": label " + std::to_string(i) + " is " + std::to_string(label) +
                                    ", outside of the " + std::to_string(shape.classes) +
                                    " classes of the model (model.classes)");
  }
}

ImageBatch LabeledImages::batch(int64_t count) const {
  return {at::empty({count, arrays_.channels, size_, size_}, at::kByte), at::empty({count}, at::kLong)};
}

void LabeledImages::read_image(int64_t image, const View& view, int64_t row, const ImageBatch& batch) const {
  const int64_t plane = size_ * size_;
  const uint8_t* pixels = arrays_.pixels.data() + image * arrays_.channels * plane;
  uint8_t* out = batch.images.mutable_data_ptr<uint8_t>() + row * arrays_.channels * plane;
  // The image covers these columns; the others are black.
  const int64_t first = std::clamp<int64_t>(view.right, 0, size_);
  const int64_t last = std::clamp<int64_t>(size_ + view.right, 0, size_);
  for (int64_t line = 0; line < arrays_.channels * size_; ++line, out += size_) {
    const int64_t y = line % size_ - view.down;
    if (y < 0 || y >= size_) {
      std::fill_n(out, size_, uint8_t{0});
      continue;
    }
    const uint8_t* from = pixels + line / size_ * plane + y * size_;
    std::fill(out, out + first, uint8_t{0});
    std::fill(out + last, out + size_, uint8_t{0});
    if (view.flipped) {
      std::reverse_copy(from + size_ - last + view.right, from + size_ - first + view.right, out + first);
    } else {
      std::copy(from + first - view.right, from + last - view.right, out + first);
    }
  }
  batch.labels.mutable_data_ptr<int64_t>()[row] = arrays_.labels[static_cast<size_t>(image)];
}

ImageBatch LabeledImages::training_batch(uint64_t seed, int64_t first_sample, int64_t count) const {
  const ImageBatch result = batch(count);
  for (int64_t row = 0; row < count; ++row) {
    const int64_t sample = first_sample + row;
    const uint64_t key = mix(seed, static_cast<uint64_t>(sample / this->count()));  // key of the epoch
    const int64_t image = permuted(key, sample % this->count(), this->count());
    const auto choice = [&](uint64_t stream) { return mix(mix(key, stream), static_cast<uint64_t>(image)); };
    View view{.flipped = augmentation_.flip && (choice(kFlip) & 1) == 1};
    if (augmentation_.shift > 0) {
      view.right = offset(choice(kRight), augmentation_.shift);
      view.down = offset(choice(kDown), augmentation_.shift);
    }
    read_image(image, view, row, result);
  }
  return result;
}

ImageBatch LabeledImages::stored_images(int64_t first_image, int64_t count) const {
  const ImageBatch result = batch(count);
  for (int64_t row = 0; row < count; ++row) read_image(first_image + row, {}, row, result);
  return result;
}

std::string LabeledImages::fingerprint() const {
  const std::vector<uint8_t>& pixels = arrays_.pixels;
  uint64_t hash =
      mix(mix(static_cast<uint64_t>(arrays_.channels), static_cast<uint64_t>(size_)), arrays_.labels.size());
  for (const int64_t label : arrays_.labels) hash = mix(hash, static_cast<uint64_t>(label));
  uint64_t word = 0;
  for (size_t i = 0; i < pixels.size(); ++i) {
    word = word << 8 | pixels[i];
    if (i % 8 == 7 || i + 1 == pixels.size()) hash = mix(hash, std::exchange(word, 0));
  }
  return hex_digits(hash);
}

}  // namespace strata::trainer

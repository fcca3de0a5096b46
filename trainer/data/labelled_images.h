// SPDX-License-Identifier: MIT
// Batches of labelled images from two IDX files, as a function of (seed, sample): never of the rank count.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "trainer/data/normalization.h"

namespace strata::trainer {

using at::Tensor;

struct ImageBatch {
  Tensor images;  // fp32 [B, C, H, W]
  Tensor labels;  // int64 [B]
};

// What happens to a training image before it is seen, differently in each epoch.
struct Augmentation {
  bool flip = false;  // every second image is mirrored, on average
  int64_t shift = 0;  // by up to so many pixels in both directions; what comes in from outside is black
};

class LabelledImages {
 public:
  struct Shape {
    int64_t channels, size, classes;  // images are size x size pixels, labels are below `classes`
  };
  // Throws Error (data) for every kind of broken file, and for images or labels that do not have this shape.
  LabelledImages(const std::string& images_path, const std::string& labels_path, const Shape& shape);

  int64_t count() const { return static_cast<int64_t>(labels_.size()); }

  // Over all channels of all images.
  Normalization normalization() const { return normalization_of(pixels_); }

  // Samples first_sample, ... of the endless training order. Sample p belongs to epoch p / count(); each epoch visits
  // each image once, in an order of its own.
  ImageBatch training_batch(uint64_t seed, int64_t first_sample, int64_t count, const Augmentation& augmentation,
                            const Normalization& normalization) const;
  // Images first_image, ... as they lie in the file. Requires first_image + count <= count().
  ImageBatch evaluation_batch(int64_t first_image, int64_t count, const Normalization& normalization) const;

  // The same for the same content in any file: 16 hexadecimal digits.
  std::string fingerprint() const;

 private:
  struct View {  // of an image: mirrored, then moved right and down
    bool flipped = false;
    int64_t right = 0, down = 0;
  };
  using Values = std::array<float, 256>;  // of each pixel
  ImageBatch batch(int64_t count) const;
  void read_image(int64_t image, const View& view, const Values& values, int64_t row, const ImageBatch& batch) const;

  int64_t channels_, size_;
  std::vector<uint8_t> pixels_, labels_;
};

}  // namespace strata::trainer

// SPDX-License-Identifier: MIT
// Labeled images of one size in memory, from IDX or safetensors files.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trainer/data/images/image_set.h"
#include "trainer/data/images/normalization.h"

namespace strata::trainer {

struct ImageArrays {
  std::string images_from, labels_from;  // names in messages
  int64_t channels = 0, height = 0, width = 0;
  std::vector<uint8_t> pixels;  // [N, C, H, W]
  std::vector<int64_t> labels;  // [N]
};

// Reads two IDX files. Throws Error (data) if a file is broken or if they do not match.
ImageArrays read_idx_images(const std::string& images_path, const std::string& labels_path);

// Reads one safetensors file with the tensors `images` (U8, N x C x H x W) and `labels` (I64, I32 or U8, N). Throws the
// same errors.
ImageArrays read_safetensors_images(const std::string& path);

// The augmentation of training images, which differs in each epoch.
struct Augmentation {
  bool flip = false;  // flips each image with probability 1 / 2
  int64_t shift = 0;  // largest shift in pixels, in both directions; uncovered pixels are black
};

class LabeledImages : public ImageSet {
 public:
  struct Shape {
    int64_t channels, size, classes;  // images are size x size pixels, labels are below `classes`
  };
  // Throws Error (data) if images or labels do not have this shape.
  LabeledImages(ImageArrays arrays, const Shape& shape, const Augmentation& augmentation);

  int64_t count() const override { return static_cast<int64_t>(arrays_.labels.size()); }
  ImageBatch training_batch(uint64_t seed, int64_t first_sample, int64_t count) const override;
  std::string fingerprint() const override;

  // Returns mean and deviation over all channels of all images.
  Normalization normalization() const { return normalization_of(arrays_.pixels); }

 private:
  ImageBatch stored_images(int64_t first_image, int64_t count) const override;

  struct View {  // changes of an image: flipped, then shifted right and down
    bool flipped = false;
    int64_t right = 0, down = 0;
  };
  ImageBatch batch(int64_t count) const;
  void read_image(int64_t image, const View& view, int64_t row, const ImageBatch& batch) const;

  ImageArrays arrays_;
  Augmentation augmentation_;
  int64_t size_;
};

}  // namespace strata::trainer

// SPDX-License-Identifier: MIT
// Labelled images of one size that lie in memory: what the IDX format and safetensors hold.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trainer/data/images/image_set.h"
#include "trainer/data/images/normalization.h"

namespace strata::trainer {

struct ImageArrays {
  std::string images_from, labels_from;  // for messages
  int64_t channels = 0, height = 0, width = 0;
  std::vector<uint8_t> pixels;  // [N, C, H, W]
  std::vector<int64_t> labels;  // [N]
};

// Two IDX files. Throws Error (data) for every kind of broken file, and when they do not belong together.
ImageArrays read_idx_images(const std::string& images_path, const std::string& labels_path);

// One safetensors file with the tensors `images` (U8, N x C x H x W) and `labels` (I64, I32 or U8, N). Throws in the
// same way.
ImageArrays read_safetensors_images(const std::string& path);

// What happens to a training image before it is seen, differently in each epoch.
struct Augmentation {
  bool flip = false;  // every second image is mirrored, on average
  int64_t shift = 0;  // by up to so many pixels in both directions; what comes in from outside is black
};

class LabelledImages : public ImageSet {
 public:
  struct Shape {
    int64_t channels, size, classes;  // images are size x size pixels, labels are below `classes`
  };
  // Throws Error (data) for images or labels that do not have this shape.
  LabelledImages(ImageArrays arrays, const Shape& shape, const Augmentation& augmentation);

  int64_t count() const override { return static_cast<int64_t>(arrays_.labels.size()); }
  ImageBatch training_batch(uint64_t seed, int64_t first_sample, int64_t count) const override;
  ImageBatch evaluation_batch(int64_t first_image, int64_t count) const override;
  std::string fingerprint() const override;

  // Over all channels of all images.
  Normalization normalization() const { return normalization_of(arrays_.pixels); }

 private:
  struct View {  // of an image: mirrored, then moved right and down
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

// SPDX-License-Identifier: MIT
// Labelled images, wherever they come from, as batches of pixels: a function of (seed, sample), never of the rank
// count.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

namespace strata::trainer {

using at::Tensor;

struct ImageBatch {
  Tensor images;  // uint8 [B, C, H, W], in either memory format: a fourth of the bytes that travel to a GPU as fp32
  Tensor labels;  // int64 [B]; -100: an image that could not be read, all black, which counts nothing
};

class ImageSet {
 public:
  virtual ~ImageSet() = default;

  virtual int64_t count() const = 0;
  // Samples first_sample, ... of the endless training order. Sample p belongs to epoch p / count(); each epoch visits
  // each image once, in an order of its own. By one thread at a time.
  virtual ImageBatch training_batch(uint64_t seed, int64_t first_sample, int64_t count) const = 0;
  // Images first_image, ... in their own order. Requires first_image + count <= count().
  virtual ImageBatch evaluation_batch(int64_t first_image, int64_t count) const = 0;
  // The same for the same content: hexadecimal digits.
  virtual std::string fingerprint() const = 0;
  // One line for each image that could not be read and has not been given: file and reason. From any thread.
  virtual std::vector<std::string> take_bad_images() const { return {}; }
};

}  // namespace strata::trainer

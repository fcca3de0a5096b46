// SPDX-License-Identifier: MIT
// Batches of labeled images from any source, as a function of (seed, sample), which does not depend on the number of
// ranks.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

namespace strata::trainer {

using at::Tensor;

struct ImageBatch {
  Tensor images;  // uint8 [B, C, H, W], any memory format: a fourth of fp32's bytes to copy to a GPU
  Tensor labels;  // int64 [B]; -100 marks an unreadable image, which is black and ignored by the loss
};

class ImageSet {
 public:
  virtual ~ImageSet() = default;

  virtual int64_t count() const = 0;
  // Returns samples first_sample, ... of the endless training order. Sample p belongs to epoch p / count(). Each epoch
  // visits each image once, in its own order. One thread may call this at a time.
  virtual ImageBatch training_batch(uint64_t seed, int64_t first_sample, int64_t count) const = 0;
  // Returns images first_image, ... in stored order. Requires first_image + count <= count().
  ImageBatch evaluation_batch(int64_t first_image, int64_t count) const;
  // Returns hexadecimal digits that are the same for the same content.
  virtual std::string fingerprint() const = 0;
  // Returns one line, file and reason, for each unreadable image that was not returned before. Any thread may call
  // this.
  virtual std::vector<std::string> take_bad_images() const { return {}; }

 private:
  // The batch of evaluation_batch(), after its check.
  virtual ImageBatch stored_images(int64_t first_image, int64_t count) const = 0;
};

}  // namespace strata::trainer

// SPDX-License-Identifier: MIT
#include "trainer/data/images/image_set.h"

#include "base/errors.h"

namespace strata::trainer {

ImageBatch ImageSet::evaluation_batch(int64_t first_image, int64_t count) const {
  if (first_image < 0 || count < 0 || first_image + count > this->count()) {
    throw Error(ExitCode::internal, "images " + std::to_string(first_image) + " to " +
                                        std::to_string(first_image + count) + " of " + std::to_string(this->count()));
  }
  return stored_images(first_image, count);
}

}  // namespace strata::trainer

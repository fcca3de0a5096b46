// SPDX-License-Identifier: MIT
#include "trainer/data/images/encoded_images.h"

#include <ATen/ops/empty.h>
#include <c10/core/GradMode.h>
#include <c10/core/MemoryFormat.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <exception>
#include <functional>
#include <thread>

#include "base/permutation.h"
#include "base/text/printable.h"
#include "trainer/data/ignored_label.h"
#include "trainer/data/images/image_view.h"

namespace strata::trainer {
namespace {

// Calls work(i) for each i in [0, count) on `threads` threads, and rethrows the first exception.
void for_each_index(int64_t count, int64_t threads, const std::function<void(int64_t)>& work) {
  std::atomic<int64_t> next = 0;
  std::exception_ptr failure;
  std::mutex mutex;
  const auto run = [&] {
    const at::NoGradGuard no_gradients;  // the guard is thread-local
    try {
      for (int64_t i = next++; i < count; i = next++) work(i);
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (!failure) failure = std::current_exception();
      next = count;
    }
  };
  std::vector<std::jthread> others;
  for (int64_t i = 1; i < std::min(threads, count); ++i) others.emplace_back(run);
  run();
  others.clear();
  if (failure) std::rethrow_exception(failure);
}

}  // namespace

void EncodedImages::show(const Choice& choice, uint8_t* square) const {
  const auto [channels, size] = std::pair(options_.channels, options_.size);
  const std::string file = files_->read(choice.image), name = files_->name(choice.image);
  thread_local Pixels pixels;  // its memory is reused for all images of a thread
  if (!choice.training) {
    const auto all = [](int64_t height, int64_t width) { return Box{0, 0, height, width}; };
    decode_image(file, name, channels, all, pixels);
    return cut_middle(pixels, channels, size, options_.share, square);
  }
  Draws draws(choice.key);
  const auto part = [&](int64_t height, int64_t width) { return random_box(height, width, options_.area, draws); };
  decode_image(file, name, channels, part, pixels);
  resize_to_square(pixels, channels, size, square);
  if (options_.flip && draws.uniform() < 0.5) mirror(square, channels, size);
}

ImageBatch EncodedImages::read(const std::vector<Choice>& choices) const {
  const auto count = static_cast<int64_t>(choices.size());
  const auto options = at::TensorOptions(at::kByte).memory_format(at::MemoryFormat::ChannelsLast);
  const ImageBatch batch = {at::empty({count, options_.channels, options_.size, options_.size}, options),
                            at::empty({count}, at::kLong)};
  const int64_t bytes = options_.channels * options_.size * options_.size;
  uint8_t* squares = batch.images.mutable_data_ptr<uint8_t>();
  int64_t* labels = batch.labels.mutable_data_ptr<int64_t>();
  std::vector<int64_t> images;
  for (const Choice& choice : choices) images.push_back(choice.image);
  files_->fetch(images);
  for_each_index(count, options_.threads, [&](int64_t row) {
    const Choice& choice = choices[static_cast<size_t>(row)];
    try {
      show(choice, squares + row * bytes);
      labels[row] = files_->label(choice.image);
    } catch (const BadImage& problem) {
      std::memset(squares + row * bytes, 0, static_cast<size_t>(bytes));
      labels[row] = kIgnoredLabel;
      note_bad(choice.image, problem.what());
    }
  });
  return batch;
}

void EncodedImages::note_bad(int64_t image, const std::string& reason) const {
  const std::lock_guard lock(mutex_);
  // The name is made printable, because a line break in it would look like two images.
  if (bad_.insert(image).second) not_reported_.push_back(printable(files_->name(image)) + ": " + reason);
}

std::vector<std::string> EncodedImages::take_bad_images() const {
  const std::lock_guard lock(mutex_);
  return std::exchange(not_reported_, {});
}

ImageBatch EncodedImages::training_batch(uint64_t seed, int64_t first_sample, int64_t count) const {
  std::vector<Choice> choices;
  for (int64_t sample = first_sample; sample < first_sample + count; ++sample) {
    const uint64_t key = mix(seed, static_cast<uint64_t>(sample / this->count()));  // key of the epoch
    const int64_t image = files_->image_at(key, sample % this->count());
    choices.push_back({image, mix(~key, static_cast<uint64_t>(image)), /*training=*/true});
  }
  return read(choices);
}

ImageBatch EncodedImages::stored_images(int64_t first_image, int64_t count) const {
  std::vector<Choice> choices;
  for (int64_t image = first_image; image < first_image + count; ++image) choices.push_back({.image = image});
  return read(choices);
}

}  // namespace strata::trainer

// SPDX-License-Identifier: MIT
#include "trainer/ledger/data_hash.h"

#include <string>

#include "base/digest.h"
#include "base/errors.h"

namespace strata::trainer {
namespace {

uint64_t hash_of(at::IntArrayRef numbers, uint64_t seed) {
  return hash_bytes(numbers.data(), numbers.size() * sizeof(int64_t), seed);
}

// A permuted tensor, such as images that lie by pixels, is hashed as it lies, because a copy would take longer.
uint64_t hash_of(const Tensor& tensor, uint64_t seed) {
  const Tensor dense = tensor.is_non_overlapping_and_dense() ? tensor : tensor.contiguous();
  seed = hash_of(dense.sizes(), seed ^ static_cast<uint64_t>(dense.scalar_type()));
  seed = hash_of(dense.strides(), seed);
  return hash_bytes(dense.const_data_ptr(), dense.nbytes(), seed);
}

}  // namespace

uint64_t data_hash(const std::vector<MicroBatch>& batches) {
  uint64_t sum = 0;
  for (const MicroBatch& batch : batches) {
    auto hash = static_cast<uint64_t>(batch.first_sample);
    for (const Tensor& tensor : batch.tensors()) hash = hash_of(tensor, hash);
    sum += hash_bytes(&hash, sizeof hash, /*seed=*/0);
  }
  return sum;
}

std::vector<MicroBatch> DataHashes::keep(int64_t step, std::vector<MicroBatch> batches) {
  const uint64_t hash = data_hash(batches);
  const std::lock_guard lock(mutex_);
  kept_[static_cast<size_t>(step) % kept_.size()] = {step, hash};
  return batches;
}

uint64_t DataHashes::of(int64_t step) const {
  const std::lock_guard lock(mutex_);
  const Kept& kept = kept_[static_cast<size_t>(step) % kept_.size()];
  if (kept.step == step) return kept.hash;
  throw Error(ExitCode::internal, "the hash of the data of step " + std::to_string(step) + " is kept no more");
}

}  // namespace strata::trainer

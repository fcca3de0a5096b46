// SPDX-License-Identifier: MIT
// Batches of token windows from one or several token files, as a function of (seed, sample): never of the rank count.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "trainer/data/text/token_file.h"

namespace strata::trainer {

using at::Tensor;

struct TokenBatch {
  Tensor inputs, targets;  // int64 [B, T]; targets are the inputs one token later
};

// A window is sequence + 1 tokens of one file; windows follow each other every `sequence` tokens, so that each token is
// predicted once. What is left at the end of a file is no window.
class TokenCorpus {
 public:
  // `pattern` is a file name or a glob (data/train_*.bin, sorted by name). Throws Error (data) for every kind of broken
  // file, and when there is not one window in all of them.
  TokenCorpus(std::string pattern, int64_t sequence, int64_t vocabulary);

  int64_t windows() const { return windows_; }
  int64_t tokens() const { return tokens_; }

  // Samples first_sample, ... of the endless training order. Sample p belongs to epoch p / windows(); each epoch visits
  // each window once in an order of its own, on a grid shifted by [0, sequence) tokens of its own, so that in the long
  // run every token is seen at every position. (A window that the shift pushes over the end of its file is moved back
  // to end with the file; hence the number of windows is the same in all epochs.)
  TokenBatch training_batch(uint64_t seed, int64_t first_sample, int64_t count) const;

  // Windows first_window, ... in the order of the files, not shifted. Requires first_window + count <= windows().
  TokenBatch evaluation_batch(int64_t first_window, int64_t count) const;

  // Bytes of text behind a token on average, from the sidecars FILE.json that `strata prepare text` writes; nothing
  // when a file has none. Throws Error (data) when a sidecar cannot be read or describes another file.
  std::optional<double> bytes_per_token() const;

  // The same for the same files in any folder: 16 hexadecimal digits over names, sizes and samples of the content.
  std::string fingerprint() const;

 private:
  TokenBatch batch(int64_t count) const;
  void read_window(int64_t window, int64_t shift, int64_t row, const TokenBatch& batch) const;

  std::string pattern_;
  int64_t sequence_, vocabulary_;
  std::vector<TokenFile> files_;
  std::vector<int64_t> windows_before_;  // per file, and the total at the end
  int64_t windows_ = 0, tokens_ = 0;
};

}  // namespace strata::trainer

// SPDX-License-Identifier: MIT
// Batches of token windows from token files, as a function of (seed, sample), which does not depend on the number of
// ranks.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "trainer/data/text/document_ends.h"
#include "trainer/data/text/token_file.h"

namespace strata::trainer {

using at::Tensor;

struct TokenBatch {
  Tensor inputs, targets;  // int64 [B, T]; targets are the inputs one token later
  // Undefined unless documents are separate. See kernels::AttentionMask for the offsets, int32. Each row has room for
  // as many documents as any window of the corpus has, and what it does not need are empty documents at its end. So all
  // batches of a corpus have the same shapes. Positions are int64 [B, T] and start at 0 in each document.
  Tensor document_offsets = {}, positions = {};
};

// A window is sequence + 1 tokens of one file. Windows start every `sequence` tokens, so that each token is predicted
// once. Tokens left over at the end of a file belong to no window.
//
// If documents are separate, a document that reaches over the border of a window is one document in each. No token is
// predicted from another document: the last token of each document has the label kIgnoredLabel.
class TokenCorpus {
 public:
  // `pattern` is a file name or a glob (data/train_*.bin, sorted by name). Throws Error (data) if a file is broken, if
  // its sidecar is damaged or names tokens outside of the vocabulary, or if all files together have no window. With
  // `separate_documents` also if it is not known where documents end.
  TokenCorpus(std::string pattern, int64_t sequence, int64_t vocabulary, bool separate_documents = false);

  int64_t windows() const { return windows_; }
  int64_t tokens() const { return tokens_; }

  // Returns samples first_sample, ... of the endless training order. Sample p belongs to epoch p / windows(). Each
  // epoch visits each window once, in its own order. Its windows are shifted by its own offset in [0, sequence) tokens,
  // so that in the long run every token is seen at every position.
  //
  // A window that would pass the end of its file because of the shift is moved back to end with the file, so that all
  // epochs have the same number of windows.
  TokenBatch training_batch(uint64_t seed, int64_t first_sample, int64_t count) const;

  // Returns windows first_window, ... in the order of the files, without a shift, and then `padding` rows of token 0
  // whose labels are all kIgnoredLabel. Requires first_window + count <= windows().
  TokenBatch evaluation_batch(int64_t first_window, int64_t count, int64_t padding = 0) const;

  // Returns the lengths of the documents in a window of evaluation_batch(). Reads no token, so a damaged one that no
  // batch has is no error. Requires separate documents.
  std::vector<int64_t> document_lengths(int64_t window) const;

  // Returns the mean number of bytes of text per token, from the sidecars FILE.json that `strata prepare text` writes,
  // or nothing if a file has no sidecar. Throws Error (data) if a sidecar cannot be read or describes another file.
  std::optional<double> bytes_per_token() const;

  // Returns 16 hexadecimal digits that are the same for the same files in any folder: a hash of names, sizes and
  // samples of the content.
  std::string fingerprint() const;

 private:
  // Where a window lies.
  struct Place {
    size_t file;
    int64_t first;  // token
  };

  Place place_of(int64_t window, int64_t shift) const;
  TokenBatch padding_batch(int64_t count) const;
  void read_window(int64_t window, int64_t shift, int64_t row, const TokenBatch& batch) const;
  void separate(const DocumentEnds& ends, int64_t first, int64_t row, const TokenBatch& batch) const;

  std::string pattern_;
  int64_t sequence_, vocabulary_;
  std::vector<TokenFile> files_;
  std::vector<int64_t> windows_before_;  // windows before each file, and the total at the end
  std::vector<DocumentEnds> ends_;       // ends of the documents of each file; empty if documents are joined
  int64_t windows_ = 0, tokens_ = 0;
  int64_t most_documents_in_row_ = 0;  // 0: documents are joined
};

}  // namespace strata::trainer

// SPDX-License-Identifier: MIT
#include "trainer/data/text/token_corpus.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <numeric>
#include <utility>

#include "base/errors.h"
#include "base/permutation.h"
#include "base/text/hex_digits.h"
#include "trainer/data/ignored_label.h"
#include "trainer/data/text/sidecar.h"

// B samples, T tokens of a sequence

namespace strata::trainer {
namespace {

// Each token file stays open. The usual limit is 1024 open files, which a process may raise up to its hard limit.
void allow_more_open_files(size_t count) {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur += std::min<rlim_t>(count, limit.rlim_max - limit.rlim_cur);
  setrlimit(RLIMIT_NOFILE, &limit);  // if this fails, the file that cannot be opened says so
}

// The first token above the vocabulary would end the run, maybe hours later. The vocabulary of the tokenizer counts
// only if the largest token is not known, because a tokenizer may have added tokens that no text has.
void check_vocabulary(const TokenFile& file, int64_t vocabulary) {
  const std::optional<Sidecar> sidecar = read_sidecar(file);
  if (!sidecar) return;
  const auto limit = static_cast<uint64_t>(vocabulary);
  const std::optional<uint64_t> largest = sidecar->largest_token;
  if (largest ? *largest < limit : sidecar->vocabulary.value_or(0) <= limit) return;
  const std::string model = std::to_string(vocabulary);
  throw Error(
      ExitCode::data,
      file.path() + ".json: the text was prepared with " +
          (largest ? "tokens up to " + std::to_string(*largest)
                   : "a vocabulary of " + std::to_string(*sidecar->vocabulary)) +
          "; expected tokens below model.vocabulary, " + model +
          ". Set model.vocabulary to that of the tokenizer, or prepare the text with the tokenizer of the model" +
          (largest ? "" : ". If no token is " + model + " or above, remove this file"));
}

DocumentEnds ends_of(const TokenFile& file, int64_t window) {
  std::error_code problem;
  const auto found = std::filesystem::status(file.path() + ".documents", problem);
  if (found.type() == std::filesystem::file_type::not_found) {
    throw Error(ExitCode::data, file.path() + ": there is no " +
                                    std::filesystem::path(file.path()).filename().string() +
                                    ".documents beside it, which says where documents end and which data.documents: "
                                    "separate needs; prepare the text again with tools/strata prepare text, or set "
                                    "data.documents: joined");
  }
  return {file, window};
}

}  // namespace

TokenCorpus::TokenCorpus(std::string pattern, int64_t sequence, int64_t vocabulary, bool separate_documents)
    : pattern_(std::move(pattern)), sequence_(sequence), vocabulary_(vocabulary) {
  const std::vector<std::string> paths = token_paths(pattern_);
  allow_more_open_files(paths.size() * (separate_documents ? 2 : 1));
  for (const std::string& path : paths) {
    files_.emplace_back(path);
    check_vocabulary(files_.back(), vocabulary_);
    if (separate_documents) {
      // The first document of a row begins at its first token. Each of the other sequence - 1 tokens may begin another.
      ends_.push_back(ends_of(files_.back(), sequence_ - 1));
      most_documents_in_row_ = std::max(most_documents_in_row_, 1 + ends_.back().most_in_window());
    }
    windows_before_.push_back(windows_);
    windows_ += (files_.back().tokens() - 1) / sequence_;
    tokens_ += files_.back().tokens();
  }
  windows_before_.push_back(windows_);
  if (windows_ == 0) {
    throw Error(ExitCode::data, pattern_ + ": " + std::to_string(tokens_) + " tokens in " +
                                    std::to_string(files_.size()) + (files_.size() == 1 ? " file" : " files") +
                                    ", not enough for one window of " + std::to_string(sequence_ + 1) +
                                    "; take more text or a shorter model.sequence");
  }
}

// Returns `count` rows of one document each, in which no token is predicted. read_window() overwrites a row.
TokenBatch TokenCorpus::padding_batch(int64_t count) const {
  TokenBatch result{at::zeros({count, sequence_}, at::kLong), at::full({count, sequence_}, kIgnoredLabel, at::kLong)};
  if (most_documents_in_row_ == 0) return result;
  result.document_offsets = at::full({count * most_documents_in_row_ + 1}, count * sequence_, at::kInt);
  for (int64_t row = 0; row < count; ++row) {
    int32_t* const offsets = result.document_offsets.mutable_data_ptr<int32_t>() + row * most_documents_in_row_;
    std::fill_n(offsets, most_documents_in_row_, static_cast<int32_t>((row + 1) * sequence_));
    offsets[0] = static_cast<int32_t>(row * sequence_);
  }
  result.positions = at::arange(sequence_, at::kLong).repeat({count, 1});
  return result;
}

TokenCorpus::Place TokenCorpus::place_of(int64_t window, int64_t shift) const {
  const auto after = std::upper_bound(windows_before_.begin(), windows_before_.end(), window);
  const size_t file = after - windows_before_.begin() - 1;
  return {file, std::min(shift + (window - windows_before_[file]) * sequence_, files_[file].tokens() - 1 - sequence_)};
}

std::vector<int64_t> TokenCorpus::document_lengths(int64_t window) const {
  const auto [index, first] = place_of(window, /*shift=*/0);
  std::vector<int64_t> lengths;
  int64_t begin = first;
  for (const int64_t end : ends_.at(index).between(first + 1, first + sequence_ - 1)) {
    lengths.push_back(end - begin);
    begin = end;
  }
  lengths.push_back(first + sequence_ - begin);
  return lengths;
}

void TokenCorpus::read_window(int64_t window, int64_t shift, int64_t row, const TokenBatch& batch) const {
  const auto [index, first] = place_of(window, shift);
  const TokenFile& file = files_[index];
  std::vector<int64_t> ids(sequence_ + 1);
  file.read(first, sequence_ + 1, ids.data());
  for (int64_t i = 0; i <= sequence_; ++i) {
    if (ids[i] < vocabulary_) continue;
    throw Error(ExitCode::data, file.path() + ": token " + std::to_string(first + i) + " is " + std::to_string(ids[i]) +
                                    ", outside of the vocabulary of " + std::to_string(vocabulary_) +
                                    " (model.vocabulary); was the text prepared with another tokenizer?");
  }
  const size_t bytes = sequence_ * sizeof(int64_t);
  std::memcpy(batch.inputs.mutable_data_ptr<int64_t>() + row * sequence_, ids.data(), bytes);
  std::memcpy(batch.targets.mutable_data_ptr<int64_t>() + row * sequence_, ids.data() + 1, bytes);
  if (!ends_.empty()) separate(ends_[index], first, row, batch);
}

// Writes the documents of a row that begins with token `first` of a file.
void TokenCorpus::separate(const DocumentEnds& ends, int64_t first, int64_t row, const TokenBatch& batch) const {
  int32_t* const offsets = batch.document_offsets.mutable_data_ptr<int32_t>() + row * most_documents_in_row_;
  int64_t* const positions = batch.positions.mutable_data_ptr<int64_t>() + row * sequence_;
  int64_t* const targets = batch.targets.mutable_data_ptr<int64_t>() + row * sequence_;
  int64_t document = 0, begin = 0;  // the place in the row at which the document begins
  const auto number = [&](int64_t stop) { std::iota(positions + begin, positions + stop, 0); };
  for (const int64_t end : ends.between(first + 1, first + sequence_)) {
    const int64_t next_document = end - first;  // place in the row of the next document's first token
    targets[next_document - 1] = kIgnoredLabel;
    if (next_document == sequence_) break;
    if (++document == most_documents_in_row_) {
      throw Error(ExitCode::data, ends.path() +
                                      ": was changed while in use: a window has more documents than before; "
                                      "restore it and resume the run");
    }
    offsets[document] = static_cast<int32_t>(row * sequence_ + next_document);
    number(next_document);
    begin = next_document;
  }
  number(sequence_);
}

TokenBatch TokenCorpus::training_batch(uint64_t seed, int64_t first_sample, int64_t count) const {
  const TokenBatch result = padding_batch(count);
  for (int64_t row = 0; row < count; ++row) {
    const int64_t sample = first_sample + row;
    const uint64_t key = mix(seed, sample / windows_);  // key of the epoch
    const int64_t shift = static_cast<int64_t>(mix(key, /*stream=*/1) % static_cast<uint64_t>(sequence_));
    read_window(permuted(key, sample % windows_, windows_), shift, row, result);
  }
  return result;
}

TokenBatch TokenCorpus::evaluation_batch(int64_t first_window, int64_t count, int64_t padding) const {
  if (first_window < 0 || count < 0 || first_window + count > windows_) {
    throw Error(ExitCode::internal, pattern_ + ": windows " + std::to_string(first_window) + " to " +
                                        std::to_string(first_window + count) + " of " + std::to_string(windows_));
  }
  const TokenBatch result = padding_batch(count + padding);
  for (int64_t row = 0; row < count; ++row) read_window(first_window + row, /*shift=*/0, row, result);
  return result;
}

std::optional<double> TokenCorpus::bytes_per_token() const {
  double bytes = 0;
  for (const TokenFile& file : files_) {
    const std::optional<Sidecar> sidecar = read_sidecar(file);
    if (!sidecar) return std::nullopt;
    bytes += static_cast<double>(sidecar->bytes);
  }
  return bytes / static_cast<double>(tokens_);
}

std::string TokenCorpus::fingerprint() const {
  // Hashes 64 blocks of 4096 tokens per file: all of a small file, and a large file in 10 ms.
  constexpr int64_t kBlocks = 64, kBlock = 4096;
  uint64_t hash = 0;
  std::vector<int64_t> ids(kBlock);
  for (const TokenFile& file : files_) {
    for (const char letter : std::filesystem::path(file.path()).filename().string()) {
      hash = mix(hash, static_cast<unsigned char>(letter));
    }
    hash = mix(mix(hash, file.tokens()), file.bytes_per_id());
    const int64_t step = std::max(kBlock, file.tokens() / kBlocks);
    for (int64_t first = 0; first < file.tokens(); first += step) {
      const int64_t count = std::min(kBlock, file.tokens() - first);
      file.read(first, count, ids.data());
      for (int64_t i = 0; i < count; ++i) hash = mix(hash, ids[i]);
    }
  }
  for (const DocumentEnds& ends : ends_) hash = mix(hash, ends.hash());
  return hex_digits(hash);
}

}  // namespace strata::trainer

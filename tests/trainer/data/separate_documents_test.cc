// SPDX-License-Identifier: MIT
// Batches of a TokenCorpus that keeps documents apart.
#include <gtest/gtest.h>

#include <filesystem>
#include <numeric>

#include "base/errors.h"
#include "base/permutation.h"
#include "tests/trainer/data/token_files.h"
#include "trainer/data/ignored_label.h"
#include "trainer/data/text/token_corpus.h"

namespace strata::trainer {
namespace {

constexpr int64_t kSequence = 8, kVocabulary = 100000;

template <class Number>
std::vector<int64_t> values(const Tensor& tensor) {
  const Number* data = tensor.const_data_ptr<Number>();
  return {data, data + tensor.numel()};
}

// Writes tokens 0, 1, 2, ... in documents of these lengths.
std::string write_documents(const std::string& name, const std::vector<int32_t>& lengths) {
  std::vector<int32_t> ends(lengths.size());
  std::partial_sum(lengths.begin(), lengths.end(), ends.begin());
  write_document_ends(name, ends);
  return write_tokens(name, counting(ends.back(), kVocabulary));
}

TokenCorpus separate(const std::string& path) { return {path, kSequence, kVocabulary, /*separate_documents=*/true}; }

TEST(SeparateDocuments, OfAWindowAreWritten) {
  // The second window begins in a document and ends with one, and the third is the middle of a long one.
  const TokenCorpus corpus = separate(write_documents("some.bin", {3, 1, 7, 5, 20}));
  const TokenBatch batch = corpus.evaluation_batch(0, 3);
  EXPECT_EQ(values<int64_t>(batch.inputs)[8], 8);
  EXPECT_EQ(values<int32_t>(batch.document_offsets), (std::vector<int64_t>{0, 3, 4, 8, 11, 16, 16, 24, 24, 24}));
  EXPECT_EQ(values<int64_t>(batch.positions),
            (std::vector<int64_t>{0, 1, 2, 0, 0, 1, 2, 3, 0, 1, 2, 0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 5, 6, 7}));
  const int64_t none = kIgnoredLabel;
  EXPECT_EQ(values<int64_t>(batch.targets),
            (std::vector<int64_t>{1,  2,  none, none, 5,  6,  7,  8,  9,  10, none, 12,
                                  13, 14, 15,   none, 17, 18, 19, 20, 21, 22, 23,   24}));
}

TEST(SeparateDocuments, LengthsInWindows) {
  const TokenCorpus corpus = separate(write_documents("lengths.bin", {3, 1, 7, 5, 20}));
  EXPECT_EQ(corpus.document_lengths(0), (std::vector<int64_t>{3, 1, 4}));
  EXPECT_EQ(corpus.document_lengths(1), (std::vector<int64_t>{3, 5}));
  EXPECT_EQ(corpus.document_lengths(2), (std::vector<int64_t>{8}));
}

TEST(SeparateDocuments, LengthsDoNotNeedTokens) {
  std::vector<uint32_t> tokens = counting(40, kVocabulary);
  tokens[2] = 40;
  const std::string path = write_tokens("damaged.bin", tokens);
  write_document_ends("damaged.bin", {5, 40});
  const TokenCorpus corpus(path, kSequence, /*vocabulary=*/40, /*separate_documents=*/true);
  EXPECT_THROW(corpus.evaluation_batch(0, 1), Error);
  EXPECT_EQ(corpus.document_lengths(0), (std::vector<int64_t>{5, 3}));
}

TEST(SeparateDocuments, PaddingIsADocumentInEachRow) {
  const TokenCorpus corpus = separate(write_documents("padded.bin", {3, 1, 7, 5, 20}));
  for (const int64_t count : {0, 1}) {
    const TokenBatch batch = corpus.evaluation_batch(0, count, /*padding=*/2 - count);
    EXPECT_EQ(batch.inputs.sizes(), (at::IntArrayRef{2, kSequence}));
    const std::vector<int64_t> offsets = values<int32_t>(batch.document_offsets);
    EXPECT_EQ(std::vector<int64_t>(offsets.begin() + 3, offsets.end()), (std::vector<int64_t>{8, 16, 16, 16}));
    EXPECT_EQ(batch.targets.slice(0, count).ne(kIgnoredLabel).sum().item<int64_t>(), 0);
    EXPECT_EQ(batch.positions.select(0, 1).sum().item<int64_t>(), kSequence * (kSequence - 1) / 2);
  }
}

// Compares a row with the definition, token by token. The input at each place is the place of the token in the file.
void expect_row_is_right(const TokenBatch& batch, int64_t row, const std::vector<int64_t>& document_of) {
  const std::vector<int64_t> inputs = values<int64_t>(batch.inputs[row]), targets = values<int64_t>(batch.targets[row]),
                             positions = values<int64_t>(batch.positions[row]);
  std::vector<int64_t> starts;
  for (int64_t i = 0; i < kSequence; ++i) {
    const int64_t place = inputs[i];
    const bool begins = i == 0 || document_of[place] != document_of[place - 1];
    if (begins) starts.push_back(row * kSequence + i);
    EXPECT_EQ(positions[i], row * kSequence + i - starts.back());
    EXPECT_EQ(targets[i], document_of[place] == document_of[place + 1] ? place + 1 : kIgnoredLabel);
  }
  const std::vector<int64_t> offsets = values<int32_t>(batch.document_offsets);
  const int64_t of_row = static_cast<int64_t>(offsets.size() - 1) / batch.inputs.size(0);
  starts.resize(of_row, (row + 1) * kSequence);
  EXPECT_EQ(std::vector<int64_t>(offsets.begin() + row * of_row, offsets.begin() + (row + 1) * of_row), starts);
  EXPECT_EQ(offsets.back(), batch.inputs.numel());
}

TEST(SeparateDocuments, AreThoseOfTheDefinitionInAnyPacking) {
  for (const uint64_t longest : {1, 2, 8, 9, 30}) {
    std::vector<int32_t> lengths;
    std::vector<int64_t> document_of;
    for (uint64_t document = 0; document < 200; ++document) {
      // Documents that end exactly at the end of a row, of one token, and longer than a row occur for some `longest`.
      lengths.push_back(1 + static_cast<int32_t>(mix(longest, document) % longest));
      document_of.insert(document_of.end(), lengths.back(), static_cast<int64_t>(document));
    }
    const TokenCorpus corpus = separate(write_documents("random.bin", lengths));
    for (int64_t sample = 0; sample < 3 * corpus.windows(); sample += 3) {
      const TokenBatch batch = corpus.training_batch(/*seed=*/1, sample, 3);
      for (int64_t row = 0; row < 3; ++row) expect_row_is_right(batch, row, document_of);
    }
    // The number of rows alone decides the shapes of a batch, and samples do not depend on how they are asked for.
    const TokenBatch all = corpus.training_batch(/*seed=*/1, 0, 4), last = corpus.training_batch(/*seed=*/1, 3, 1);
    EXPECT_TRUE(all.positions[3].equal(last.positions[0]));
    EXPECT_EQ(all.document_offsets.numel() - 1, 4 * (last.document_offsets.numel() - 1));
  }
}

TEST(SeparateDocuments, DoNotChangeTheTokens) {
  const std::string path = write_documents("same.bin", {3, 1, 7, 5, 20});
  const TokenBatch joined = TokenCorpus(path, kSequence, kVocabulary).training_batch(1, 0, 4);
  EXPECT_TRUE(joined.inputs.equal(separate(path).training_batch(1, 0, 4).inputs));
  EXPECT_FALSE(joined.positions.defined() || joined.document_offsets.defined());
}

TEST(SeparateDocuments, ArePartOfTheFingerprint) {
  const auto fingerprint = [](const std::string& path) { return separate(path).fingerprint(); };
  const std::string first = fingerprint(write_documents("print.bin", {3, 1, 7, 5, 20}));
  EXPECT_EQ(first, fingerprint(write_documents("print.bin", {3, 1, 7, 5, 20})));
  EXPECT_NE(first, fingerprint(write_documents("print.bin", {3, 2, 6, 5, 20})));
  EXPECT_NE(first, TokenCorpus(write_documents("print.bin", {3, 1, 7, 5, 20}), kSequence, kVocabulary).fingerprint());
}

TEST(SeparateDocuments, NeedAFileThatSaysWhereTheyEnd) {
  const std::string path = write_documents("without.bin", {3, 1, 7, 5, 20});
  std::filesystem::remove(path + ".documents");
  EXPECT_EQ(TokenCorpus(path, kSequence, kVocabulary).windows(), 4);
  try {
    separate(path);
    FAIL() << "was accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::data);
    EXPECT_NE(std::string(error.what()).find(path + ": there is no without.bin.documents beside it"), std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace strata::trainer

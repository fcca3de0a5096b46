// SPDX-License-Identifier: MIT
#include "trainer/data/text/token_corpus.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <set>

#include "base/errors.h"
#include "tests/trainer/data/token_files.h"

namespace strata::trainer {
namespace {

std::vector<int64_t> values(const Tensor& tensor) {
  const int64_t* data = tensor.const_data_ptr<int64_t>();
  return {data, data + tensor.numel()};
}

// Returns the message of the error of `call`, which must be an error of the data.
template <class Call>
std::string refusal(Call call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::data);
    return error.what();
  }
  ADD_FAILURE() << "was accepted";
  return "";
}

std::string temporary(const std::string& name) { return std::string(std::getenv("TEST_TMPDIR")) + "/" + name; }

TEST(TokenCorpus, EvaluatesInOrderAndPredictsEachTokenOnce) {
  const TokenCorpus corpus(write_tokens("plain.bin", counting(100, 1000)), /*sequence=*/8, /*vocabulary=*/1000);
  EXPECT_EQ(corpus.tokens(), 100);
  ASSERT_EQ(corpus.windows(), 12);  // (100 - 1) / 8
  const auto [inputs, targets, document_offsets, positions] = corpus.evaluation_batch(0, 12);
  EXPECT_EQ(inputs.sizes(), (at::IntArrayRef{12, 8}));
  for (int64_t i = 0; i < 96; ++i) {
    EXPECT_EQ(values(inputs)[i], i);
    EXPECT_EQ(values(targets)[i], i + 1);
  }
  EXPECT_EQ(values(corpus.evaluation_batch(5, 1).inputs), (std::vector<int64_t>{40, 41, 42, 43, 44, 45, 46, 47}));
  EXPECT_THROW(corpus.evaluation_batch(12, 1), Error);
}

TEST(TokenCorpus, WindowsStayInsideTheirFile) {
  write_tokens("shard_1.bin", counting(17, 1000));                                  // two windows
  write_tokens("shard_2.bin", {100, 101, 102});                                     // none
  write_tokens("shard_0.bin", {200, 201, 202, 203, 204, 205, 206, 207, 208, 209});  // one
  const TokenCorpus corpus(temporary("shard_*.bin"), /*sequence=*/8, /*vocabulary=*/1000);
  ASSERT_EQ(corpus.windows(), 3);
  const Tensor inputs = corpus.evaluation_batch(0, 3).inputs;
  EXPECT_EQ(values(inputs.select(0, 0)).front(), 200);  // files are sorted by name
  EXPECT_EQ(values(inputs.select(0, 1)).front(), 0);
  EXPECT_EQ(values(inputs.select(0, 2)).front(), 8);
  for (int64_t sample = 0; sample < 30; ++sample) {
    const auto [row, next, document_offsets, positions] = corpus.training_batch(/*seed=*/1, sample, 1);
    for (int64_t i = 0; i < 8; ++i) EXPECT_EQ(values(row)[i] + 1, values(next)[i]);
  }
}

// Every window occurs once in each epoch. With the shift s of the epoch, window i starts at min(s + 8 i, 91).
TEST(TokenCorpus, AnEpochVisitsEachWindowOnce) {
  const TokenCorpus corpus(write_tokens("plain.bin", counting(100, 1000)), /*sequence=*/8, /*vocabulary=*/1000);
  std::set<int64_t> shifts;
  std::set<std::vector<int64_t>> orders;
  for (int64_t epoch = 0; epoch < 60; ++epoch) {
    const Tensor inputs = corpus.training_batch(/*seed=*/7, epoch * 12, 12).inputs;
    std::vector<int64_t> starts;
    for (int64_t row = 0; row < 12; ++row) starts.push_back(values(inputs.select(0, row)).front());
    orders.insert(starts);
    std::sort(starts.begin(), starts.end());
    for (int64_t i = 0; i < 12; ++i)
      ASSERT_EQ(starts[i], std::min<int64_t>(starts[0] + 8 * i, 91)) << "epoch " << epoch;
    shifts.insert(starts[0]);
  }
  EXPECT_EQ(shifts, (std::set<int64_t>{0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(orders.size(), 60u);
}

TEST(TokenCorpus, ASampleDoesNotDependOnItsBatch) {
  const TokenCorpus corpus(write_tokens("plain.bin", counting(100, 1000)), /*sequence=*/8, /*vocabulary=*/1000);
  const Tensor all = corpus.training_batch(/*seed=*/3, 0, 30).inputs;  // crosses the ends of two epochs
  for (int64_t sample = 0; sample < 30; ++sample) {
    EXPECT_EQ(values(corpus.training_batch(/*seed=*/3, sample, 1).inputs), values(all.select(0, sample)));
  }
  EXPECT_NE(values(corpus.training_batch(/*seed=*/4, 0, 30).inputs), values(all));
}

TEST(TokenCorpus, NamesATokenOutsideOfTheVocabulary) {
  std::vector<uint32_t> ids = counting(100, 50);
  ids[37] = 50;
  const TokenCorpus corpus(write_tokens("outside.bin", ids), /*sequence=*/8, /*vocabulary=*/50);
  EXPECT_NO_THROW(corpus.evaluation_batch(0, 4));
  const std::string message = refusal([&] { corpus.evaluation_batch(4, 1); });
  EXPECT_NE(message.find("outside.bin: token 37 is 50, outside of the vocabulary of 50"), std::string::npos) << message;
}

TEST(TokenCorpus, RefusesTextOfALargerVocabularyOrADamagedSidecarAtTheStart) {
  const std::string path = write_tokens("other.bin", counting(100, 50));
  write_bytes("other.bin.json", R"({"bytes": 500, "tokens": 100, "vocabulary": 300})");
  EXPECT_EQ(TokenCorpus(path, 8, 300).windows(), 12);
  const std::string message = refusal([&] { TokenCorpus(path, 8, 256); });
  EXPECT_NE(message.find("other.bin.json: the text was prepared with a vocabulary of 300; expected tokens below "
                         "model.vocabulary, 256. Set model.vocabulary to"),
            std::string::npos)
      << message;
  // A tokenizer may have added tokens that the text has not.
  write_bytes("other.bin.json", R"({"bytes": 500, "tokens": 100, "vocabulary": 300, "largest_token": 255})");
  EXPECT_EQ(TokenCorpus(path, 8, 256).windows(), 12);
  EXPECT_NE(refusal([&] { TokenCorpus(path, 8, 255); }).find("with tokens up to 255; expected tokens below"),
            std::string::npos);
  write_bytes("other.bin.json", R"({"bytes": 500)");
  EXPECT_NE(refusal([&] { TokenCorpus(path, 8, 256); }).find("other.bin.json: expected a JSON object"),
            std::string::npos);
  std::filesystem::remove(temporary("other.bin.json"));
  EXPECT_EQ(TokenCorpus(path, 8, 50).windows(), 12);
}

TEST(TokenCorpus, RefusesWhatCannotBeTrainedOn) {
  EXPECT_NE(refusal([] { TokenCorpus(temporary("nothing_*.bin"), 8, 50); }).find("no such file"), std::string::npos);
  EXPECT_NE(refusal([] { TokenCorpus(temporary("nothing.bin"), 8, 50); }).find("no such file"), std::string::npos);
  const std::string nowhere = refusal([] { TokenCorpus(temporary("no-folder/a_*.bin"), 8, 50); });
  EXPECT_NE(nowhere.find("a_*.bin: " + temporary("no-folder") + ": No such file or directory; write"),
            std::string::npos)
      << nowhere;
  EXPECT_NE(refusal([] { TokenCorpus(temporary(std::string(300, 'n')), 8, 50); }).find("File name too long; write"),
            std::string::npos);
  const std::string path = write_tokens("short.bin", counting(8, 50));
  EXPECT_NE(refusal([&] { TokenCorpus(path, 8, 50); }).find("not enough for one window of 9"), std::string::npos);
  write_tokens("mixed_0.bin", counting(100, 50));
  write_bytes("mixed_1.bin", "foreign");
  EXPECT_NE(refusal([] { TokenCorpus(temporary("mixed_*.bin"), 8, 50); }).find("mixed_1.bin"), std::string::npos);
}

TEST(TokenCorpus, NamesAFileThatShrinksWhileTraining) {
  const std::string path = write_tokens("shrinks.bin", counting(1000, 50));
  const TokenCorpus corpus(path, /*sequence=*/8, /*vocabulary=*/50);
  EXPECT_NO_THROW(corpus.training_batch(/*seed=*/1, 0, 124));
  ASSERT_EQ(truncate(path.c_str(), 1024 + 1000), 0);
  EXPECT_NE(refusal([&] { corpus.training_batch(/*seed=*/1, 0, 124); }).find(path), std::string::npos);
}

TEST(TokenCorpus, HasMoreFilesThanTheSoftLimitOfOpenFiles) {
  for (int file = 100; file < 180; ++file) {
    write_tokens("many_" + std::to_string(file) + ".bin", counting(17, 1000));
  }
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit few = before;
  few.rlim_cur = 64;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  EXPECT_NO_THROW(EXPECT_EQ(TokenCorpus(temporary("many_*.bin"), 8, 1000).windows(), 160));
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
}

TEST(TokenCorpus, TakesANameWithABracketLiterally) {
  const std::string path = write_tokens("data[1].bin", counting(100, 50));
  EXPECT_EQ(TokenCorpus(path, 8, 50).windows(), 12);
}

TEST(TokenCorpus, CountsBytesOfTextFromTheSidecars) {
  write_tokens("text_0.bin", counting(100, 50));
  write_tokens("text_1.bin", counting(300, 50));
  const TokenCorpus corpus(temporary("text_*.bin"), 8, 50);
  EXPECT_FALSE(corpus.bytes_per_token().has_value());
  write_bytes("text_0.bin.json", R"({"bytes": 500, "tokens": 100})");
  EXPECT_FALSE(corpus.bytes_per_token().has_value()) << "one of two is not enough";
  write_bytes("text_1.bin.json", R"({"bytes": 1100, "tokens": 300, "tokenizer": "bpe"})");
  EXPECT_DOUBLE_EQ(corpus.bytes_per_token().value(), 4.0);
  for (const char* broken :
       {"", "{", "[1]", "3", R"({"bytes": 5})", R"({"bytes": -5, "tokens": 300})", R"({"bytes": 5.5, "tokens": 300})",
        R"({"bytes": 5, "tokens": "300"})", R"({"bytes": 5, "tokens": 301})", R"({"bytes": 0, "tokens": 300})",
        R"({"bytes": 4, "bytes": 5, "tokens": 300})", R"([{"bytes": 5, "tokens": 300}])",
        R"({"sources": {"bytes": 5}, "tokens": 300})", R"({"bytes": 5, "tokens": 300)"}) {
    write_bytes("text_1.bin.json", broken);
    EXPECT_NE(refusal([&] { corpus.bytes_per_token(); }).find("text_1.bin.json"), std::string::npos) << broken;
  }
}

TEST(TokenCorpus, ReadsASidecarThroughALinkAndNoPipe) {
  const TokenCorpus corpus(write_tokens("linked.bin", counting(100, 50)), 8, 50);
  const std::string path = temporary("linked.bin.json");
  std::filesystem::remove(path);
  std::filesystem::create_symlink(write_bytes("elsewhere.json", R"({"bytes": 500, "tokens": 100})"), path);
  EXPECT_DOUBLE_EQ(corpus.bytes_per_token().value(), 5.0);
  std::filesystem::remove(path);
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  ::alarm(60);  // ends a test that waits for a writer of the pipe
  EXPECT_NE(refusal([&] { corpus.bytes_per_token(); }).find("expected a regular file"), std::string::npos);
  ::alarm(0);
  std::filesystem::remove(path);
  write_bytes("linked.bin.json", std::string(17 << 20, ' '));
  EXPECT_NE(refusal([&] { corpus.bytes_per_token(); }).find("expected at most 16777216"), std::string::npos);
  std::filesystem::remove(path);
}

TEST(TokenCorpus, FingerprintIsThatOfNamesAndContent) {
  const auto fingerprint = [](const std::string& path) { return TokenCorpus(path, 8, 100000).fingerprint(); };
  std::vector<uint32_t> ids = counting(10000, 50);
  const std::string first = fingerprint(write_tokens("a.bin", ids));
  EXPECT_EQ(first.size(), 16u);
  EXPECT_EQ(first, fingerprint(write_tokens("a.bin", ids)));
  EXPECT_NE(first, fingerprint(write_tokens("b.bin", ids)));
  ids[9999] ^= 1;
  EXPECT_NE(first, fingerprint(write_tokens("a.bin", ids)));
  ids.pop_back();
  EXPECT_NE(first, fingerprint(write_tokens("a.bin", ids)));
}

}  // namespace
}  // namespace strata::trainer

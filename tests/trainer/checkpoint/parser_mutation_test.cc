// SPDX-License-Identifier: MIT
// Makes many small damages, the same in every run, to all untrusted files that are read. Each file is accepted in full
// or refused by an Error that names it, in bounded time. With sanitizers this is a fuzzer.
#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <random>

#include "base/digest.h"
#include "base/errors.h"
#include "tests/trainer/checkpoint/small_model.h"
#include "tests/trainer/config/config_texts.h"
#include "tests/trainer/data/token_files.h"
#include "tests/trainer/test_files.h"
#include "trainer/checkpoint/checkpoint_manifest.h"
#include "trainer/checkpoint/safetensors.h"
#include "trainer/data/text/token_corpus.h"
#include "trainer/data/text/token_file.h"

namespace strata::trainer {
namespace {

// Processor seconds for one text; enough for a sanitizer that makes everything ten times slower.
constexpr double kSecondsPerText = 5;

int runs(int usual) { return std::getenv("STRATA_TEST_ALL") == nullptr ? usual : 50 * usual; }

// Edits that are hard for parsers: bits, cut and doubled ranges, words of the format, numbers at the limits of types.
class Mutator {
 public:
  Mutator(std::string good, std::vector<std::string> words) : good_(std::move(good)), words_(std::move(words)) {
    for (const char* number : {"0", "-1", "1.5", "1e3", "9223372036854775807", "9223372036854775808", "1e999",
                               "18446744073709551615", "18446744073709551616", "null", "[]", "{}", "\"\"", "NaN"}) {
      words_.push_back(number);
    }
  }

  std::string next() {
    std::string text = good_;
    for (size_t edits = 1 + below(4); edits > 0; --edits) edit(text);
    return text;
  }

 private:
  size_t below(size_t size) { return std::uniform_int_distribution<size_t>(0, size - 1)(random_); }

  void edit(std::string& text) {
    if (text.empty()) return;
    const size_t at = below(text.size()), length = 1 + below(std::min<size_t>(40, text.size() - at));
    const size_t digit = text.find_first_of("0123456789", at);
    switch (below(7)) {
      case 0:
        text[at] = static_cast<char>(text[at] ^ 1 << below(8));
        break;
      case 1:
        text.erase(at, length);
        break;
      case 2:
        text.insert(below(text.size()), text, at, length);
        break;
      case 3:
        text.insert(at, words_[below(words_.size())]);
        break;
      case 4:
        text[at] = static_cast<char>(below(256));
        break;
      case 5:
        text.resize(at);
        break;
      default:
        if (digit == std::string::npos) return;
        text.replace(digit, text.find_first_not_of("0123456789", digit) - digit, words_[below(words_.size())]);
    }
  }

  std::mt19937_64 random_{1};
  const std::string good_;
  std::vector<std::string> words_;
};

struct Verdicts {
  int accepted = 0, refused = 0;
};

// `parse` throws, or checks what it has accepted. `name` must be in the message about a refused text.
Verdicts try_all(Mutator mutator, int count, ExitCode code, const std::string& name,
                 const std::function<void(const std::string& text)>& parse) {
  Verdicts verdicts;
  for (int i = 0; i < count && !testing::Test::HasFailure(); ++i) {
    const std::string text = mutator.next();
    const std::clock_t begin = std::clock();
    try {
      parse(text);
      ++verdicts.accepted;
    } catch (const Error& error) {
      ++verdicts.refused;
      EXPECT_EQ(error.code(), code) << error.what();
      EXPECT_NE(std::string(error.what()).find(name), std::string::npos) << error.what();
    } catch (const std::exception& error) {
      ADD_FAILURE() << "not an Error of ours: " << error.what();
    }
    EXPECT_LT(static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC, kSecondsPerText);
    if (testing::Test::HasFailure()) std::printf("text %d:\n%s\n", i, text.c_str());
  }
  std::printf("%s: %d accepted, %d refused\n", name.c_str(), verdicts.accepted, verdicts.refused);
  return verdicts;
}

TEST(ParserMutation, SafetensorsHeader) {
  SafetensorsHeader header;
  header.metadata = {{"format", "pt"}, {"step", "20"}};
  header.entries = {{.name = "a/master", .dtype = "F32", .shape = {13, 7}},
                    {.name = "b", .dtype = "BF16", .shape = {3}},
                    {.name = "scalar", .dtype = "I64"},
                    {.name = "empty", .dtype = "U8", .shape = {0, 5}}};
  const std::string file = place_safetensors(header);
  uint64_t data = 0;
  for (const SafetensorsEntry& entry : header.entries) data += entry.bytes;
  const Mutator mutator(file.substr(8), {"\"F32\"", "\"shape\"", "\"data_offsets\"", "\"dtype\"", "\"__metadata__\"",
                                         "{\"dtype\":\"F64\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,0]}",
                                         std::string(300, '['), "\\u0000", "\"a/master\""});
  const auto parse = [&](const std::string& text) {
    uint64_t next = 0;
    for (const SafetensorsEntry& entry : parse_safetensors_header(text, data, "shard").entries) {
      ASSERT_EQ(entry.begin, next);
      ASSERT_EQ(entry.bytes, bytes_of_dtype(entry.dtype).value() * static_cast<uint64_t>(element_count(entry.shape)));
      next += entry.bytes;
    }
    ASSERT_EQ(next, data);
  };
  const Verdicts verdicts = try_all(mutator, runs(20'000), ExitCode::storage, "shard", parse);
  EXPECT_GT(verdicts.accepted, 100);
  EXPECT_GT(verdicts.refused, 10'000);
}

// Mutates the whole file: length field, header and data.
TEST(ParserMutation, SafetensorsFile) {
  SafetensorsHeader header;
  header.entries = {{.name = "a", .dtype = "F32", .shape = {5}}};
  const std::string good = place_safetensors(header) + std::string(20, 'x');
  const Verdicts verdicts = try_all(Mutator(good, {std::string(8, '\xff'), std::string(8, '\0')}), runs(2'000),
                                    ExitCode::storage, "file.safetensors", [](const std::string& text) {
                                      const SafetensorsFile file(write_bytes("file.safetensors", text));
                                      for (const SafetensorsEntry& entry : file.header().entries) {
                                        std::string bytes(entry.bytes, '\0');
                                        file.read(entry, 0, bytes.data(), bytes.size());
                                      }
                                    });
  EXPECT_GT(verdicts.accepted, 20);
  EXPECT_GT(verdicts.refused, 1'000);
}

// The hash alone would refuse nearly all texts, so each text gets the right hash.
TEST(ParserMutation, Manifest) {
  const TemporaryFolder folder;
  save_small_model(folder.path(), 2, 20);
  const std::string good = read_file(folder.path() + "/step-00000020/manifest.json"), end = ",\n\"sha256\": \"";
  const Mutator mutator(good.substr(0, good.rfind(end)), {"\"step\": 20", "\"F32\"", "[[0,0,45]]", "[[1,-1,45]]",
                                                          "\"../x\"", std::string(300, '['), "\"files\"", "\\ud800"});
  const auto parse = [&](const std::string& text) {
    const std::string whole = text + end + sha256(text) + "\"\n}\n";
    const std::string written = to_text(parse_manifest(whole, "manifest.json"));
    ASSERT_EQ(to_text(parse_manifest(written, "written")), written);
  };
  const Verdicts verdicts = try_all(mutator, runs(5'000), ExitCode::storage, "manifest.json", parse);
  EXPECT_GT(verdicts.accepted, 10);
  EXPECT_GT(verdicts.refused, 2'000);
}

// A parser that looks through all former objects at the end of each one needs much longer for these 0.9 MB.
TEST(ParserMutation, ManifestOfManyObjects) {
  std::string text = "{\"shape\":[{}";
  for (int i = 1; i < 300'000; ++i) text += ",{}";
  text += "]";
  const std::string end = ",\n\"sha256\": \"";
  const std::clock_t begin = std::clock();
  EXPECT_THROW(parse_manifest(text + end + sha256(text) + "\"\n}\n", "manifest.json"), Damaged);
  EXPECT_LT(static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC, kSecondsPerText);
}

TEST(ParserMutation, TokenFile) {
  const std::string good = read_file(write_tokens("good.bin", counting(100, 50)));
  // Edits of the header's zeros and of the tokens change nothing. So most edits change its first words and the size.
  const Mutator mutator(good.substr(0, 12), {std::string(4, '\xff'), std::string("\0\0\0\x80", 4), good.substr(0, 4)});
  const auto parse = [&](const std::string& text) {
    const TokenFile file(write_bytes("tokens.bin", text + good.substr(12)));
    std::vector<int64_t> ids(static_cast<size_t>(file.tokens()));
    file.read(0, file.tokens(), ids.data());
  };
  const Verdicts verdicts = try_all(mutator, runs(2'000), ExitCode::data, "tokens.bin", parse);
  EXPECT_GT(verdicts.refused, 1'000);
}

TEST(ParserMutation, Sidecar) {
  const std::string tokens = write_tokens("text.bin", counting(100, 50));
  const Mutator mutator("{\"bytes\": 400, \"tokens\": 100, \"tokenizer\": \"bytes\", \"sha256\": \"00ff\"}",
                        {"\"bytes\"", "\"tokens\"", std::string(3'000, '['), "\\ud800", "\xff"});
  const auto parse = [&](const std::string& text) {
    write_bytes("text.bin.json", text);
    const auto bytes = TokenCorpus(tokens, 10, 50).bytes_per_token();
    ASSERT_GE(bytes.value_or(0), 0);
  };
  const Verdicts verdicts = try_all(mutator, runs(2'000), ExitCode::data, "text.bin", parse);
  EXPECT_GT(verdicts.accepted, 100);
  EXPECT_GT(verdicts.refused, 500);
}

// An accepted configuration must be the same after it is written and read again.
TEST(ParserMutation, Configuration) {
  const Mutator mutator(config_with(14, "gradient_checkpointing: [0-1, 3, 2-3 selective]"),
                        {"{", "}", "[", ": ", "&a ", "*a", "!!str ", "<<: ", "---\n", "\t", "|\n  ", "\xef\xbb\xbf",
                         "# ", "model: {", ".inf", "0x10", "0-99999999999", "\n"});
  const auto parse = [](const std::string& text) {
    const LoadedConfig loaded = parse_trainer_config("run.yaml", text, {});
    const std::string resolved = loaded.resolved();
    ASSERT_EQ(differences_that_forbid_resuming(resolved, loaded.config), std::vector<std::string>{}) << resolved;
  };
  const Verdicts verdicts = try_all(mutator, runs(3'000), ExitCode::configuration, "run.yaml", parse);
  EXPECT_GT(verdicts.accepted, 10);
  EXPECT_GT(verdicts.refused, 1'000);
}

}  // namespace
}  // namespace strata::trainer

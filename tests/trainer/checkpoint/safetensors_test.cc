// SPDX-License-Identifier: MIT
// Checks the strict reader: it accepts the files of the writer, and refuses hostile files without acting on their
// contents.
#include "trainer/checkpoint/safetensors.h"

#include <gtest/gtest.h>
#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <new>

#include "base/errors.h"
#include "tests/trainer/test_files.h"

namespace {

std::atomic<size_t> memory_in_use = 0, memory_peak = 0;

}  // namespace

// Allocations are counted, so that a test knows how much memory a file took.
void* operator new(size_t bytes) {
  void* const memory = std::malloc(bytes);
  if (memory == nullptr) throw std::bad_alloc();
  memory_in_use += malloc_usable_size(memory);
  if (memory_in_use > memory_peak) memory_peak = memory_in_use.load();
  return memory;
}

void operator delete(void* memory) noexcept {
  memory_in_use -= malloc_usable_size(memory);
  std::free(memory);
}

void operator delete(void* memory, size_t) noexcept { operator delete(memory); }

namespace strata::trainer {
namespace {

std::string length_of(uint64_t bytes) {
  std::string text;
  for (int i = 0; i < 8; ++i) text += static_cast<char>(bytes >> (8 * i));
  return text;
}

// Returns a file with this header and this many bytes of data.
std::string file_of(const std::string& header, size_t data) {
  return length_of(header.size()) + header + std::string(data, 'x');
}

// The cost of reading one file.
struct Reading {
  std::string verdict;  // the reason of a refusal, or "accepted"
  double seconds = 0;   // seconds of processor time
  size_t bytes = 0;     // most memory in use at once
};

// `size` is that of the file, whose end is a hole.
Reading read(const std::string& bytes, uint64_t size = 0) {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/model.safetensors";
  std::ofstream(path, std::ios::binary).write(bytes.data(), bytes.size());
  if (size > 0) std::filesystem::resize_file(path, size);
  Reading reading{"accepted"};
  memory_peak = memory_in_use.load();
  const size_t before = memory_in_use;
  const std::clock_t begin = std::clock();
  try {
    const SafetensorsFile file(path);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::storage);
    EXPECT_EQ(std::string(error.what()).find(path), 0) << error.what();
    reading.verdict = error.what();
  }
  reading.seconds = double(std::clock() - begin) / CLOCKS_PER_SEC;
  reading.bytes = memory_peak - before;
  return reading;
}

// Programs for a sanitizer are slower, and Bazel says how much slower they may be.
double most_seconds() {
  const char* const slowdown = std::getenv("STRATA_TEST_SLOWDOWN");
  return slowdown == nullptr ? 1 : std::atof(slowdown);
}

std::string verdict(const std::string& bytes) { return read(bytes).verdict; }

std::string header_of(const std::string& tensor) { return "{\"a\":{" + tensor + "}}"; }

TEST(Safetensors, RoundTrip) {
  SafetensorsHeader header;
  header.metadata = {{"format", "pt"}, {"quote", "\"\\\n"}};
  header.entries = {{.name = "b", .dtype = "F32", .shape = {2, 3}},
                    {.name = "bytes", .dtype = "U8", .shape = {3}},
                    {.name = "a", .dtype = "F32", .shape = {}},
                    {.name = "half", .dtype = "BF16", .shape = {1}},
                    {.name = "none", .dtype = "I64", .shape = {4, 0}}};
  const std::string begin = place_safetensors(header);
  EXPECT_EQ(begin.size() % 8, 0);  // so that the data are aligned
  std::string data;
  for (size_t i = 0; i < 4 + 24 + 2 + 3; ++i) data += static_cast<char>(i);
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/round.safetensors";
  OutputFile out(path);
  out.write(begin);
  out.write(data);
  out.close();

  const SafetensorsFile file(path);
  EXPECT_EQ(file.header().metadata, header.metadata);
  std::vector<std::string> order;
  for (const auto& entry : file.header().entries) order.push_back(entry.name);
  EXPECT_EQ(order, (std::vector<std::string>{"none", "a", "b", "half", "bytes"}));  // wide types first, then by name
  EXPECT_EQ(file.find("b")->shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(file.find("c"), nullptr);
  std::string read(8, ' ');
  file.read(*file.find("b"), 16, read.data(), 8);
  EXPECT_EQ(read, data.substr(4 + 16, 8));
  EXPECT_THROW(file.read(*file.find("b"), 17, read.data(), 8), Error);
}

struct Hostile {
  const char* what;
  std::string bytes;
  std::string why;
  uint64_t size = 0;  // size of the file if it is larger than `bytes`
};

std::vector<Hostile> hostile_files() {
  const std::string f32 = "\"dtype\":\"F32\"", shape = "\"shape\":[2]", offsets = "\"data_offsets\":[0,8]";
  const std::string good = f32 + "," + shape + "," + offsets;
  const auto with_offsets = [&](const std::string& text) {
    return file_of(header_of(f32 + "," + shape + ",\"data_offsets\":" + text), 8);
  };
  const auto with_shape = [&](const std::string& text) {
    return file_of(header_of(f32 + ",\"shape\":" + text + "," + offsets), 8);
  };
  const auto two = [&](const std::string& a, const std::string& b, size_t data) {
    return file_of("{\"a\":{" + f32 + "," + shape + ",\"data_offsets\":" + a + "},\"b\":{" + f32 + "," + shape +
                       ",\"data_offsets\":" + b + "}}",
                   data);
  };
  std::string million = "{";
  for (int i = 0; i < 1'000'000; ++i) {
    million += (i ? ",\"" : "\"") + std::to_string(i) + "\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}";
  }
  std::string metadata = "{\"__metadata__\":{";
  for (int i = 0; i < 10'001; ++i) metadata += (i ? ",\"" : "\"") + std::to_string(i) + "\":\"\"";
  std::string extents = "[1";
  for (int i = 0; i < 32; ++i) extents += ",1";
  return {
      {"empty", "", "8"},
      {"seven bytes", std::string(7, '\0'), "8"},
      {"N = 0", length_of(0), "begin with '{'"},
      {"N = 7 in a file of 8", length_of(7), "a header of 7"},
      {"N beyond the file", length_of(100) + "{}", "a header of 100"},
      {"N = 2^63", length_of(1ull << 63) + "{}", "a header of 9223372036854775808"},
      {"N = 2^64 - 1", length_of(~0ull) + "{}", "a header of"},
      {"N above 100 MB", length_of(100'000'001) + "{}", "100 MB", 100'000'009},
      {"not an object", file_of("[]", 0), "begin with '{'"},
      {"a space first", file_of(" {}", 0), "begin with '{'"},
      {"spaces only", file_of("   ", 0), "begin with '{'"},
      {"cut JSON", file_of("{\"a\":", 0), "end with '}'"},
      {"no JSON", file_of("{a}", 0), "no valid JSON"},
      {"not UTF-8", file_of("{\"\xff\xfe\":{" + good + "}}", 8), "no valid JSON"},
      {"two values", file_of("{}{}", 0), "no valid JSON"},
      {"payload in the padding", file_of(header_of(good) + "   #!/bin/sh}", 8), "no valid JSON"},
      {"line ends in the padding", file_of(header_of(good) + "\n\n", 8), "end with '}'"},
      {"duplicate tensor", file_of("{\"a\":{" + good + "},\"a\":{" + good + "}}", 8), "'a' stands twice"},
      {"duplicate key", file_of(header_of(f32 + "," + good), 8), "'dtype' twice"},
      {"duplicate metadata", file_of("{\"__metadata__\":{\"x\":\"1\",\"x\":\"2\"}}", 0), "'x' stands twice"},
      {"metadata twice", file_of("{\"__metadata__\":{},\"__metadata__\":{}}", 0), "stands twice"},
      {"nested metadata", file_of("{\"__metadata__\":{\"x\":{}}}", 0), "unexpected object"},
      {"metadata of numbers", file_of("{\"__metadata__\":{\"x\":1}}", 0), "unexpected number"},
      {"metadata is no object", file_of("{\"__metadata__\":[]}", 0), "unexpected list"},
      {"too much metadata", file_of(metadata + "}}", 0), "more than 10,000"},
      {"tensor is no object", file_of("{\"a\":1}", 0), "unexpected number"},
      {"unknown key", file_of(header_of(good + ",\"code\":\"x\""), 8), "unknown key 'code'"},
      {"no dtype", file_of(header_of(shape + "," + offsets), 8), "needs dtype"},
      {"no shape", file_of(header_of(f32 + "," + offsets), 8), "needs dtype"},
      {"no offsets", file_of(header_of(f32 + "," + shape), 8), "needs dtype"},
      {"unknown dtype", file_of(header_of("\"dtype\":\"F31\"," + shape + "," + offsets), 8), "unknown dtype 'F31'"},
      {"dtype is a number", file_of(header_of("\"dtype\":4," + shape + "," + offsets), 8), "unexpected number"},
      {"negative offset", with_offsets("[-8,0]"), "negative number"},
      {"fractional offset", with_offsets("[0.0,8.0]"), "fraction"},
      {"offset 2^64", with_offsets("[0,18446744073709551616]"), "fraction or above 2^64"},
      {"offset 2^64 - 1", with_offsets("[0,18446744073709551615]"), "needs 8 bytes"},
      {"reversed offsets", with_offsets("[8,0]"), "needs 8 bytes"},
      {"one offset", with_offsets("[8]"), "two numbers"},
      {"three offsets", with_offsets("[0,8,8]"), "unexpected number"},
      {"nested offsets", with_offsets("[[0,8]]"), "unexpected list"},
      {"text offset", with_offsets("[\"0\",8]"), "unexpected text"},
      {"null offset", with_offsets("[null,8]"), "unexpected null"},
      {"true offset", with_offsets("[true,8]"), "unexpected boolean"},
      {"past the end", with_offsets("[8,16]"), "begins at byte 8"},
      {"shape larger than its bytes", with_shape("[3]"), "needs 12 bytes"},
      {"negative extent", with_shape("[-2]"), "negative number"},
      {"product overflows", with_shape("[4294967296,4294967296,2]"), "overflows"},
      {"product overflows to the right size", with_shape("[4611686018427387905,2]"), "overflows"},
      {"extent 2^63", with_shape("[9223372036854775808]"), "extent above 2^63"},
      {"33 extents", with_shape(extents + "]"), "32 extents"},
      {"overlap", two("[0,8]", "[4,12]", 12), "begins at byte 4"},
      {"the same bytes twice", two("[0,8]", "[0,8]", 8), "begins at byte 0"},
      {"a hole", two("[0,8]", "[12,20]", 20), "begins at byte 12"},
      {"a hole at the beginning", two("[8,16]", "[16,24]", 24), "begins at byte 8"},
      {"bytes behind the last", file_of(header_of(good), 9), "the file 9"},
      {"too few bytes", file_of(header_of(good), 7), "the file 7"},
      {"a tensor without elements inside another",
       file_of("{\"a\":{" + good + "},\"z\":{" + f32 + ",\"shape\":[0],\"data_offsets\":[4,4]}}", 8),
       "begins at byte 4"},
      {"a million tensors", file_of(million + "}", 0), "more than 100,000"},
      {"a name of 1 MB", file_of("{\"" + std::string(1 << 20, 'n') + "\":{" + good + "}}", 8), "at most 1024"},
      {"a name with NUL", file_of("{\"a\\u0000b\":{" + good + "}}", 8), "NUL"},
      {"a name with terminal codes", file_of("{\"\\u001b[2J\":1}", 0), "at '?[2J'"},
      {"a deep header", file_of("{\"a\":" + std::string(1'000'000, '[') + "}", 0), "unexpected list"},
  };
}

TEST(Safetensors, WhatCannotBeReadAgainIsNotWritten) {
  const auto refusal = [](SafetensorsHeader header) -> std::string {
    try {
      place_safetensors(header);
      return "";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::storage);
      return error.what();
    }
  };
  SafetensorsHeader many;
  for (int i = 0; i <= 100'000; ++i) many.entries.push_back({.name = std::to_string(i), .dtype = "U8", .shape = {0}});
  EXPECT_NE(refusal(many).find("100001 tensors"), std::string::npos);
  SafetensorsHeader large;
  large.metadata["notes"] = std::string(100'000'000, 'x');
  EXPECT_NE(refusal(large).find("bytes of header"), std::string::npos);
  large.metadata["notes"].resize(1000);
  EXPECT_EQ(refusal(large), "");
}

TEST(Safetensors, HostileFilesAreRefused) {
  for (const Hostile& hostile : hostile_files()) {
    const Reading reading = read(hostile.bytes, hostile.size);
    EXPECT_NE(reading.verdict.find(hostile.why), std::string::npos) << hostile.what << ": " << reading.verdict;
    EXPECT_LT(reading.seconds, most_seconds()) << hostile.what;
    EXPECT_LT(reading.bytes, 1'000'000 + 8 * hostile.bytes.size()) << hostile.what;
  }
}

TEST(Safetensors, UnusualButRightFilesAreAccepted) {
  EXPECT_EQ(verdict(file_of("{}", 0)), "accepted");
  EXPECT_EQ(verdict(file_of("{\"__metadata__\":{\"format\":\"pt\"}}     ", 0)), "accepted");
  EXPECT_EQ(verdict(file_of(header_of("\"data_offsets\":[0,8],\"dtype\":\"I64\",\"shape\":[]"), 8)), "accepted");
  EXPECT_EQ(verdict(file_of("{\"../../etc/passwd\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1)),
            "accepted");  // a name is only a name and never becomes a path
}

}  // namespace
}  // namespace strata::trainer

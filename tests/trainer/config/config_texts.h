// SPDX-License-Identifier: MIT
// A small good configuration. Tests of errors replace its lines and check the message.
#pragma once

#include <gtest/gtest.h>

#include <ctime>
#include <string>
#include <utility>
#include <vector>

#include "configs/config_errors.h"
#include "trainer/config/load_config.h"

namespace strata::trainer {

// The model of the good configuration, without the closing brace, so that tests can add keys.
inline const std::string kLlamaModel =
    "model: {type: transformer, family: llama, layers: 4, width: 64, heads: 4, feed_forward: 128, sequence: 32, "
    "vocabulary: 256";

inline const std::vector<std::string>& good_lines() {
  static const std::vector<std::string> kLines = {
      "run: {folder: runs/test, ranks: 2}",                                // 1
      "steps: 100",                                                        // 2
      "batch: 16",                                                         // 3
      "micro_batch: 4",                                                    // 4
      kLlamaModel + "}",                                                   // 5
      "data: {type: text, train: train.bin, validation: validation.bin}",  // 6
      "optimizer: {type: adamw, learning_rate: 1e-3}",                     // 7
      "schedule: {type: cosine, warmup: 10}",                              // 8
      "precision: {compute: float32, reduce: float32}",                    // 9
      "sharding: {strategy: full}",                                        // 10
      "kernels: {default: aten}",                                          // 11
      "checkpoint: {every: 50}",                                           // 12
      "evaluation: {every: 50, tokens: 64}",                               // 13
  };
  return kLines;
}

// The number of a line, from 1, and its replacement. 14 adds a line at the end; 0 changes nothing.
using ReplacedLine = std::pair<int, std::string>;

// Returns the good configuration with these lines replaced, one after another.
inline std::string config_with(const std::vector<ReplacedLine>& replaced) {
  std::vector<std::string> lines = good_lines();
  for (const auto& [number, line] : replaced) {
    if (number > static_cast<int>(lines.size())) lines.push_back(line);
    if (number > 0) lines[static_cast<size_t>(number) - 1] = line;
  }
  std::string text;
  for (const std::string& each : lines) text += each + "\n";
  return text;
}

inline std::string config_with(int number, const std::string& line) {
  return config_with(std::vector<ReplacedLine>{{number, line}});
}

// Returns what `check` refuses of a text with run.yaml as its file name, its own errors included; "no error" if
// nothing.
template <class Check>
std::string report_of_check(const std::string& text, const std::vector<std::string>& overrides, const Check& check) {
  try {
    check(parse_trainer_config("run.yaml", text, overrides));
    return "no error";
  } catch (const configs::ConfigErrors& errors) {
    return errors.what();
  }
}

// Returns all errors of a text.
inline std::string report_of(const std::string& text, const std::vector<std::string>& overrides = {}) {
  return report_of_check(text, overrides, [](const LoadedConfig&) {});
}

inline std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

// Processor time of this process, because wall-clock time also passes while others compute.
inline double processor_milliseconds() { return 1e3 * static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

struct BadLine {
  std::string name;
  int number;  // number of the line that is replaced
  std::string line, message;
};

inline void expect_reported_alone(const std::string& report, const std::string& message) {
  EXPECT_EQ(first_line(report), message);
  EXPECT_EQ(report.find("errors in the configuration"), std::string::npos) << "more than one error:\n" << report;
}

// Expects the message within 150 ms of processor time.
inline void expect_reported_at_once(const BadLine& bad) {
  const double start = processor_milliseconds();
  const std::string report = report_of(config_with(bad.number, bad.line));
  const double duration = processor_milliseconds() - start;
  expect_reported_alone(report, bad.message);
  EXPECT_LT(duration, 150);
}

}  // namespace strata::trainer

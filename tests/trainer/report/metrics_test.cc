// SPDX-License-Identifier: MIT
// Checks the reports of a run: lines, numbers that read back to the same bits, and files that are cut back on resume.
#include "trainer/report/metrics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/trainer/report/captured.h"
#include "tests/trainer/test_files.h"
#include "trainer/report/metrics_line.h"
#include "trainer/report/spike_watch.h"
#include "trainer/report/straggler_watch.h"

namespace strata::trainer {
namespace {

namespace fs = std::filesystem;

std::vector<nlohmann::json> json_lines(const std::string& folder) {
  std::ifstream file(folder + "/metrics.jsonl");
  std::vector<nlohmann::json> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(nlohmann::json::parse(line));
  return lines;
}

std::string event_path(const std::string& folder) {
  std::string path;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().filename().string().starts_with("events.out.tfevents.")) {
      EXPECT_EQ(path, "") << "two event files";
      path = entry.path();
    }
  }
  return path;
}

StepRecord record_of(int64_t step) {
  return {.step = step,
          .loss = 5.1234f / step,
          .gradient_norm = 1.0f / 3,
          .learning_rate = 4e-3,
          .items = 2048,
          .milliseconds = 113,
          .memory_bytes = 225485783,
          .phases = {{"data", 1.0}, {"forward", 40.5}, {"backward", 60.0}}};
}

TEST(Metrics, SamplesHaveAFileOfTheirOwnThatIsCutBack) {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/samples.jsonl";
  const auto text = [&] {
    std::ifstream file(path);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  const std::vector<double> tokens = {0, 100000, 50256}, losses = {0.1, std::nan(""), 1e300};
  const std::string first = R"({"step":5,"sample":0,"tokens":[0,100000,50256],"losses":[0.1,null,null]})"
                            "\n";
  {
    Metrics metrics({.folder = folder.path(), .last_step = 25});
    metrics.record_step(record_of(5));
    EXPECT_FALSE(fs::exists(path));
    metrics.record_sample({5, 0, {{"tokens", tokens}, {"losses", losses}}});
    metrics.record_sample({10, 1, {{"tokens", tokens}}});
    EXPECT_EQ(text(), first + R"({"step":10,"sample":1,"tokens":[0,100000,50256]})" + "\n");
  }
  { const Metrics resumed({.folder = folder.path(), .resumed_step = 5, .last_step = 25}); }
  EXPECT_EQ(text(), first);
  { const Metrics anew({.folder = folder.path(), .last_step = 25}); }
  EXPECT_EQ(text(), "");
}

TEST(Metrics, ConsoleLinesAreTheDocumentedOnes) {
  const TemporaryFolder folder;
  const Captured out, warnings;
  Metrics metrics(
      {.folder = folder.path(), .last_step = 25, .console = {.out = out.file(), .warnings = warnings.file()}});
  for (int64_t step = 1; step <= 25; ++step) metrics.record_step(record_of(step));
  metrics.record_evaluation({.step = 25, .values = {{"validation_loss", 1.4321}, {"bits_per_byte", 2.06612}}});
  metrics.note("a note");
  EXPECT_EQ(out.text(),
            "step: 10  loss: 0.5123  lr: 4.0e-03  grad_norm: 0.33  tokens/s: 18,124  ms: 113  memory: 0.21 GiB\n"
            "step: 20  loss: 0.2562  lr: 4.0e-03  grad_norm: 0.33  tokens/s: 18,124  ms: 113  memory: 0.21 GiB\n"
            "step: 25  loss: 0.2049  lr: 4.0e-03  grad_norm: 0.33  tokens/s: 18,124  ms: 113  memory: 0.21 GiB\n"
            "step: 25  validation_loss: 1.4321  bits_per_byte: 2.0661\n"
            "a note\n");
  EXPECT_EQ(warnings.text(), "");
  EXPECT_EQ(metrics.phase_table(),
            "phase      ms/step   share\n"
            "data          1.00   0.9 %\n"
            "forward      40.50  35.8 %\n"
            "backward     60.00  53.1 %\n"
            "the rest     11.50  10.2 %\n"
            "step        113.00 100.0 %");
}

TEST(Metrics, NumbersReadBackToTheSameBits) {
  const TemporaryFolder folder;
  const Captured out;
  {
    Metrics metrics({.folder = folder.path(), .flops_per_item = 6e9 / 4, .console = {.out = out.file()}});
    StepRecord record = record_of(7);
    record.loss = std::nextafter(5.1f, 6.0f);
    record.learning_rate = std::nextafter(4e-3, 1.0);
    metrics.record_step(record);
    record.step = 8;
    record.loss = NAN;
    record.gradient_norm = INFINITY;
    record.skipped = true;
    metrics.record_step(record);
    metrics.record_weights(8, "abcd");
    metrics.record_evaluation({.step = 8, .values = {{"validation_loss", 0.1 + 0.2}}});
  }
  const auto lines = json_lines(folder.path());
  ASSERT_EQ(lines.size(), 4);
  EXPECT_EQ(lines[0]["step"], 7);
  EXPECT_EQ(lines[0]["loss"].get<float>(), std::nextafter(5.1f, 6.0f));
  EXPECT_EQ(lines[0]["learning_rate"].get<double>(), std::nextafter(4e-3, 1.0));
  EXPECT_EQ(lines[0]["gradient_norm"].get<float>(), 1.0f / 3);
  EXPECT_EQ(lines[0]["tokens_per_second"].get<double>(), 1000 * 2048 / 113.0);
  EXPECT_DOUBLE_EQ(lines[0]["model_teraflops_per_rank"].get<double>(), 1e-12 * (1000 * 2048 / 113.0) * (6e9 / 4));
  EXPECT_EQ(lines[0]["memory_bytes"], 225485783);
  EXPECT_EQ(lines[0]["phases"]["forward"], 40.5);
  EXPECT_FALSE(lines[0].contains("skipped"));
  EXPECT_TRUE(lines[1]["loss"].is_null());
  EXPECT_TRUE(lines[1]["gradient_norm"].is_null());
  EXPECT_EQ(lines[1]["skipped"], true);
  EXPECT_EQ(lines[2], nlohmann::json({{"step", 8}, {"weights_sha256", "abcd"}}));
  EXPECT_EQ(lines[3]["validation_loss"].get<double>(), 0.1 + 0.2);
}

TEST(Metrics, ASaveSaysHowLongTheStepWaited) {
  const TemporaryFolder folder;
  const Captured out;
  Metrics metrics({.folder = folder.path(), .console = {.out = out.file()}});
  metrics.record_save_begin({.step = 5, .milliseconds = 12.5});
  metrics.record_save_begin({.step = 10, .milliseconds = 1412.75, .waited = 1400});
  const auto lines = json_lines(folder.path());
  ASSERT_EQ(lines.size(), 2);
  const nlohmann::json first = {{"milliseconds", 12.5}, {"waited_milliseconds", 0.0}};
  const nlohmann::json second = {{"milliseconds", 1412.75}, {"waited_milliseconds", 1400.0}};
  EXPECT_EQ(lines[0], nlohmann::json({{"step", 5}, {"save", first}}));
  EXPECT_EQ(lines[1], nlohmann::json({{"step", 10}, {"save", second}}));
  EXPECT_EQ(out.text(),
            "checkpoint of step 5: the step waited 12 ms for a copy\n"
            "checkpoint of step 10: the step waited 1400 ms for the save before and 13 ms for a copy\n");
}

TEST(Metrics, NothingIsLeftOfAStepThatItsPhasesFill) {
  const TemporaryFolder folder;
  const Captured out;
  Metrics metrics({.folder = folder.path(), .last_step = 3, .console = {.out = out.file()}});
  EXPECT_EQ(metrics.phase_table(), "");
  for (int64_t step = 1; step <= 3; ++step) {
    StepRecord record = record_of(step);
    record.phases = {{"forward", 40.3}, {"backward", 72.7}};
    metrics.record_step(record);
  }
  EXPECT_EQ(metrics.phase_table(),
            "phase      ms/step   share\n"
            "forward      40.30  35.7 %\n"
            "backward     72.70  64.3 %\n"
            "step        113.00 100.0 %");
}

TEST(Metrics, TheTableHasWhatCameAfterTheLastStep) {
  const TemporaryFolder folder;
  const Captured out;
  Metrics metrics({.folder = folder.path(), .last_step = 3, .console = {.out = out.file()}});
  for (int64_t step = 1; step <= 3; ++step) {
    StepRecord record = record_of(step);
    record.phases = {{"forward", 40}, {"backward", 73}};
    metrics.record_step(record);
  }
  metrics.record_last_phases({{"forward", 0}, {"evaluation", 174}});
  EXPECT_EQ(metrics.phase_table(),
            "phase        ms/step   share\n"
            "forward        40.00  20.0 %\n"
            "backward       73.00  36.5 %\n"
            "evaluation     87.00  43.5 %\n"
            "step          200.00 100.0 %");
}

TEST(Metrics, TheLastEvaluationSaysWhichWasTheBest) {
  const TemporaryFolder folder;
  const Captured out;
  const auto run = [&](int64_t resumed_step, int64_t last_step) {
    return Metrics({.folder = folder.path(),
                    .resumed_step = resumed_step,
                    .last_step = last_step,
                    .console = {.out = out.file()}});
  };
  const auto evaluate = [](Metrics& metrics, int64_t step, double validation, double test) {
    EvaluationRecord record{step, {{"validation_loss", 1}, {"validation_accuracy", validation}}};
    if (test >= 0) record.values.emplace_back("test_accuracy", test);
    metrics.record_evaluation(record);
  };
  {
    Metrics metrics = run(-1, 50);
    evaluate(metrics, 10, 0.5, 0.6);
    evaluate(metrics, 20, 0.75, 0.55);
    evaluate(metrics, 25, 0.9, -1);  // on a part of the validation data
    evaluate(metrics, 30, 0.75, 0.7);
    evaluate(metrics, 40, 0.8, 0.1);  // this one is cut off on resume
  }
  Metrics metrics = run(30, 50);
  evaluate(metrics, 50, 0.7, 0.8);
  const auto lines = json_lines(folder.path());
  ASSERT_EQ(lines.size(), 5);
  EXPECT_FALSE(lines[3].contains("best_step"));
  EXPECT_EQ(lines[4], nlohmann::json({{"step", 50},
                                      {"validation_loss", 1},
                                      {"validation_accuracy", 0.7},
                                      {"test_accuracy", 0.8},
                                      {"best_step", 20},
                                      {"best_validation_accuracy", 0.75},
                                      {"test_accuracy_of_best", 0.55}}));
  EXPECT_TRUE(out.text().ends_with(
      "test_accuracy: 0.8000  best_step: 20  best_validation_accuracy: 0.7500  test_accuracy_of_best: 0.5500\n"));
}

TEST(Metrics, AnEvaluationWhoseStepIsNoNumberDoesNotCount) {
  const TemporaryFolder folder;
  std::ofstream(folder.path() + "/metrics.jsonl")
      << R"({"step":1,"step":"x","validation_accuracy":0.9,"test_accuracy":0.9})"
      << "\n";
  const Captured out;
  Metrics metrics({.folder = folder.path(), .resumed_step = 1, .last_step = 2, .console = {.out = out.file()}});
  metrics.record_evaluation({2, {{"validation_accuracy", 0.5}, {"test_accuracy", 0.4}}});
  EXPECT_EQ(json_lines(folder.path()).back()["best_step"], 2);
}

TEST(Metrics, ABadSampleIsPlainOnTheConsoleAndEscapedInTheFile) {
  const TemporaryFolder folder;
  const Captured out, warnings;
  Metrics metrics({.folder = folder.path(), .console = {.out = out.file(), .warnings = warnings.file()}});
  metrics.record_bad_sample(7, "a \"b\"\xff\n.jpg: is damaged");
  EXPECT_EQ(warnings.text(), "warning: a \"b\"??.jpg: is damaged\n");
  EXPECT_EQ(json_lines(folder.path()).back(),
            nlohmann::json({{"step", 7}, {"bad_sample", "a \"b\"\xef\xbf\xbd\n.jpg: is damaged"}}));
}

TEST(Metrics, AStragglerIsAWarningAndARecord) {
  const TemporaryFolder folder;
  const Captured out, warnings;
  Metrics metrics({.folder = folder.path(), .console = {.out = out.file(), .warnings = warnings.file()}});
  const Straggler straggler{.rank = 3, .phase = "data", .milliseconds = 100, .ratio = 1.25};
  metrics.record_straggler(7, straggler);
  EXPECT_EQ(warnings.text(), "warning: " + to_text(straggler) + "\n");
  const nlohmann::json found = {{"rank", 3}, {"phase", "data"}, {"ratio", 1.25}, {"milliseconds", 100.0}};
  EXPECT_EQ(json_lines(folder.path()).back(), nlohmann::json({{"step", 7}, {"straggler", found}}));
}

TEST(Metrics, ASpikeIsAWarningAndARecord) {
  const TemporaryFolder folder;
  const Captured out, warnings;
  Metrics metrics({.folder = folder.path(), .console = {.out = out.file(), .warnings = warnings.file()}});
  const Spike spike{.what = "gradient norm", .value = 500, .usual = 0.5};
  metrics.record_spike(7, spike);
  EXPECT_EQ(warnings.text(), "warning: " + to_text(7, spike) + "\n");
  const nlohmann::json found = {{"what", "gradient norm"}, {"value", 500.0}, {"usual", 0.5}};
  EXPECT_EQ(json_lines(folder.path()).back(), nlohmann::json({{"step", 7}, {"spike", found}}));
}

TEST(Metrics, AFinishedCheckpointIsKnownAlsoToARunThatResumesFromIt) {
  const TemporaryFolder folder;
  const Captured out;
  {
    Metrics metrics({.folder = folder.path(), .console = {.out = out.file()}});
    metrics.record_weights(5, "abcd");
    metrics.record_checkpoint_written(6, 5);
    EXPECT_EQ(json_lines(folder.path()).back(), nlohmann::json({{"step", 6}, {"checkpoint", 5}}));
  }
  Metrics metrics({.folder = folder.path(), .resumed_step = 5, .console = {.out = out.file()}});
  metrics.record_resume({});
  EXPECT_EQ(json_lines(folder.path()).back(), nlohmann::json({{"step", 5}, {"checkpoint", 5}}));
}

TEST(Metrics, OnlyTheLineOfAFinishedCheckpointNamesOne) {
  const TemporaryFolder folder;
  const Captured out, warnings;
  Metrics metrics({.folder = folder.path(), .console = {.out = out.file(), .warnings = warnings.file()}});
  metrics.record_step({.step = 6, .loss = 5, .phases = {{"data", 1.5}, {"checkpoint", 163.25}}});
  metrics.record_bad_sample(6, "a,\"checkpoint\":7}");
  metrics.record_checkpoint_written(6, 5);
  std::vector<int64_t> found;
  std::ifstream file(folder.path() + "/metrics.jsonl");
  for (std::string line; std::getline(file, line);) found.push_back(checkpoint_of_line(line).value_or(-1));
  EXPECT_EQ(found, (std::vector<int64_t>{-1, -1, 5}));
}

TEST(Metrics, CutBackWhenResumed) {
  const TemporaryFolder folder;
  const Captured out;
  const auto run = [&](int64_t resumed_step, int64_t first, int64_t last) {
    Metrics metrics({.folder = folder.path(), .resumed_step = resumed_step, .console = {.out = out.file()}});
    for (int64_t step = first; step <= last; ++step) {
      StepRecord record = record_of(step);
      record.milliseconds = 100 + last;
      metrics.record_step(record);
    }
  };
  const auto steps = [&] {
    std::string text;
    for (const auto& line : json_lines(folder.path())) {
      text += std::to_string(line["step"].get<int64_t>()) + ":" + line["milliseconds"].dump() + " ";
    }
    return text;
  };
  run(-1, 1, 3);
  EXPECT_EQ(steps(), "1:103 2:103 3:103 ");
  const std::string jsonl = folder.path() + "/metrics.jsonl", events = event_path(folder.path());
  const std::string whole_events = read_file(events);

  // A crash cut the last line and the last event.
  const uint64_t bytes = fs::file_size(jsonl);
  fs::resize_file(jsonl, bytes - 5);
  fs::resize_file(events, whole_events.size() - 5);
  run(2, 3, 4);
  EXPECT_EQ(steps(), "1:103 2:103 3:104 4:104 ");
  EXPECT_EQ(event_path(folder.path()), events);  // the same file continues
  run(3, 4, 5);
  EXPECT_EQ(steps(), "1:103 2:103 3:104 4:105 5:105 ");

  // Without a checkpoint to resume from, no old line stays.
  run(-1, 1, 1);
  EXPECT_EQ(steps(), "1:101 ");
  EXPECT_LT(fs::file_size(event_path(folder.path())), whole_events.size());
}

TEST(Metrics, AFileThatCannotBeWrittenIsOneWarningEach) {
  const TemporaryFolder folder;
  const Captured out, warnings;
  fs::create_directory(folder.path() + "/metrics.jsonl");
  Metrics metrics({.folder = folder.path(),
                   .last_step = 3,
                   .log_every = 1,
                   .console = {.out = out.file(), .warnings = warnings.file()}});
  for (int64_t step = 1; step <= 3; ++step) metrics.record_step(record_of(step));
  const std::string warned = warnings.text();
  EXPECT_EQ(std::count(warned.begin(), warned.end(), '\n'), 1) << warned;
  EXPECT_NE(warned.find("metrics.jsonl: open failed: Is a directory; nothing is written to it"), std::string::npos)
      << warned;
  EXPECT_EQ(out.text().find("step: 1 "), 0);
}

TEST(EventFile, Crc32cOfKnownTexts) {  // RFC 3720, B.4
  EXPECT_EQ(crc32c("123456789"), 0xe3069283);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aa);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62a8ab43);
}

}  // namespace
}  // namespace strata::trainer

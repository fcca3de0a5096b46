// SPDX-License-Identifier: MIT
// Checks sums, the rank that others waited for, and the contents of the table, the JSON lines and the trace.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "trainer/profile/collective_waits.h"
#include "trainer/profile/op_summary.h"
#include "trainer/profile/profile_files.h"
#include "trainer/profile/profile_table.h"

namespace strata::trainer::profile {
namespace {

Activity activity(const std::string& name, const Origin& origin, int64_t start, int64_t end, int64_t stream = 7) {
  return {name, origin, start, end, stream, end - start};
}

// Times are in ns, 10^6 per millisecond. The step of 10 ms has two calls of linear, the first with two kernels, and a
// gather that is half hidden.
RecordedStep small_step(int64_t number = 3) {
  const Origin first{.step = number,
                     .layer = 1,
                     .phase = "forward",
                     .op = "linear",
                     .level = "cuda",
                     .call = 5,
                     .work = {.bytes = 1e6, .flops = 1e11}};
  Origin second = first, gather = first;
  second.call = 6;
  gather.op = "all_gather", gather.level = kCollective, gather.call = 8, gather.work = {};
  constexpr int64_t ms = 1000000;
  return {
      .number = number,
      .on_device = true,
      .replayed = true,
      .start = 0,
      .end = 10 * ms,
      .activities = {activity("gemm", first, 0, 2 * ms), activity("void split<float>", first, 2 * ms, 3 * ms),
                     activity("ncclDevKernel", gather, 2 * ms, 6 * ms, 20), activity("gemm", second, 4 * ms, 8 * ms)}};
}

Device device() { return {.name = "NVIDIA H200", .peaks = {.measured = {1e12, 100e12}}}; }

TEST(Summary, CountsCallsAndKernels) {
  const OpSummary summary = summary_of(small_step());
  ASSERT_EQ(summary.size(), 2u);
  const OpTotal& linear = summary.at({1, "forward", "linear", "cuda", false});
  EXPECT_EQ(linear.calls, 2);
  EXPECT_EQ(linear.nanoseconds, 7000000);
  EXPECT_EQ(linear.kernels.at("gemm").calls, 2);
  EXPECT_EQ(linear.kernels.at("gemm").nanoseconds, 6000000);
  EXPECT_EQ(linear.kernels.at("void split<float>").calls, 1);
  EXPECT_EQ(linear.work.bytes, 2e6) << "the work of a call counts once, and not for each of its kernels";
  EXPECT_EQ(linear.work.flops, 2e11);
}

TEST(Summary, ShareOfTheRoofline) {
  const Peaks peaks{.measured = {1e12, 100e12}};
  EXPECT_DOUBLE_EQ(roofline_share({.bytes = 1e9, .flops = 1e9}, peaks, 2000000), 0.5);   // limited by bytes
  EXPECT_DOUBLE_EQ(roofline_share({.bytes = 1e6, .flops = 2e11}, peaks, 4000000), 0.5);  // limited by FLOPs
  EXPECT_EQ(roofline_share({.bytes = 1e9, .flops = 1e9}, {}, 1000000), 0);
  EXPECT_EQ(roofline_share({}, peaks, 0), 0);
  // Advertised rates count only if none were measured.
  EXPECT_DOUBLE_EQ(roofline_share({.bytes = 1e9, .flops = 1e9}, {.advertised = {2e12, 1e12}}, 2000000), 0.5);
  EXPECT_DOUBLE_EQ(
      roofline_share({.bytes = 1e9, .flops = 1e9}, {.measured = {1e12, 1e14}, .advertised = {2e12, 1e12}}, 2000000),
      0.5);
}

TEST(CollectiveWaits, TheOneThatSpentLeastCameLast) {
  const auto waits = divide(
      {"1 10 all_gather\n1 5 all_gather\n", "1 4 all_gather\n1 9 all_gather\n", "1 7 all_gather\n1 5 all_gather\n"});
  ASSERT_EQ(waits.size(), 3u);
  EXPECT_EQ(waits[0].transfer, 9);
  EXPECT_EQ(waits[0].wait, 6);
  EXPECT_EQ(waits[1].wait, 4);
  EXPECT_EQ(waits[2].wait, 3);
  EXPECT_EQ(waits[1].last, 1);
  EXPECT_EQ(waits[1].caused, 9);
  EXPECT_EQ(waits[0].last, 1);  // the second call: both ranks spent 5
  EXPECT_EQ(waits[0].caused, 4);
}

// A gather and a reduction on separate streams start in one order on one rank and in the other order on the other rank.
TEST(CollectiveWaits, ACollectiveIsComparedWithItself) {
  const auto waits = divide({"2 10 all_gather\n3 50 reduce_scatter\n", "3 52 reduce_scatter\n2 4 all_gather\n"});
  ASSERT_EQ(waits.size(), 2u);
  EXPECT_EQ(waits[0].transfer, 54);
  EXPECT_EQ(waits[0].wait, 6);
  EXPECT_EQ(waits[0].last, 1);
  EXPECT_EQ(waits[1].wait, 2);
  EXPECT_EQ(waits[1].last, 1);
}

TEST(CollectiveWaits, RanksThatDoNotFitAreNotDivided) {
  EXPECT_TRUE(divide({"1 10 all_gather\n1 5 all_gather\n", "1 4 all_gather\n"}).empty());
  EXPECT_TRUE(divide({"1 10 all_gather\n", "2 10 all_gather\n"}).empty());
  EXPECT_TRUE(divide({"1 10 all_gather\n"}).empty());
  EXPECT_TRUE(divide({"", ""}).empty());
  EXPECT_TRUE(divide({"", "1 10 all_gather\n"}).empty()) << "nothing was recorded on rank 0";
  EXPECT_TRUE(divide({"1 10 all_gather\n", "", "1 10 all_gather\n"}).empty());
}

TEST(CollectiveWaits, TimesAreThoseOfCollectives) {
  EXPECT_EQ(collective_times(std::vector{small_step(3), small_step(4)}),
            "1 4000000 all_gather\n1 4000000 all_gather\n");
}

TEST(CollectiveWaits, NobodyWaitsInCopiesOfCopyEngines) {
  RecordedStep step = small_step();
  step.activities[2].name = "Memcpy PtoP (Device -> Device)";
  EXPECT_EQ(collective_times(std::vector{step}), "");
}

TEST(Table, SaysWhereTheTimeGoes) {
  std::vector<RecordedStep> steps = {small_step(3), small_step(4)};
  steps[1].host_waits = 3;
  const std::string text = profile_table(steps, device(), divide({"1 10 all_gather\n", "1 4 all_gather\n"}));
  EXPECT_NE(text.find("  1.5 calls in which the host waits for the GPU"), std::string::npos) << text;
  EXPECT_NE(text.find("profile of steps 3-4, rank 0 of 1, NVIDIA H200, replays of a CUDA graph"), std::string::npos);
  std::istringstream lines(text);
  std::string line, linear, forward, exposed, idle, layer;
  while (std::getline(lines, line)) {
    if (line.find("  linear ") == 0) linear = line;
    if (line.find("  communication exposed") == 0) exposed = line;
    if (line.find("  idle") == 0) idle = line;
    if (line.find("  forward  ") == 0) forward = line;
    if (line.find("  1  ") == 0 && layer.empty()) layer = line;
  }
  EXPECT_NE(forward.find("7.000 ms   70.0 %"), std::string::npos) << text;
  EXPECT_NE(exposed.find("1.000 ms   10.0 %"), std::string::npos) << text;
  EXPECT_NE(idle.find("2.000 ms   20.0 %"), std::string::npos) << text;
  // Two calls of 10^11 FLOPs in 7 ms are 28.6 TFLOP/s of 100, and 2 MB in 7 ms.
  EXPECT_NE(linear.find("7.000  70.0 %        29       0      0.29"), std::string::npos) << text;
  EXPECT_NE(text.find("others waited, ms"), std::string::npos);
}

TEST(Table, SaysWhichRatesTheRooflineHas) {
  Device other = device();
  EXPECT_NE(profile_table(std::vector{small_step()}, other, {})
                .find("  roofline                    1000 GB/s and 100 TFLOP/s in 16 bits, measured\n"),
            std::string::npos);
  other.peaks = {.advertised = {300e9, 121e12}};
  EXPECT_NE(profile_table(std::vector{small_step()}, other, {})
                .find("  roofline                     300 GB/s and 121 TFLOP/s in 16 bits, advertised\n"),
            std::string::npos);
  other.peaks = {};
  EXPECT_EQ(profile_table(std::vector{small_step()}, other, {}).find("TFLOP/s in 16 bits"), std::string::npos);
}

TEST(Table, CountsEagerStepsAndReplaysThatAreInOneMean) {
  std::vector<RecordedStep> steps = {small_step(3), small_step(4), small_step(5)};
  steps[0].replayed = false;
  EXPECT_NE(profile_table(steps, device(), {}).find(", 1 eager step and 2 replays of a CUDA graph; means"),
            std::string::npos);
  steps[1].replayed = false;
  EXPECT_NE(profile_table(steps, device(), {}).find(", 2 eager steps and 1 replay of a CUDA graph; means"),
            std::string::npos);
  for (RecordedStep& step : steps) step.replayed = false;
  EXPECT_NE(profile_table(steps, device(), {}).find("NVIDIA H200, eager steps; means"), std::string::npos);
}

// If not all ranks wait for each other, the table cannot say who waited for whom.
TEST(Table, SaysThatGroupsAreNotDivided) {
  Device hybrid = device();
  hybrid.one_group = false;
  EXPECT_NE(profile_table(std::vector{small_step()}, hybrid, {}).find("with hybrid sharding"), std::string::npos);
  EXPECT_EQ(profile_table(std::vector{small_step()}, device(), {}).find("with hybrid sharding"), std::string::npos);
}

// The backward of a layer on CPUs: 6 ms in which the host waits for a gather, and 2 ms of a product.
TEST(Table, WaitsInTheBackwardAreNotRecomputed) {
  constexpr int64_t ms = 1000000;
  const Origin wait{.step = 3, .layer = 1, .phase = "backward", .op = "all_gather", .level = kWait, .call = 5};
  const Origin product{
      .step = 3, .layer = 1, .phase = "backward", .op = "linear", .level = "aten", .backward = true, .call = 6};
  const RecordedStep step{.number = 3,
                          .start = 0,
                          .end = 8 * ms,
                          .activities = {activity("wait for all_gather blocks.1", wait, 0, 6 * ms),
                                         activity("linear/aten/backward", product, 6 * ms, 8 * ms)}};
  const std::string text = profile_table(std::vector{step}, {.name = "cpu"}, {});
  EXPECT_EQ(text.find("recomputed"), std::string::npos) << text;
  EXPECT_NE(text.find("all_gather                        backward    wait"), std::string::npos) << text;
  EXPECT_NE(text.find("\n  1                     0.000        2.000     0.000"), std::string::npos) << text;
}

TEST(Table, SaysThatAReplayDiffers) {
  RecordedStep step = small_step();
  step.difference = "the replay has 3 kernels";
  EXPECT_NE(profile_table(std::vector{step}, device(), {}).find("step 3: the replay has 3 kernels"), std::string::npos);
  EXPECT_EQ(profile_table({}, device(), {}), "profile: no step was recorded\n");
}

TEST(Table, NamesOfKernelsAreShort) {
  EXPECT_EQ(short_name("void at::native::(anonymous namespace)::copy<float>(int)", 40), "copy<float>(int)");
  EXPECT_EQ(short_name("abcdefghij", 8), "abcde...");
}

TEST(JsonLines, HaveTheStepAndItsOps) {
  std::istringstream lines(json_lines({small_step()}, device()));
  std::vector<nlohmann::json> parsed;
  for (std::string line; std::getline(lines, line);) parsed.push_back(nlohmann::json::parse(line));
  ASSERT_EQ(parsed.size(), 3u);
  EXPECT_EQ(parsed[0]["milliseconds"], 10.0);
  EXPECT_EQ(parsed[0]["forward"], 7.0);
  EXPECT_EQ(parsed[0]["backward"], 0.0);
  EXPECT_EQ(parsed[0]["exposed"], 1.0);
  EXPECT_EQ(parsed[0]["cuda_graph"], true);
  EXPECT_EQ(parsed[0]["pruned"], false);
  EXPECT_EQ(parsed[0]["roofline_rates"], "measured");
  EXPECT_TRUE(parsed[0]["difference"].is_null());
  const auto& linear = parsed[1]["op"] == "linear" ? parsed[1] : parsed[2];
  EXPECT_EQ(linear["layer"], 1);
  EXPECT_EQ(linear["calls"], 2);
  EXPECT_EQ(linear["flops"], 2e11);
  EXPECT_NEAR(linear["roofline"].get<double>(), 2.0 / 7, 1e-12);
  EXPECT_EQ(linear["kernels"].size(), 2u);
}

TEST(JsonLines, SayWhichRatesTheRooflineHas) {
  const auto rates = [](const Peaks& peaks) {
    const std::string lines = json_lines({small_step()}, {.name = "NVIDIA L4", .peaks = peaks});
    return nlohmann::json::parse(lines.substr(0, lines.find('\n')))["roofline_rates"];
  };
  EXPECT_EQ(rates({.advertised = {300e9, 121e12}}), "advertised");
  EXPECT_TRUE(rates({}).is_null());
}

TEST(JsonLines, BytesThatAreNotUtf8AreReplaced) {
  RecordedStep step = small_step();
  step.activities[0].name = "kernel\xff";
  std::istringstream lines(json_lines({step}, device()));
  for (std::string line; std::getline(lines, line);) EXPECT_TRUE(nlohmann::json::accept(line));
}

TEST(ChromeTrace, HasEveryActivityOnItsStream) {
  const auto trace = nlohmann::json::parse(chrome_trace({small_step(3)}, device()));
  size_t kernels = 0, layers = 0;
  for (const auto& event : trace) {
    if (event["ph"] != "X") continue;
    if (event["cat"] == "layer") {
      ++layers;
      EXPECT_EQ(event["name"], "layer 1 forward");
      EXPECT_EQ(event["dur"], 8000.0);
    }
    kernels += event.contains("args") ? 1 : 0;
  }
  EXPECT_EQ(kernels, 4u);
  EXPECT_EQ(layers, 1u);
  EXPECT_EQ(nlohmann::json::parse(chrome_trace({}, device())).size(), 0u);
}

}  // namespace
}  // namespace strata::trainer::profile

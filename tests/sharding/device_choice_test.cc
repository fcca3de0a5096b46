// SPDX-License-Identifier: MIT
// Checks the GPU of each rank, and every reason to refuse a job before its first collective.
#include "sharding/config/device_choice.h"

#include <gtest/gtest.h>

#include "base/errors.h"

namespace strata::sharding {
namespace {

VisibleGpu h200(int number) { return {"GPU-" + std::to_string(number), "NVIDIA H200", 90, int64_t{150} << 30}; }

std::vector<RankDevices> ranks_of_one_host(int ranks, const std::vector<VisibleGpu>& gpus) {
  std::vector<RankDevices> all;
  for (int i = 0; i < ranks; ++i)
    all.push_back({"hostA", i, gpus.empty() ? "no NVIDIA driver is installed" : "", gpus});
  return all;
}

std::string refusal(DeviceSetting setting, const std::vector<RankDevices>& ranks) {
  try {
    choose_devices(setting, ranks);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::configuration);
    return error.what();
  }
  return "";
}

testing::AssertionResult contains(const std::string& text, const std::string& part) {
  if (text.find(part) != std::string::npos) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "'" << text << "' has no '" << part << "'";
}

TEST(DeviceChoice, EachRankOfAHostHasAGpuOfItsOwn) {
  for (const DeviceSetting setting : {DeviceSetting::automatic, DeviceSetting::cuda}) {
    const DeviceChoice choice = choose_devices(setting, ranks_of_one_host(2, {h200(0), h200(1), h200(2)}));
    EXPECT_TRUE(choice.cuda);
    EXPECT_EQ(choice.gpu_of_rank, (std::vector<int>{0, 1}));
    EXPECT_TRUE(contains(choice.reason, "rank 1  hostA  local rank 1  GPU 1 NVIDIA H200 (compute capability 9.0"));
  }
}

TEST(DeviceChoice, LocalRanksCountOnEachHost) {
  auto ranks = ranks_of_one_host(2, {h200(0), h200(1)});
  for (int i = 0; i < 2; ++i) ranks.push_back({"hostB", i, "", {h200(2), h200(3)}});
  EXPECT_EQ(choose_devices(DeviceSetting::cuda, ranks).gpu_of_rank, (std::vector<int>{0, 1, 0, 1}));
}

TEST(DeviceChoice, ALauncherMayShowEachRankOneGpu) {
  std::vector<RankDevices> ranks = {{"hostA", 0, "", {h200(0)}}, {"hostA", 1, "", {h200(1)}}};
  EXPECT_EQ(choose_devices(DeviceSetting::cuda, ranks).gpu_of_rank, (std::vector<int>{0, 0}));
  ranks[1].gpus = {h200(0)};
  EXPECT_TRUE(contains(refusal(DeviceSetting::cuda, ranks), "rank 0 and rank 1 would share one GPU"));
}

TEST(DeviceChoice, WithoutGpusAutoIsTheCpuAndSaysWhy) {
  const auto ranks = ranks_of_one_host(2, {});
  const DeviceChoice choice = choose_devices(DeviceSetting::automatic, ranks);
  EXPECT_FALSE(choice.cuda);
  EXPECT_EQ(choice.reason,
            "cpu, because run.device is auto and there is no GPU that can be used (no NVIDIA driver is installed)");
  const std::string refused = refusal(DeviceSetting::cuda, ranks);
  EXPECT_TRUE(contains(refused, "run.device is cuda, and rank 0 has no GPU of its own"));
  EXPECT_TRUE(contains(refused, "rank 1  hostA  local rank 1  no GPU: no NVIDIA driver is installed"));
}

TEST(DeviceChoice, MoreRanksThanGpusAreRefusedWithTheTable) {
  for (const DeviceSetting setting : {DeviceSetting::automatic, DeviceSetting::cuda}) {
    const std::string refused = refusal(setting, ranks_of_one_host(3, {h200(0), h200(1)}));
    EXPECT_TRUE(contains(refused, "rank 2 has no GPU of its own"));
    EXPECT_TRUE(contains(refused, "rank 1  hostA  local rank 1  GPU 1"));
    EXPECT_TRUE(contains(refused, "rank 2  hostA  local rank 2  no GPU: sees 2 GPUs"));
    EXPECT_TRUE(contains(refused, "run.device=cpu"));
  }
}

TEST(DeviceChoice, OneGpuForTwoRanksIsRefused) {
  // Every rank sees the one GPU of the host, so the launcher does not give each rank a GPU of its own.
  EXPECT_TRUE(contains(refusal(DeviceSetting::automatic, ranks_of_one_host(2, {h200(0)})), "would share one GPU"));
}

TEST(DeviceChoice, AutoNeverLeavesAPartOfTheJobOnCpus) {
  auto ranks = ranks_of_one_host(1, {h200(0)});
  ranks.push_back({"hostB", 0, "the NVIDIA driver knows CUDA 12.4", {}});
  EXPECT_TRUE(
      contains(refusal(DeviceSetting::automatic, ranks), "rank 1  hostB  local rank 0  no GPU: the NVIDIA driver"));
}

TEST(DeviceChoice, GpusOfDifferentKindsAreRefused) {
  VisibleGpu other = h200(1);
  other.name = "NVIDIA H100 80GB HBM3";
  EXPECT_TRUE(contains(refusal(DeviceSetting::cuda, ranks_of_one_host(2, {h200(0), other})), "another kind of GPU"));
}

TEST(DeviceChoice, GpusThatTheLibrariesDoNotKnowAreRefused) {
  VisibleGpu old = h200(0);
  old.capability = 70;
  EXPECT_TRUE(contains(refusal(DeviceSetting::automatic, ranks_of_one_host(1, {old})),
                       "the GPU of rank 0 has compute capability 7.0, the libraries need 7.5"));
}

TEST(DeviceChoice, CpuAsksNobody) {
  EXPECT_FALSE(choose_devices(DeviceSetting::cpu, ranks_of_one_host(5, {h200(0)})).cuda);
}

TEST(DeviceChoice, DevicesTravelAsText) {
  const RankDevices devices{"hostA", 3, "", {h200(0), h200(1)}};
  const RankDevices same = parse_rank_devices(to_text(devices));
  EXPECT_EQ(same.host, devices.host);
  EXPECT_EQ(same.local_rank, 3);
  EXPECT_EQ(same.problem, "");
  EXPECT_EQ(same.gpus, devices.gpus);
  EXPECT_EQ(parse_rank_devices(to_text({"b", 0, "none", {}})).problem, "none");
  EXPECT_THROW(parse_rank_devices("hostA"), Error);
}

}  // namespace
}  // namespace strata::sharding

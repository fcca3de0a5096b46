// SPDX-License-Identifier: MIT
#include "sharding/config/device_choice.h"

#include <algorithm>
#include <map>
#include <sstream>

#include "base/errors.h"
#include "base/text/word_of.h"

namespace strata::sharding {
namespace {

constexpr int kOldestCapability = 75;  // 7.5 is the oldest that the CUDA 13 libraries support

constexpr char kColumn = '\t';

std::string capability_text(int capability) {
  return std::to_string(capability / 10) + "." + std::to_string(capability % 10);
}

std::string count_of(size_t gpus) { return std::to_string(gpus) + (gpus == 1 ? " GPU" : " GPUs"); }

// Returns the index of the GPU that a rank takes among those it sees, or -1 if there is none.
int gpu_of(const RankDevices& rank, const std::vector<RankDevices>& ranks) {
  const bool one_each = std::all_of(ranks.begin(), ranks.end(), [&](const RankDevices& other) {
    return other.host != rank.host || other.gpus.size() == 1;
  });
  const int index = one_each ? 0 : rank.local_rank;
  return index < static_cast<int>(rank.gpus.size()) ? index : -1;
}

// A line per rank, such as "  rank 1  hostA  local rank 1  no GPU: sees 1 GPU".
std::string table_of(const std::vector<RankDevices>& ranks, const std::vector<int>& gpu_of_rank) {
  std::string table;
  for (size_t i = 0; i < ranks.size(); ++i) {
    const RankDevices& rank = ranks[i];
    table += "\n  rank " + std::to_string(i) + "  " + rank.host + "  local rank " + std::to_string(rank.local_rank);
    if (gpu_of_rank[i] < 0) {
      table += "  no GPU: " + (rank.problem.empty() ? "sees " + count_of(rank.gpus.size()) : rank.problem);
      continue;
    }
    const VisibleGpu& gpu = rank.gpus[static_cast<size_t>(gpu_of_rank[i])];
    table += "  GPU " + std::to_string(gpu_of_rank[i]) + " " + gpu.name + " (compute capability " +
             capability_text(gpu.capability) + ", " + std::to_string(gpu.bytes >> 20) + " MiB, " + gpu.uuid + ")";
  }
  return table;
}

// Returns why the ranks cannot use these devices, or an empty text.
std::string objection(const std::vector<RankDevices>& ranks, const std::vector<int>& gpu_of_rank) {
  std::map<std::string, size_t> taken;  // host and uuid
  const VisibleGpu* first = nullptr;
  for (size_t i = 0; i < ranks.size(); ++i) {
    const std::string name = "rank " + std::to_string(i);
    if (gpu_of_rank[i] < 0) return name + " has no GPU of its own; each rank needs one";
    const VisibleGpu& gpu = ranks[i].gpus[static_cast<size_t>(gpu_of_rank[i])];
    const auto [other, alone] = taken.emplace(ranks[i].host + kColumn + gpu.uuid, i);
    if (!alone) return "rank " + std::to_string(other->second) + " and " + name + " would share one GPU";
    if (gpu.capability < kOldestCapability) {
      return "the GPU of " + name + " has compute capability " + capability_text(gpu.capability) +
             ", the libraries need " + capability_text(kOldestCapability);
    }
    if (first == nullptr) first = &gpu;
    if (gpu.name != first->name || gpu.capability != first->capability || gpu.bytes != first->bytes) {
      return name + " has another kind of GPU than rank 0; a job needs GPUs of one kind";
    }
  }
  return "";
}

}  // namespace

std::string to_text(const RankDevices& devices) {
  std::string text = devices.host + kColumn + std::to_string(devices.local_rank) + kColumn + devices.problem;
  for (const VisibleGpu& gpu : devices.gpus) {
    text += kColumn + gpu.uuid + kColumn + gpu.name + kColumn + std::to_string(gpu.capability) + kColumn +
            std::to_string(gpu.bytes);
  }
  return text;
}

RankDevices parse_rank_devices(const std::string& text) {
  std::vector<std::string> columns;
  std::istringstream stream(text + kColumn);
  for (std::string column; std::getline(stream, column, kColumn);) columns.push_back(column);
  if (columns.size() < 3 || (columns.size() - 3) % 4 != 0) {
    throw Error(ExitCode::internal, "the devices of a rank cannot be read: '" + text + "'");
  }
  RankDevices devices{columns[0], std::stoi(columns[1]), columns[2], {}};
  for (size_t i = 3; i < columns.size(); i += 4) {
    devices.gpus.push_back({columns[i], columns[i + 1], std::stoi(columns[i + 2]), std::stoll(columns[i + 3])});
  }
  return devices;
}

DeviceChoice choose_devices(DeviceSetting setting, const std::vector<RankDevices>& ranks) {
  if (setting == DeviceSetting::cpu) return {.reason = "cpu, as run.device says"};
  const bool some = std::any_of(ranks.begin(), ranks.end(), [](const auto& rank) { return !rank.gpus.empty(); });
  if (setting == DeviceSetting::automatic && !some) {
    const std::string& problem = ranks[0].problem;
    return {.reason = "cpu, because run.device is auto and there is no GPU that can be used" +
                      (problem.empty() ? "" : " (" + problem + ")")};
  }
  DeviceChoice choice{.cuda = true};
  for (const RankDevices& rank : ranks) choice.gpu_of_rank.push_back(gpu_of(rank, ranks));
  const std::string wrong = objection(ranks, choice.gpu_of_rank);
  if (!wrong.empty()) {
    throw Error(ExitCode::configuration, "run.device is " + word_of(setting) + ", and " + wrong +
                                             table_of(ranks, choice.gpu_of_rank) +
                                             "\nstart as many ranks as there are GPUs of one kind (run.ranks), or "
                                             "train on the CPU with run.device=cpu");
  }
  choice.reason = "cuda, " +
                  std::string(setting == DeviceSetting::cuda ? "as run.device says" : "because run.device is auto") +
                  table_of(ranks, choice.gpu_of_rank);
  return choice;
}

}  // namespace strata::sharding

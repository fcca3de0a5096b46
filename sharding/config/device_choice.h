// SPDX-License-Identifier: MIT
// Which device each rank computes on: decided from what all ranks see, before their first collective.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace strata::sharding {

// automatic: a GPU for each rank where there are GPUs that can be used, else the CPU; which of them is printed.
enum class DeviceWish { automatic, cpu, cuda };
constexpr std::array<std::string_view, 3> names(DeviceWish) { return {"auto", "cpu", "cuda"}; }

struct Gpu {
  std::string uuid, name;
  int capability = 0;  // 90: compute capability 9.0
  int64_t bytes = 0;
  bool operator==(const Gpu&) const = default;
};

// What one rank has at hand.
struct RankDevices {
  std::string host;
  int local_rank = 0;
  std::string problem = {};  // why none can be used: a missing driver, an old one; empty: none is there, or some are
  std::vector<Gpu> gpus = {};
};

// One line of text and back: how ranks tell each other.
std::string to_text(const RankDevices& devices);
RankDevices parse_rank_devices(const std::string& text);

struct DeviceChoice {
  bool cuda = false;
  std::vector<int> gpu_of_rank = {};  // index among those that the rank sees; empty on CPUs
  std::string reason = {};            // one sentence for the log
};

// `ranks` in rank order. One process has one GPU: the local rank counts among the GPUs of a host, unless a launcher
// lets every rank see one only. Throws (configuration), with a table of ranks and devices, when `cuda` is wished and
// some rank has none, when two ranks would share one, and when GPUs differ in kind or are too old. `automatic` is the
// same as soon as one rank has a GPU that can be used: a job never falls back because of a part of it.
DeviceChoice choose_devices(DeviceWish wish, const std::vector<RankDevices>& ranks);

}  // namespace strata::sharding

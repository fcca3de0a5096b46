// SPDX-License-Identifier: MIT
// Chooses the device of each rank from the devices that all ranks see, before the first collective.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace strata::sharding {

// automatic means one GPU for each rank if there are usable GPUs, otherwise the CPU; the choice is printed.
enum class DeviceSetting { automatic, cpu, cuda };
constexpr std::array<std::string_view, 3> names(DeviceSetting) { return {"auto", "cpu", "cuda"}; }

struct VisibleGpu {
  std::string uuid, name;
  int capability = 0;  // 90 means compute capability 9.0
  int64_t bytes = 0;
  bool operator==(const VisibleGpu&) const = default;
};

// The devices that one rank sees.
struct RankDevices {
  std::string host;
  int local_rank = 0;
  std::string problem = {};  // why no GPU can be used; empty if there is none or some can be used
  std::vector<VisibleGpu> gpus = {};
};

// Converts to one line of text and back, to exchange the devices between ranks.
std::string to_text(const RankDevices& devices);
RankDevices parse_rank_devices(const std::string& text);

struct DeviceChoice {
  bool cuda = false;
  std::vector<int> gpu_of_rank = {};  // index among the GPUs that the rank sees; empty on CPUs
  std::string reason = {};            // one sentence for the log
};

// `ranks` is in rank order. Each process uses one GPU: the local rank is its index among the GPUs of the host, unless
// the launcher lets every rank see only one GPU. Throws (configuration), with a table of ranks and devices, if `cuda`
// is requested and a rank has no GPU, if two ranks would share one, or if GPUs differ in kind or are too old.
// `automatic` has the same rules as soon as one rank has a usable GPU: a job never falls back to CPUs because some of
// its ranks have no GPU.
DeviceChoice choose_devices(DeviceSetting setting, const std::vector<RankDevices>& ranks);

}  // namespace strata::sharding

// SPDX-License-Identifier: MIT
#include "trainer/profile/graph_replay.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "trainer/profile/match_kernels.h"

namespace strata::trainer::profile {
namespace {

// Kinds of work. Within one kind, the order in a replay is the order of the launches, because each kind has its own
// stream. Between kinds there is no fixed order: a prefetched all-gather may overlap any part of a layer.
enum class Kind { compute, gather, reduction, peer_copy, local_copy };
constexpr std::array<std::pair<Kind, std::string_view>, 5> kKinds = {{{Kind::compute, ""},
                                                                      {Kind::gather, "gathers: "},
                                                                      {Kind::reduction, "other collectives: "},
                                                                      {Kind::peer_copy, "copies between GPUs: "},
                                                                      {Kind::local_copy, "copies on the GPU: "}}};

// All-gathers may have their own stream, or use copy engines: one copy of the rank's own part and copies to the other
// GPUs. No other work copies between GPUs.
Kind kind_of(const Activity& activity) {
  const auto has = [&](std::string_view part) { return activity.name.find(part) != std::string::npos; };
  if (activity.is_collective_kernel()) return has("AllGather") ? Kind::gather : Kind::reduction;
  if (has("PtoP")) return Kind::peer_copy;
  // An eager copy is "Memcpy DtoD (Device -> Device)". In a CUDA graph, a copy inside one GPU is a driver kernel,
  // "memcpy128".
  return has("Memcpy DtoD") || activity.name.starts_with("memcpy") ? Kind::local_copy : Kind::compute;
}

bool is_communication(Kind kind) { return kind != Kind::compute && kind != Kind::local_copy; }

std::vector<Activity> select(const std::vector<Activity>& from, Kind kind) {
  std::vector<Activity> selected;
  std::copy_if(from.begin(), from.end(), std::back_inserter(selected),
               [&](const Activity& activity) { return kind_of(activity) == kind; });
  return selected;
}

// An eager all-gather copies to all other GPUs in one batch, which is recorded as one copy. In a CUDA graph each copy
// is recorded separately.
std::vector<Activity> one_for_each_copy(const std::vector<Activity>& batches, size_t copies) {
  if (batches.empty() || copies % batches.size() != 0) return batches;
  std::vector<Activity> spread;
  for (const Activity& batch : batches) spread.insert(spread.end(), copies / batches.size(), batch);
  return spread;
}

std::vector<std::string> names_of(const std::vector<Activity>& activities, Kind kind) {
  std::vector<std::string> names;
  for (const Activity& activity : activities) {
    // A replay calls its memory "Unknown" where an eager step says "Device".
    const bool is_memset = activity.name.starts_with("Memset (");
    names.push_back(kind == Kind::local_copy ? "copy" : is_memset ? "memset" : activity.name);
  }
  return names;
}

}  // namespace

void name_replay(const std::vector<Activity>& eager, std::vector<Activity> replay, RecordedStep& step) {
  std::sort(replay.begin(), replay.end(), [](const Activity& a, const Activity& b) { return a.start < b.start; });
  for (const auto& [kind, label] : kKinds) {
    std::vector<Activity> replayed = select(replay, kind), pattern = select(eager, kind);
    if (kind == Kind::peer_copy) pattern = one_for_each_copy(pattern, replayed.size());
    const std::vector<std::string> expected = names_of(pattern, kind), names = names_of(replayed, kind);
    const std::vector<int64_t> matched = match_kernels(expected, names);
    const std::string found = difference(expected, names, matched);
    if (!found.empty()) step.difference.append(step.difference.empty() ? "" : "; ").append(label).append(found);
    for (size_t i = 0; i < replayed.size(); ++i) {
      Origin& origin = replayed[i].origin;
      if (matched[i] >= 0) {
        origin = pattern[static_cast<size_t>(matched[i])].origin;
      } else {
        origin = {.op = "not matched", .level = is_communication(kind) ? kCollective : ""};
      }
      origin.step = step.number;
      step.activities.push_back(std::move(replayed[i]));
    }
  }
}

}  // namespace strata::trainer::profile

// SPDX-License-Identifier: MIT
#include "trainer/profile/recorded_steps.h"

#include <algorithm>
#include <array>
#include <map>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "trainer/profile/graph_replay.h"
#include "trainer/profile/intervals.h"

namespace strata::trainer::profile {
namespace {

bool by_start(const Activity& a, const Activity& b) { return a.start < b.start; }

// True for calls that block the host; cudaMemcpyAsync and similar calls do not.
bool makes_the_host_wait(const std::string& call) {
  const bool copies = call.starts_with("cudaMemcpy") || call.starts_with("cuMemcpy");
  return call.find("Synchronize") != std::string::npos || (copies && call.find("Async") == std::string::npos);
}

// A step lasts from its first activity to the first activity of the next step, or to its own last activity if other
// work follows, such as an evaluation.
void set_borders(std::vector<RecordedStep>& steps, const std::vector<int64_t>& between) {
  for (size_t i = 0; i < steps.size(); ++i) {
    RecordedStep& step = steps[i];
    if (step.activities.empty()) continue;
    step.start = step.activities.front().start;
    step.end = step.start;
    for (const Activity& activity : step.activities) step.end = std::max(step.end, activity.end);
    if (i + 1 == steps.size() || steps[i + 1].activities.empty() || steps[i + 1].number != step.number + 1) continue;
    const int64_t next = steps[i + 1].activities.front().start;
    const bool paused =
        std::any_of(between.begin(), between.end(), [&](int64_t start) { return step.end <= start && start < next; });
    if (!paused) step.end = std::max(step.end, next);
  }
}

// Reads a recording of a CPU: the own time of every function.
void read_host(const Attribution& attribution, std::vector<RecordedStep>& steps) {
  std::map<int64_t, RecordedStep*> by_number;
  for (RecordedStep& step : steps) by_number[step.number] = &step;
  const std::vector<int64_t> own_times = attribution.tree().own_times();
  for (int64_t i = 0; i < attribution.tree().size(); ++i) {
    const Scope& scope = attribution.tree()[i];
    Origin origin = attribution.scope_origin(i);
    const auto step = by_number.find(origin.step);
    if (step == by_number.end()) continue;
    step->second->activities.push_back(
        {scope.name, std::move(origin), scope.start, scope.end, scope.thread, own_times[static_cast<size_t>(i)]});
  }
}

constexpr std::array<std::pair<std::string_view, int64_t StepTimes::*>, 3> kPhases = {
    {{"forward", &StepTimes::forward}, {"backward", &StepTimes::backward}, {"optimizer", &StepTimes::optimizer}}};

void divide_host_time(const RecordedStep& step, StepTimes& times) {
  for (const Activity& activity : step.activities) {
    if (activity.origin.level == kWait) {
      times.communication += activity.own;
      continue;
    }
    for (const auto& [phase, time] : kPhases) {
      if (activity.origin.phase == phase) times.*time += activity.own;
    }
  }
  times.exposed = times.communication;
  times.compute = times.total - times.exposed;
}

void divide_device_time(const RecordedStep& step, StepTimes& times) {
  std::vector<Interval> communication, compute;
  for (const Activity& activity : step.activities) {
    (activity.is_collective() ? communication : compute).push_back({activity.start, activity.end});
  }
  times.compute = covered(compute);
  times.communication = covered(communication);
  times.exposed = covered_without(communication, compute);
  times.idle = times.total - times.compute - times.exposed;
  std::vector<Interval> before;  // intervals of earlier phases
  for (const auto& [phase, time] : kPhases) {
    std::vector<Interval> here;
    for (const Activity& activity : step.activities) {
      if (activity.origin.phase == phase && !activity.is_collective()) here.push_back({activity.start, activity.end});
    }
    times.*time = covered_without(here, before);
    before.insert(before.end(), here.begin(), here.end());
  }
}

}  // namespace

StepTimes times_of(const RecordedStep& step) {
  StepTimes times;
  times.total = step.end - step.start;
  times.difference = step.difference;
  times.launches = std::count_if(step.activities.begin(), step.activities.end(), [&](const Activity& activity) {
    return step.on_device || activity.name.starts_with("aten::");
  });
  step.on_device ? divide_device_time(step, times) : divide_host_time(step, times);
  times.other = times.compute - times.forward - times.backward - times.optimizer;
  return times;
}

StepTimes mean_of(std::span<const RecordedStep> steps) {
  StepTimes mean;
  const auto parts = {&StepTimes::total,         &StepTimes::forward, &StepTimes::backward, &StepTimes::optimizer,
                      &StepTimes::other,         &StepTimes::compute, &StepTimes::exposed,  &StepTimes::idle,
                      &StepTimes::communication, &StepTimes::launches};
  for (const RecordedStep& step : steps) {
    const StepTimes times = times_of(step);
    for (const auto part : parts) mean.*part += times.*part;
    if (mean.difference.empty()) mean.difference = times.difference;
  }
  for (const auto part : parts) mean.*part /= std::max<int64_t>(1, static_cast<int64_t>(steps.size()));
  return mean;
}

std::vector<RecordedStep> StepReader::read(const Recording& recording) {
  const Attribution attribution(recording);
  std::vector<RecordedStep> steps;
  for (int64_t i = 0; i < attribution.tree().size(); ++i) {
    const Scope& scope = attribution.tree()[i];
    if (scope.kind != Scope::Kind::user || scope.name.rfind("step ", 0) != 0) continue;
    steps.push_back({.number = attribution.scope_origin(i).step, .start = scope.start, .end = scope.end});
  }
  std::sort(steps.begin(), steps.end(),
            [](const RecordedStep& a, const RecordedStep& b) { return a.number < b.number; });
  if (recording.device.empty()) {
    read_host(attribution, steps);
  } else {
    read_device(recording, attribution, steps);
  }
  for (RecordedStep& step : steps) std::stable_sort(step.activities.begin(), step.activities.end(), by_start);
  return steps;
}

void StepReader::read_device(const Recording& recording, const Attribution& attribution,
                             std::vector<RecordedStep>& steps) {
  std::unordered_map<uint64_t, const Launch*> launches;
  for (const Launch& launch : recording.launches) launches.emplace(launch.correlation, &launch);
  struct Launched {
    int64_t time;
    Activity activity;
  };
  std::map<int64_t, std::vector<Launched>> eager;
  std::map<int64_t, std::vector<Activity>> replays;
  std::map<int64_t, int64_t> waits;
  std::vector<int64_t> between;
  for (const Launch& launch : recording.launches) {
    if (makes_the_host_wait(launch.name)) ++waits[attribution.launch_origin(launch.thread, launch.time).step];
  }
  for (const DeviceWork& work : recording.device) {
    const auto launch = launches.find(work.correlation);
    if (launch == launches.end()) {
      ++without_launch_;
      continue;
    }
    const auto& [call, time, thread, correlation] = *launch->second;
    Activity activity{
        work.name, attribution.launch_origin(thread, time), work.start, work.end, work.stream, work.end - work.start};
    if (activity.origin.step < 0) {
      if (activity.origin.phase != "data") between.push_back(work.start);
    } else if (call.find("GraphLaunch") != std::string::npos) {
      replays[activity.origin.step].push_back(std::move(activity));
    } else {
      eager[activity.origin.step].push_back({time, std::move(activity)});
    }
  }
  for (RecordedStep& step : steps) {
    std::vector<Launched>& launched = eager[step.number];
    std::stable_sort(launched.begin(), launched.end(), [](const auto& a, const auto& b) { return a.time < b.time; });
    step.on_device = true;
    step.host_waits = waits[step.number];
    step.replayed = replays.count(step.number) > 0;
    if (step.replayed) {
      name_replay(pattern_, std::move(replays[step.number]), step);
    } else {
      pattern_.clear();
    }
    for (Launched& one : launched) {
      const std::string& phase = one.activity.origin.phase;
      // A CUDA graph contains this work; inputs and results of a step are copied outside of it.
      if (!step.replayed && !phase.empty() && phase != "data") pattern_.push_back(one.activity);
      step.activities.push_back(std::move(one.activity));
    }
    std::stable_sort(step.activities.begin(), step.activities.end(), by_start);
  }
  set_borders(steps, between);
}

}  // namespace strata::trainer::profile

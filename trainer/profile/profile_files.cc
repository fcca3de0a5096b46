// SPDX-License-Identifier: MIT
#include "trainer/profile/profile_files.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "trainer/profile/op_summary.h"

namespace strata::trainer::profile {
namespace {

using Json = nlohmann::ordered_json;

double milliseconds(int64_t nanoseconds) { return static_cast<double>(nanoseconds) / 1e6; }

Json or_null(bool known, Json value) { return known ? std::move(value) : Json(nullptr); }

// Names come from compilers and libraries, so bytes that are not UTF-8 are replaced.
std::string json_text(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

std::string name_of(const Origin& origin) {
  return origin.op + (origin.level.empty() ? "" : "/" + origin.level) + (origin.backward ? "/backward" : "");
}

Json complete_event(std::string name, const std::string& category, int64_t start, int64_t end, int64_t zero, int rank,
                    int64_t track) {
  return {{"name", std::move(name)},
          {"cat", category},
          {"ph", "X"},
          {"ts", static_cast<double>(start - zero) / 1e3},
          {"dur", static_cast<double>(end - start) / 1e3},
          {"pid", rank},
          {"tid", track}};
}

Json name_event(const char* what, const std::string& name, int rank, int64_t track) {
  return {{"name", what}, {"ph", "M"}, {"pid", rank}, {"tid", track}, {"args", {{"name", name}}}};
}

}  // namespace

std::string json_lines(const std::vector<RecordedStep>& steps, const Device& device) {
  std::string text;
  for (const RecordedStep& step : steps) {
    const StepTimes times = times_of(step);
    text += json_text({{"step", step.number},
                       {"rank", device.rank},
                       {"device", device.name},
                       {"roofline_rates", or_null(!device.peaks.source().empty(), device.peaks.source())},
                       {"cuda_graph", step.replayed},
                       {"pruned", step.pruned},
                       {"milliseconds", milliseconds(times.total)},
                       {"forward", milliseconds(times.forward)},
                       {"backward", milliseconds(times.backward)},
                       {"optimizer", milliseconds(times.optimizer)},
                       {"other", milliseconds(times.other)},
                       {"compute", milliseconds(times.compute)},
                       {"communication", milliseconds(times.communication)},
                       {"exposed", milliseconds(times.exposed)},
                       {"idle", milliseconds(times.idle)},
                       {"host_waits", or_null(step.on_device, step.host_waits)},
                       {"difference", or_null(!step.difference.empty(), step.difference)}}) +
            "\n";
    for (const auto& [key, total] : summary_of(step)) {
      const double share = roofline_share(total.work, device.peaks, total.nanoseconds);
      Json kernels = Json::array();
      for (const auto& [name, kernel] : total.kernels) {
        kernels.push_back(
            {{"name", name}, {"calls", kernel.calls}, {"milliseconds", milliseconds(kernel.nanoseconds)}});
      }
      text += json_text({{"step", step.number},
                         {"rank", device.rank},
                         {"layer", or_null(key.layer >= 0, key.layer)},
                         {"phase", key.phase},
                         {"op", key.op},
                         {"backward", key.backward},
                         {"level", or_null(!key.level.empty(), key.level)},
                         {"calls", total.calls},
                         {"milliseconds", milliseconds(total.nanoseconds)},
                         {"bytes", or_null(total.work.bytes > 0, total.work.bytes)},
                         {"flops", or_null(total.work.flops > 0, total.work.flops)},
                         {"roofline", or_null(share > 0, share)},
                         {"kernels", std::move(kernels)}}) +
              "\n";
    }
  }
  return text;
}

std::string chrome_trace(const std::vector<RecordedStep>& steps, const Device& device) {
  constexpr int64_t kLayers = -1, kSteps = -2;  // track numbers; streams and threads have numbers from 0 on
  if (steps.empty()) return "[]\n";
  const int64_t zero = steps.front().start;
  std::set<int64_t> streams;
  std::string text =
      "[\n" + json_text(name_event("process_name", "rank " + std::to_string(device.rank), device.rank, 0));
  const auto add = [&](const Json& event) { text += ",\n" + json_text(event); };
  add(name_event("thread_name", "steps", device.rank, kSteps));
  add(name_event("thread_name", "layers", device.rank, kLayers));
  for (const RecordedStep& step : steps) {
    add(complete_event("step " + std::to_string(step.number), "step", step.start, step.end, zero, device.rank, kSteps));
    // Successive activities of one layer and phase form one interval.
    for (size_t i = 0; i < step.activities.size();) {
      const Activity& first = step.activities[i];
      if (first.is_collective()) {
        ++i;
        continue;
      }
      int64_t end = first.end;
      size_t next = i;
      for (; next < step.activities.size(); ++next) {
        const Activity& activity = step.activities[next];
        if (activity.is_collective()) continue;
        if (activity.origin.layer != first.origin.layer || activity.origin.phase != first.origin.phase) break;
        end = std::max(end, activity.end);
      }
      const std::string where = first.origin.layer < 0 ? "outside" : "layer " + std::to_string(first.origin.layer);
      add(complete_event(where + " " + first.origin.phase, "layer", first.start, end, zero, device.rank, kLayers));
      i = next;
    }
    for (const Activity& activity : step.activities) {
      if (streams.insert(activity.stream).second) {
        add(name_event("thread_name", (step.on_device ? "stream " : "thread ") + std::to_string(activity.stream),
                       device.rank, activity.stream));
      }
      Json event = complete_event(name_of(activity.origin), activity.origin.phase, activity.start, activity.end, zero,
                                  device.rank, activity.stream);
      event["args"] = {{"kernel", activity.name}, {"layer", activity.origin.layer}, {"step", step.number}};
      add(event);
    }
  }
  return text + "\n]\n";
}

}  // namespace strata::trainer::profile

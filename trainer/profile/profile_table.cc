// SPDX-License-Identifier: MIT
#include "trainer/profile/profile_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <tuple>
#include <utility>

#include "trainer/profile/op_summary.h"

namespace strata::trainer::profile {
namespace {

constexpr size_t kMostOps = 40, kMostKernels = 30;

double ms(double nanoseconds) { return nanoseconds / 1e6; }

std::string direction(const OpKey& key) {
  if (key.backward) return "backward";
  return key.phase == "backward" && !key.level.empty() && !is_communication(key.level) ? "recomputed" : key.phase;
}

template <class Rows>
auto longest_first(const Rows& rows) {
  std::vector<std::pair<typename Rows::key_type, typename Rows::mapped_type>> sorted(rows.begin(), rows.end());
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.second.nanoseconds > b.second.nanoseconds; });
  return sorted;
}

class Table {
 public:
  Table(std::span<const RecordedStep> steps, const Device& device)
      : steps_(steps), device_(device), times_(mean_of(steps)) {
    for (const RecordedStep& step : steps) {
      for (const auto& [key, total] : summary_of(step)) all_[key].add(total);
    }
  }

  std::string text(const std::vector<RankWaits>& waits) {
    head();
    if (!waits.empty()) ranks(waits);
    if (!device_.one_group) {
      text_ +=
          "\n  no rank is named as the last one, because with hybrid sharding collectives are of groups of ranks\n";
    }
    ops();
    layers();
    kernels();
    for (const RecordedStep& step : steps_) {
      if (step.difference.empty()) continue;
      text_ += fmt::format("\nstep {}: {}\n", step.number, step.difference);
      break;
    }
    return text_;
  }

 private:
  // Percentage of the time of one step.
  double percent(double nanoseconds) const {
    return times_.total > 0 ? 100 * nanoseconds / static_cast<double>(times_.total) : 0;
  }
  // Mean per step of a sum over the steps.
  double per_step(int64_t sum) const { return static_cast<double>(sum) / static_cast<double>(steps_.size()); }

  std::string how_they_ran() const {
    if (!steps_.front().on_device) return "host timers";
    const auto all = static_cast<int64_t>(steps_.size());
    const int64_t replays = std::ranges::count(steps_, true, &RecordedStep::replayed);
    if (replays == 0) return "eager steps";
    if (replays == all) return "replays of a CUDA graph";
    const auto ending = [](int64_t count) { return count == 1 ? "" : "s"; };
    return fmt::format("{} eager step{} and {} replay{} of a CUDA graph", all - replays, ending(all - replays), replays,
                       ending(replays));
  }

  void head() {
    const RecordedStep &first = steps_.front(), &last = steps_.back();
    text_ +=
        fmt::format("profile of steps {}-{}, rank {} of {}, {}, {}{}; means of a step\n", first.number, last.number,
                    device_.rank, device_.ranks, device_.name, how_they_ran(), first.pruned ? ", pruned weights" : "");
    const std::array<std::pair<const char*, int64_t>, 9> rows = {{{"step", times_.total},
                                                                  {"forward", times_.forward},
                                                                  {"backward", times_.backward},
                                                                  {"optimizer", times_.optimizer},
                                                                  {"other computation", times_.other},
                                                                  {"(computation, all)", times_.compute},
                                                                  {"communication exposed", times_.exposed},
                                                                  {"idle", times_.idle},
                                                                  {"(communication, all)", times_.communication}}};
    for (const auto& [name, nanoseconds] : rows) {
      const auto time = static_cast<double>(nanoseconds);
      text_ += fmt::format("  {:<22}{:>10.3f} ms {:>6.1f} %\n", name, ms(time), percent(time));
    }
    if (!device_.peaks.source().empty()) {
      const Rates& rates = device_.peaks.roofline();
      text_ += fmt::format("  {:<22}{:>10.0f} GB/s and {:.0f} TFLOP/s in 16 bits, {}\n", "roofline", rates.bytes / 1e9,
                           rates.flops / 1e12, device_.peaks.source());
    }
    if (!first.on_device) return;
    int64_t waits = 0;
    for (const RecordedStep& step : steps_) waits += step.host_waits;
    text_ += fmt::format("  {:<22}{:>10.4g} calls in which the host waits for the GPU\n", "", per_step(waits));
  }

  void ranks(const std::vector<RankWaits>& waits) {
    text_ += fmt::format("\n  {:<6}{:>12}{:>10}{:>12}{:>20}\n", "rank", "transfer ms", "wait ms", "came last",
                         "others waited, ms");
    for (size_t rank = 0; rank < waits.size(); ++rank) {
      const RankWaits& w = waits[rank];
      text_ += fmt::format("  {:<6}{:>12.3f}{:>10.3f}{:>12.1f}{:>20.3f}\n", rank, ms(per_step(w.transfer)),
                           ms(per_step(w.wait)), per_step(w.last), ms(per_step(w.caused)));
    }
  }

  // Prints the ops, summed over layers; a forward and its recomputation are separate rows.
  void ops() {
    struct Row {
      int64_t calls = 0, nanoseconds = 0, kernels = 0;
      kernels::Work work;
    };
    std::map<std::tuple<std::string, std::string, std::string>, Row> rows;
    for (const auto& [key, total] : all_) {
      Row& row = rows[{key.op, direction(key), key.level}];
      row.calls += total.calls;
      row.nanoseconds += total.nanoseconds;
      for (const auto& [name, kernel] : total.kernels) row.kernels += kernel.calls;
      row.work.bytes += total.work.bytes;
      row.work.flops += total.work.flops;
    }
    text_ += fmt::format("\n  {:<34}{:<12}{:<14}{:>7}{:>9}{:>11}{:>8}{:>10}{:>8}{:>10}\n", "op", "", "level", "calls",
                         "kernels", "ms", "share", "TFLOP/s", "GB/s", "roofline");
    size_t shown = 0;
    int64_t rest = 0;
    for (const auto& [key, row] : longest_first(rows)) {
      if (++shown > kMostOps) {
        rest += row.nanoseconds;
        continue;
      }
      const auto& [op, way, level] = key;
      const auto all = static_cast<double>(row.nanoseconds);
      const double time = per_step(row.nanoseconds);
      const auto known = [](double value, int digits) {
        return value > 0 ? fmt::format("{:.{}f}", value, digits) : "";
      };
      text_ +=
          fmt::format("  {:<34}{:<12}{:<14}{:>7.4g}{:>9.4g}{:>11.3f}{:>6.1f} %{:>10}{:>8}{:>10}\n", short_name(op, 33),
                      way, level.empty() ? "-" : level, per_step(row.calls), per_step(row.kernels), ms(time),
                      percent(time), known(row.work.flops / all / 1e3, 0), known(row.work.bytes / all, 0),
                      known(roofline_share(row.work, device_.peaks, row.nanoseconds), 2));
    }
    if (rest > 0) {
      const double time = per_step(rest);
      text_ += fmt::format("  {:<34}{:<42}{:>11.3f}{:>6.1f} %\n", "the rest", "", ms(time), percent(time));
    }
  }

  void layers() {
    struct Row {
      int64_t forward = 0, backward = 0, optimizer = 0;
    };
    std::map<int64_t, Row> rows;
    for (const auto& [key, total] : all_) {
      if (is_communication(key.level)) continue;
      Row& row = rows[key.layer];
      (key.phase == "backward"  ? row.backward
       : key.phase == "forward" ? row.forward
                                : row.optimizer) += total.nanoseconds;
    }
    text_ += fmt::format("\n  {:<16}{:>11}{:>13}{:>10}\n", "layer", "forward ms", "backward ms", "other ms");
    for (const auto& [layer, row] : rows) {
      text_ += fmt::format("  {:<16}{:>11.3f}{:>13.3f}{:>10.3f}\n", layer < 0 ? "outside" : std::to_string(layer),
                           ms(per_step(row.forward)), ms(per_step(row.backward)), ms(per_step(row.optimizer)));
    }
  }

  void kernels() {
    std::map<std::tuple<std::string, std::string, std::string>, KernelTotal> rows;
    for (const auto& [key, total] : all_) {
      for (const auto& [name, kernel] : total.kernels) {
        KernelTotal& row = rows[{name, key.op, direction(key)}];
        row.calls += kernel.calls;
        row.nanoseconds += kernel.nanoseconds;
      }
    }
    text_ += fmt::format("\n  {:<90}{:<42}{:>7}{:>11}{:>8}\n", "kernel", "of", "calls", "ms", "share");
    size_t shown = 0;
    for (const auto& [key, row] : longest_first(rows)) {
      if (++shown > kMostKernels) break;
      const auto& [name, op, way] = key;
      const double time = per_step(row.nanoseconds);
      text_ += fmt::format("  {:<90}{:<42}{:>7.4g}{:>11.3f}{:>6.1f} %\n", short_name(name, 89),
                           short_name(op, 28) + " " + way, per_step(row.calls), ms(time), percent(time));
    }
  }

  const std::span<const RecordedStep> steps_;
  const Device& device_;
  const StepTimes times_;
  OpSummary all_;
  std::string text_;
};

}  // namespace

std::string short_name(const std::string& kernel, size_t width) {
  std::string name = kernel;
  for (const std::string_view noise :
       {"void ", "(anonymous namespace)::", "at::native::", "at::cuda::", "torch::autograd::",
        "autograd::engine::evaluate_function: ", "strata::kernels::", "std::array<char*, ", "unsigned long"}) {
    for (size_t at = name.find(noise); at != std::string::npos; at = name.find(noise)) name.erase(at, noise.size());
  }
  return name.size() <= width ? name : name.substr(0, width - 3) + "...";
}

std::string profile_table(std::span<const RecordedStep> steps, const Device& device,
                          const std::vector<RankWaits>& waits) {
  if (steps.empty()) return "profile: no step was recorded\n";
  return Table(steps, device).text(waits);
}

}  // namespace strata::trainer::profile

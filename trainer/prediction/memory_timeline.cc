// SPDX-License-Identifier: MIT
#include "trainer/prediction/memory_timeline.h"

#include <algorithm>
#include <array>
#include <functional>
#include <iterator>

#include "base/text/formatted.h"
#include "base/text/grouped_digits.h"
#include "base/text/svg.h"

namespace strata::trainer {
namespace {

using kernels::TracedBlock;

constexpr size_t kMostLargest = 10;
constexpr double kWidth = 1000, kHeight = 320, kLeft = 20, kTop = 60, kLine = 18;
constexpr std::array kColors = {"#1f6fd0", "#8446c6", "#1a7f4b", "#0f7d8c", "#8a6508", "#6b7280", "#b8284f", "#4a5568"};
constexpr const char* kColorOfKept = "#d1570d";
constexpr const char* kColorOfTemporary = "#f2b48a";

bool is_backward(const std::string& place) { return place.starts_with("the backward"); }

// Bytes of blocks at one event, in two classes.
struct Level {
  int64_t kept = 0, temporary = 0;
  int64_t sum() const { return kept + temporary; }
};

// Returns the events at which the place changes. The last one is the number of events.
std::vector<int64_t> place_ends(const std::vector<TracedBlock>& blocks) {
  std::vector<int64_t> ends;
  int64_t events = 1;
  for (size_t i = 0; i < blocks.size(); ++i) {
    if (i > 0 && blocks[i].place != blocks[i - 1].place) ends.push_back(blocks[i].begin);
    events = std::max({events, blocks[i].begin + 1, blocks[i].end + 1});
  }
  ends.push_back(events);
  return ends;
}

bool is_kept(const TracedBlock& block, const std::vector<int64_t>& ends) {
  if (block.bytes < 0) return true;  // the free of a block from before the recording, which has the class of that block
  if (is_backward(block.place)) return false;
  return block.end < 0 || block.end >= *std::ranges::upper_bound(ends, block.begin);
}

// Returns the bytes after each event.
std::vector<Level> levels_of(const std::vector<TracedBlock>& blocks) {
  const std::vector<int64_t> ends = place_ends(blocks);
  std::vector<Level> levels(static_cast<size_t>(ends.back()));
  for (const TracedBlock& block : blocks) {
    int64_t Level::*const part = is_kept(block, ends) ? &Level::kept : &Level::temporary;
    levels[static_cast<size_t>(block.begin)].*part += block.bytes;
    if (block.end >= 0) levels[static_cast<size_t>(block.end)].*part -= block.bytes;
  }
  for (size_t i = 1; i < levels.size(); ++i) {
    levels[i].kept += levels[i - 1].kept;
    levels[i].temporary += levels[i - 1].temporary;
  }
  return levels;
}

std::string bytes_text(int64_t bytes) {
  return grouped_digits(bytes) + formatted(" bytes, %.2f MiB", static_cast<double>(bytes) / (1 << 20));
}

std::string text_at(double x, double y, const std::string& text, const char* more = "") {
  return formatted("<text x=\"%.1f\" y=\"%.1f\"%s>", x, y, more) + svg_escaped(text) + "</text>\n";
}

std::string box(double x, double y, double width, double height, const char* color) {
  return formatted("<rect x=\"%.1f\" y=\"%.2f\" width=\"%.1f\" height=\"%.2f\" fill=\"%s\"/>\n", x, y, width, height,
                   color);
}

// The axes of the picture: events to the right, bytes upwards.
struct Scale {
  double events, bytes;
  double x(int64_t event) const { return kLeft + kWidth * static_cast<double>(event) / events; }
  double y(int64_t count) const { return kTop + kHeight * (1 - static_cast<double>(count) / bytes); }
};

// Returns the area from `floor` to floor + height(level). Each column has the largest sum of its events.
template <class Height>
std::string area(const std::vector<Level>& levels, const Scale& scale, const Height& floor, const Height& top,
                 const char* color) {
  std::string up, down;
  const auto count = static_cast<int64_t>(levels.size());
  const int64_t wide = std::max<int64_t>(1, count / static_cast<int64_t>(kWidth));
  for (int64_t first = 0; first < count; first += wide) {
    const int64_t end = std::min(first + wide, count);
    const Level& level = *std::max_element(levels.begin() + first, levels.begin() + end,
                                           [](const Level& a, const Level& b) { return a.sum() < b.sum(); });
    const double left = scale.x(first), right = scale.x(end), low = scale.y(floor(level)), high = scale.y(top(level));
    up += formatted("L%.1f %.2fL%.1f %.2f", left, high, right, high);
    down = formatted("L%.1f %.2fL%.1f %.2f", right, low, left, low) + down;
  }
  up.front() = 'M';
  return "<path fill=\"" + std::string(color) + "\" d=\"" + up + down + "Z\"/>\n";
}

// Marks where forwards and backwards begin.
std::string phases(const std::vector<TracedBlock>& blocks, const Scale& scale) {
  std::string result;
  double free_from = 0;  // the place where the next label does not cover the one before
  for (size_t i = 0; i < blocks.size(); ++i) {
    const bool backward = is_backward(blocks[i].place);
    if (i > 0 && backward == is_backward(blocks[i - 1].place)) continue;
    const double x = scale.x(blocks[i].begin);
    result += formatted("<path stroke=\"#59636e\" d=\"M%.1f %.1fV%.1f\"/>\n", x, kTop - 6, kTop + kHeight);
    if (x >= free_from) result += text_at(x + 3, kTop - 8, backward ? "backward" : "forward");
    if (x >= free_from) free_from = x + 60;
  }
  return result;
}

}  // namespace

PeakOfBlocks peak_of(const std::vector<TracedBlock>& blocks) {
  const std::vector<Level> levels = levels_of(blocks);
  const auto most = std::ranges::max_element(levels, {}, &Level::sum);
  PeakOfBlocks peak{most - levels.begin(), most->kept, most->temporary, {}};
  std::ranges::copy_if(blocks, std::back_inserter(peak.largest), [&](const TracedBlock& block) {
    return block.bytes > 0 && block.begin <= peak.event && (block.end < 0 || block.end > peak.event);
  });
  std::ranges::stable_sort(peak.largest, std::ranges::greater(), &TracedBlock::bytes);
  peak.largest.resize(std::min(peak.largest.size(), kMostLargest));
  return peak;
}

std::string memory_timeline(const std::vector<MemoryClass>& lasting, const std::vector<TracedBlock>& blocks) {
  const std::vector<Level> levels = levels_of(blocks);
  const PeakOfBlocks peak = peak_of(blocks);
  int64_t floor = 0;
  for (const MemoryClass& part : lasting) floor += part.bytes;
  const int64_t most = floor + peak.kept + peak.temporary;
  const Scale scale = {static_cast<double>(levels.size()), std::max(1.0, static_cast<double>(most))};
  std::string drawn, legend;
  double y = kTop + kHeight + 50;
  const auto explain = [&](const char* color, const std::string& name, int64_t bytes) {
    legend += box(kLeft, y - 11, 12, 12, color) + text_at(kLeft + 20, y, name + ": " + bytes_text(bytes));
    y += kLine;
  };
  int64_t below = 0;
  for (size_t i = 0; i < lasting.size(); ++i) {
    const char* const color = kColors[i % kColors.size()];
    const double top = scale.y(below + lasting[i].bytes);
    drawn += box(kLeft, top, kWidth, scale.y(below) - top, color);
    explain(color, lasting[i].name, lasting[i].bytes);
    below += lasting[i].bytes;
  }
  using Height = int64_t (*)(const Level&, int64_t);
  const auto from = [floor](Height height) { return [=](const Level& level) { return height(level, floor); }; };
  const auto bottom = from([](const Level&, int64_t base) { return base; });
  const auto middle = from([](const Level& level, int64_t base) { return base + level.kept; });
  const auto top = from([](const Level& level, int64_t base) { return base + level.sum(); });
  drawn += area(levels, scale, bottom, middle, kColorOfKept) + area(levels, scale, middle, top, kColorOfTemporary);
  explain(kColorOfKept, "activations, at the peak", peak.kept);
  explain(kColorOfTemporary, "temporary tensors and gradients of activations, at the peak", peak.temporary);
  drawn += phases(blocks, scale);
  drawn += formatted("<path stroke=\"#b3261e\" stroke-dasharray=\"4 3\" d=\"M%.1f %.1fV%.1f\"/>\n", scale.x(peak.event),
                     kTop - 6, kTop + kHeight);
  drawn += text_at(kLeft, kTop + kHeight + 20,
                   "allocations and frees of a step: " + grouped_digits(static_cast<int64_t>(levels.size())));
  y += 10;
  legend += text_at(kLeft, y, "The largest tensors at the peak, and what ran as they were allocated:");
  for (const TracedBlock& block : peak.largest) {
    y += kLine;
    legend += text_at(kLeft + 20, y,
                      bytes_text(block.bytes) + ": " + block.place + (block.op.empty() ? "" : ", " + block.op));
  }
  return formatted(
             "<svg xmlns=\"%s\" width=\"%.0f\" height=\"%.0f\" font-family=\"sans-serif\" "
             "font-size=\"13\" fill=\"#1f2328\">\n",
             kSvgNamespace, kWidth + 2 * kLeft, y + 20) +
         "<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n" +
         text_at(kLeft, 24, "most at once: " + bytes_text(most), " font-weight=\"bold\"") + drawn + legend + "</svg>\n";
}

}  // namespace strata::trainer

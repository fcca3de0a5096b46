// SPDX-License-Identifier: MIT
#include "tools/bench/svg.h"

#include <algorithm>
#include <array>

#include "base/text/formatted.h"
#include "base/text/svg.h"
#include "kernels/runtime/level.h"

namespace strata::tools {
namespace {

// Sizes in pixels.
constexpr double kLabels = 390, kWhole = 480, kWidth = 1100, kBar = 13, kGap = 9, kTop = 64;

constexpr std::array kColors = {"#8c8c8c", "#c2a24c", "#5b8c5a", "#4c78a8", "#b5463c"};  // in the order of kLevelNames
static_assert(kColors.size() == kernels::kLevelNames.size(), "each level has a color");
constexpr const char* kBestColor = "#2f2f2f";
constexpr const char* kOtherColor = "#7a6ba8";  // peers and plain PyTorch

std::string text_element(double x, double y, const std::string& text, const char* more = "") {
  return formatted("<text x=\"%.1f\" y=\"%.1f\" %s>", x, y, more) + svg_escaped(text) + "</text>\n";
}

const char* color_of(const std::string& level) {
  const auto found = std::ranges::find(kernels::kLevelNames, level);
  if (found != kernels::kLevelNames.end()) return kColors[found - kernels::kLevelNames.begin()];
  return level == "best" ? kBestColor : kOtherColor;
}

double length(double share) { return kWhole * std::min(share, 1.2); }

std::string rectangle(double y, const Bar& bar) {
  return formatted("<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"%s\"/>\n", kLabels, y,
                   std::max(length(bar.share), 1.0), kBar - 2, color_of(bar.level));
}

}  // namespace

std::string svg(const std::string& title, const std::string& sentence, const std::vector<Bar>& bars) {
  std::string body, last;
  double y = kTop;
  for (const Bar& bar : bars) {
    if (bar.heading != last) {
      y += kGap;
      body += text_element(8, y + kBar - 3, last = bar.heading);
    }
    body += rectangle(y, bar);
    body += text_element(kLabels + length(bar.share) + 6, y + kBar - 3, bar.level + "  " + bar.label, "fill=\"#444\"");
    y += kBar;
  }
  const std::string head = formatted(
      "<svg xmlns=\"%s\" width=\"%.0f\" height=\"%.0f\" font-family=\"sans-serif\" font-size=\"11\">\n"
      "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n",
      kSvgNamespace, kWidth, y + 20);
  const std::string line = formatted("<line x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"black\"/>\n",
                                     kLabels + kWhole, kLabels + kWhole, kTop, y + 8);
  return head + text_element(8, 22, title, "font-size=\"15\"") + text_element(8, 42, sentence) + body + line +
         "</svg>\n";
}

}  // namespace strata::tools

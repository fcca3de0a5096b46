// SPDX-License-Identifier: MIT
// Draws the picture of a benchmark: horizontal bars, written as SVG text so that a report needs no other program.
#include <algorithm>
#include <cstdio>
#include <map>

#include "tools/bench/report.h"

namespace strata::tools {
namespace {

// Sizes in pixels.
constexpr double kLabels = 390, kRoofline = 480, kWidth = 1060, kBar = 13, kGap = 9, kTop = 64;

const std::map<std::string, const char*> kColors = {{"aten", "#8c8c8c"},
                                                    {"torchscript", "#c2a24c"},
                                                    {"aot_inductor", "#5b8c5a"},
                                                    {"triton", "#4c78a8"},
                                                    {"cuda", "#b5463c"}};
constexpr const char* kNamespace =
    "http:"
    "//www.w3.org/2000/svg";                    // a name, not an address
constexpr const char* kOtherColor = "#7a6ba8";  // peers

std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == '<') {
      result += "&lt;";
    } else if (c == '>') {
      result += "&gt;";
    } else if (c == '&') {
      result += "&amp;";
    } else {
      result += c;
    }
  }
  return result;
}

std::string words(double x, double y, const std::string& text, const char* more = "") {
  char head[160];
  std::snprintf(head, sizeof head, "<text x=\"%.1f\" y=\"%.1f\" %s>", x, y, more);
  return head + escaped(text) + "</text>\n";
}

std::string bar(double y, double share, const std::string& level) {
  const auto color = kColors.find(level);
  char text[200];
  std::snprintf(text, sizeof text, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"%s\"/>\n",
                kLabels, y, std::max(kRoofline * std::min(share, 1.2), 1.0), kBar - 2,
                color == kColors.end() ? kOtherColor : color->second);
  return text;
}

std::string head_of(const Row& row) { return row.op + " " + row.direction + "  " + row.shape + "  " + row.dtype; }

}  // namespace

std::string svg(const std::vector<Row>& rows, const Origin& origin) {
  std::string body;
  double y = kTop;
  std::string last;
  for (const Row& row : rows) {
    if (!row.refused.empty() || row.share <= 0) continue;
    if (head_of(row) != last) {
      y += kGap;
      body += words(8, y + kBar - 3, last = head_of(row));
    }
    body += bar(y, row.share, row.level);
    char label[160];
    std::snprintf(label, sizeof label, "%s  %.1f us  %s", row.level.c_str(), row.microseconds, rate(row).c_str());
    body += words(kLabels + kRoofline * std::min(row.share, 1.2) + 6, y + kBar - 3, label, "fill=\"#444\"");
    y += kBar;
  }
  char roofline[320];
  std::snprintf(roofline, sizeof roofline,
                "copy %.0f GB/s, GEMM %.1f TFLOP/s; bars are shares of what these allow, the line is all of it",
                1e-9 * origin.roofline.bytes_per_second, 1e-12 * origin.roofline.flops_per_second);
  char head[300], line[200];
  std::snprintf(head, sizeof head,
                "<svg xmlns=\"%s\" width=\"%.0f\" height=\"%.0f\" font-family=\"sans-serif\" font-size=\"11\">\n"
                "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n",
                kNamespace, kWidth, y + 20);
  std::snprintf(line, sizeof line, "<line x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"black\"/>\n",
                kLabels + kRoofline, kLabels + kRoofline, kTop, y + 8);
  return head + words(8, 22, "Levels of each op on " + origin.device + ", torch " + origin.torch, "font-size=\"15\"") +
         words(8, 42, roofline) + body + line + "</svg>\n";
}

}  // namespace strata::tools

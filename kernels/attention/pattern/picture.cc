// SPDX-License-Identifier: MIT
#include "kernels/attention/pattern/picture.h"

#include <algorithm>
#include <vector>

#include "base/errors.h"
#include "base/text/formatted.h"
#include "base/text/svg.h"
#include "kernels/attention/pattern/pair_counter.h"
#include "kernels/attention/pattern/program.h"

namespace strata::kernels {
namespace {

// Sizes in pixels.
constexpr int64_t kPicture = 512, kMargin = 16, kLine = 18;
constexpr size_t kLettersPerLine = 76;

constexpr const char *kNone = "#eeeeee", *kPart = "#a8c4e0", *kAll = "#2f5d8a";

// Breaks a text at blanks.
std::vector<std::string> lines_of(std::string text) {
  std::vector<std::string> lines;
  while (text.size() > kLettersPerLine) {
    const size_t blank = std::min(text.rfind(' ', kLettersPerLine), text.size());
    lines.push_back(text.substr(0, blank));
    text.erase(0, std::min(blank + 1, text.size()));
  }
  lines.push_back(text);
  return lines;
}

std::string rectangle(int64_t x, int64_t y, int64_t width, int64_t height, const char* color) {
  const auto text = [](int64_t number) { return std::to_string(number); };
  return "<rect x=\"" + text(x) + "\" y=\"" + text(y) + "\" width=\"" + text(width) + "\" height=\"" + text(height) +
         "\" fill=\"" + color + "\"/>\n";
}

std::string text_element(int64_t x, int64_t y, const std::string& text) {
  return "<text x=\"" + std::to_string(x) + "\" y=\"" + std::to_string(y) + "\">" + svg_escaped(text) + "</text>\n";
}

// One rectangle for each run of equal cells in a row, except for cells without a pair.
std::string runs(const std::vector<const char*>& colors, int64_t row, int64_t pixels) {
  std::string text;
  for (auto first = colors.begin(); first != colors.end();) {
    const auto end = std::find_if(first, colors.end(), [&](const char* color) { return color != *first; });
    const int64_t x = (first - colors.begin()) * pixels;
    if (*first != kNone) text += rectangle(x, row * pixels, (end - first) * pixels, pixels, *first);
    first = end;
  }
  return text;
}

}  // namespace

std::string pattern_picture(const Pattern& pattern, int64_t positions, std::span<const int32_t> document_of) {
  if (positions < 1) throw Error(ExitCode::configuration, "attention pattern: no positions, expected at least 1");
  const int64_t size = (positions + kMostCells - 1) / kMostCells, cells = (positions + size - 1) / size;
  const int64_t pixels = kPicture / cells;
  const auto at = [&](int64_t cell) { return std::min(cell * size, positions); };
  PairCounter counter(compile_program(pattern), positions, document_of);
  int64_t visible = 0;
  std::string drawn;
  for (int64_t row = 0; row < cells; ++row) {
    std::vector<const char*> colors;
    for (int64_t column = 0; column < cells; ++column) {
      const Rectangle cell = {at(row), at(row + 1), at(column), at(column + 1)};
      const int64_t pairs = counter.count(cell);
      colors.push_back(pairs == 0 ? kNone : pairs == cell.pairs() ? kAll : kPart);
      visible += pairs;
    }
    drawn += runs(colors, row, pixels);
  }
  const std::string share =
      formatted("%.3g %% of the pairs of %lld positions are visible",
                100 * static_cast<double>(visible) / (static_cast<double>(positions) * static_cast<double>(positions)),
                static_cast<long long>(positions));
  std::string body;
  int64_t y = kMargin + kLine / 2;
  for (const std::string& line : lines_of(to_text(pattern))) body += text_element(kMargin, y, line), y += kLine;
  body += text_element(kMargin, y, share);
  y += kLine / 2;
  body += "<g transform=\"translate(" + std::to_string(kMargin) + " " + std::to_string(y) + ")\">\n" +
          rectangle(0, 0, cells * pixels, cells * pixels, kNone) + drawn + "</g>\n";
  y += cells * pixels + kLine;
  int64_t x = kMargin;
  for (const auto& [color, meaning] : {std::pair{kNone, "none"}, {kPart, "a part"}, {kAll, "all of a cell"}}) {
    body += rectangle(x, y - kLine / 2, kLine / 2, kLine / 2, color) + text_element(x + kLine, y, meaning);
    x += kPicture / 4;
  }
  const std::string width = std::to_string(kPicture + 2 * kMargin), height = std::to_string(y + kMargin);
  return std::string("<svg xmlns=\"") + kSvgNamespace + "\" width=\"" + width + "\" height=\"" + height +
         "\" font-family=\"sans-serif\" font-size=\"13\">\n" +
         "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n" + body + "</svg>\n";
}

}  // namespace strata::kernels

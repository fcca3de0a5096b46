// SPDX-License-Identifier: MIT
#include "configs/raw_text.h"

#include <algorithm>
#include <cstdio>

#include "base/text/utf8.h"

namespace strata::configs {
namespace {

std::string hex(unsigned char byte) {
  char text[8];
  std::snprintf(text, sizeof text, "0x%02x", byte);
  return text;
}

}  // namespace

std::optional<RawProblem> find_raw_problem(std::string_view text) {
  if (text.starts_with("\xef\xbb\xbf")) {
    return RawProblem{1, 1, "expected plain UTF-8, got a byte order mark; save the file without it"};
  }
  if (text.starts_with("\xff\xfe") || text.starts_with("\xfe\xff")) {
    return RawProblem{1, 1, "expected UTF-8, got UTF-16; save the file as UTF-8"};
  }
  int line = 1, column = 1;
  bool in_indentation = true;
  for (size_t i = 0; i < text.size();) {
    const char c = text[i];
    const size_t bytes = utf8_bytes(text.substr(i));
    if (bytes == 0) {
      return RawProblem{line, column, "expected UTF-8, got the byte " + hex(static_cast<unsigned char>(c))};
    }
    const bool control = (c >= 0 && c < 0x20 && c != '\n' && c != '\r' && c != '\t') || c == 0x7f;
    if (control) {
      return RawProblem{line, column, "expected text, got the control character " + hex(static_cast<unsigned char>(c))};
    }
    if (c == '\t' && in_indentation) {
      const size_t next = text.find_first_not_of(" \t\r", i);
      const bool blank = next == std::string_view::npos || text[next] == '\n' || text[next] == '#';
      if (!blank) return RawProblem{line, column, "expected spaces as indentation, got a tab"};
    }
    if (c != ' ' && c != '\t') in_indentation = false;
    ++column;
    i += bytes;
    if (c == '\n') {
      ++line;
      column = 1;
      in_indentation = true;
    }
  }
  return std::nullopt;
}

int CharacterColumns::column(int position, int byte_column) {
  const int64_t end = std::clamp<int64_t>(position, 0, static_cast<int64_t>(text_.size()));
  const int64_t begin = std::clamp<int64_t>(end - byte_column, 0, end);
  if (begin != line_begin_ || end < counted_to_) {
    line_begin_ = counted_to_ = begin;
    characters_ = 0;
  }
  for (; counted_to_ < end; ++counted_to_) {
    if (!continues_character(text_[static_cast<size_t>(counted_to_)])) ++characters_;
  }
  return characters_ + 1;
}

}  // namespace strata::configs

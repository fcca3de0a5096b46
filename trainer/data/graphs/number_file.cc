// SPDX-License-Identifier: MIT
#include "trainer/data/graphs/number_file.h"

#include <ATen/ops/empty.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <utility>
#include <vector>

#include "base/errors.h"
#include "base/text/printable.h"
#include "trainer/data/graphs/zip_file.h"
#include "trainer/data/refuse_file.h"

namespace strata::trainer {
namespace {

constexpr size_t kLongestLine = 64 << 20;  // enough for millions of numbers

// Reads the lines of a file, which is decompressed in pieces.
class Lines {
 public:
  explicit Lines(const std::string& path) : path_(path), piece_(1 << 20) {
    std::error_code error;
    if (!std::filesystem::is_regular_file(path, error)) refuse_file(path, "is not there, or not a regular file");
    const std::uintmax_t bytes = std::filesystem::file_size(path, error);
    if (error) refuse_file(path, "cannot be opened: " + error.message());
    most_ = ZipFile::most_bytes_of(static_cast<int64_t>(bytes));
    errno = 0;
    file_ = gzopen(path.c_str(), "rb");
    // zlib sets no errno if it has no memory.
    if (file_ == nullptr)
      refuse_file(path, std::string("cannot be opened: ") + std::strerror(errno == 0 ? ENOMEM : errno));
  }
  Lines(const Lines&) = delete;
  Lines& operator=(const Lines&) = delete;
  ~Lines() { gzclose_r(file_); }

  // Returns false at the end of the file. The line has no line break and is valid until the next call.
  bool next(std::string_view& line) {
    while (true) {
      const size_t end = rest_.find('\n', searched_);
      if (end != std::string::npos) {
        line_.assign(rest_, begin_, end - begin_);
        begin_ = searched_ = end + 1;
        break;
      }
      rest_.erase(0, begin_);
      begin_ = 0;
      searched_ = rest_.size();
      if (searched_ > kLongestLine) {
        throw Error(ExitCode::data, path_ + ":" + std::to_string(number_ + 1) + ": is longer than " +
                                        std::to_string(kLongestLine) + " bytes; expected numbers");
      }
      if (!read_piece()) {
        if (rest_.empty()) return false;
        line_ = std::move(rest_);
        rest_.clear();
        searched_ = 0;
        break;
      }
    }
    if (!line_.empty() && line_.back() == '\r') line_.pop_back();
    ++number_;
    line = line_;
    return true;
  }
  int64_t most_bytes() const { return most_; }
  [[noreturn]] void fail_here(const std::string& what) const {
    throw Error(ExitCode::data, path_ + ":" + std::to_string(number_) + ": " + what);
  }

 private:
  bool read_piece() {
    const int got = gzread(file_, piece_.data(), static_cast<unsigned>(piece_.size()));
    int code = Z_OK;
    gzerror(file_, &code);
    if (got < 0 || code == Z_BUF_ERROR) refuse_file(path_, "is damaged or was truncated: it cannot be decompressed");
    read_ += got;
    if (read_ > most_) {
      refuse_file(path_, "expands to " + std::to_string(read_) + " bytes or more, " + ZipFile::bomb(most_));
    }
    rest_.append(piece_.data(), static_cast<size_t>(got));
    return got > 0;
  }

  std::string path_, rest_, line_;
  std::vector<char> piece_;
  size_t begin_ = 0, searched_ = 0;
  gzFile file_ = nullptr;
  int64_t most_ = 0, read_ = 0, number_ = 0;
};

bool is_blank(char c) { return c == ' ' || c == '\t'; }
bool separates(char c) { return c == ',' || c == ';' || is_blank(c); }

// Returns false if the text does not start with such a number. Sets `stop` to its end.
bool parse(const char* at, const char* end, int64_t& number, const char*& stop) {
  const auto [after, code] = std::from_chars(at, end, number);
  stop = after;
  return code == std::errc();
}
// Parses as fp64, which can represent numbers that round to 0 in fp32.
bool parse(const char* at, const char* end, float& number, const char*& stop) {
  double wide = 0;
  const auto [after, code] = std::from_chars(at, end, wide);
  stop = after, number = static_cast<float>(wide);
  return code == std::errc() && std::isfinite(number);
}

constexpr char kInteger[] = "an integer", kReal[] = "a finite number";

// The numbers of the line that was read last.
class Numbers {
 public:
  Numbers(const Lines& lines, std::string_view line) : lines_(lines), at_(line.data()), end_(at_ + line.size()) {}

  // Returns false at the end of the line.
  template <class T>
  bool next(T& number, const char* kind) {
    skip_blanks();
    if (at_ == end_) return false;
    const char* stop = at_;
    if (!parse(at_, end_, number, stop) || (stop != end_ && !separates(*stop))) {
      const std::string_view rest(at_, static_cast<size_t>(end_ - at_));
      lines_.fail_here(std::string("expected ") + kind + ", got '" + printable_start(rest) + "'");
    }
    at_ = stop;
    skip_blanks();
    if (at_ != end_ && (*at_ == ',' || *at_ == ';')) ++at_;
    return true;
  }

 private:
  void skip_blanks() {
    while (at_ != end_ && is_blank(*at_)) ++at_;
  }

  const Lines& lines_;
  const char* at_;
  const char* end_;
};

// Fails if `count` values of `bytes` bytes take more memory than a file of this size may.
void check_memory(const Lines& lines, size_t count, size_t bytes) {
  if (static_cast<int64_t>(count) <= lines.most_bytes() / static_cast<int64_t>(bytes)) return;
  lines.fail_here("the numbers up to here take " + ZipFile::bomb(lines.most_bytes()));
}

std::string numbers(int64_t count) { return std::to_string(count) + (count == 1 ? " number" : " numbers"); }

// Takes the values, so that they are in memory twice only here.
template <class T>
at::Tensor tensor_of(std::vector<T> values, at::ScalarType type) {
  const at::Tensor result = at::empty({static_cast<int64_t>(values.size())}, type);
  std::copy(values.begin(), values.end(), result.mutable_data_ptr<T>());
  return result;
}

template <class T>
at::Tensor read_numbers(const std::string& path, int64_t columns, const char* kind, at::ScalarType type) {
  Lines lines(path);
  std::vector<T> all;
  std::string_view line;
  while (lines.next(line)) {
    int64_t found = 0;
    Numbers in_line(lines, line);
    for (T number{}; in_line.next(number, kind); ++found) {
      check_memory(lines, all.size() + 1, sizeof(T));
      all.push_back(number);
    }
    if (columns == 0) columns = found;
    if (found != columns || found == 0) {
      lines.fail_here("expected " + (columns == 0 ? "numbers" : numbers(columns)) + ", got " + std::to_string(found));
    }
  }
  if (columns == 0) refuse_file(path, "is empty; expected lines of numbers");
  return tensor_of(std::move(all), type).view({-1, columns});
}

}  // namespace

at::Tensor read_integers(const std::string& path, int64_t columns) {
  return read_numbers<int64_t>(path, columns, kInteger, at::kLong);
}

at::Tensor read_reals(const std::string& path, int64_t columns) {
  return read_numbers<float>(path, columns, kReal, at::kFloat);
}

MatrixEntries read_entries(const std::string& path) {
  Lines lines(path);
  std::vector<int64_t> rows, columns;
  std::vector<float> values;
  std::string_view line;
  int64_t wanted = 0;
  while (lines.next(line)) {
    Numbers in_line(lines, line);
    int64_t row = 0, column = 0, found = 0;
    float value = 1, more = 0;
    if (in_line.next(row, kInteger)) ++found;
    if (found == 1 && in_line.next(column, kInteger)) ++found;
    if (found == 2 && in_line.next(value, kReal)) ++found;
    while (found >= 3 && in_line.next(more, kReal)) ++found;
    if (wanted == 0 && (found == 2 || found == 3)) wanted = found;
    if (found != wanted || found == 0) {
      lines.fail_here("expected " + (wanted == 0 ? "2 or 3 numbers" : numbers(wanted)) + ", got " +
                      std::to_string(found));
    }
    check_memory(lines, rows.size() + 1, 2 * sizeof(int64_t) + sizeof(float));
    rows.push_back(row), columns.push_back(column), values.push_back(value);
  }
  if (rows.empty()) refuse_file(path, "is empty; expected lines of numbers");
  return {tensor_of(std::move(rows), at::kLong), tensor_of(std::move(columns), at::kLong),
          tensor_of(std::move(values), at::kFloat)};
}

}  // namespace strata::trainer

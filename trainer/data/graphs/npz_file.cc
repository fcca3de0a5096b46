// SPDX-License-Identifier: MIT
// The format of an array is NumPy's NEP 1: magic, version, the length of the header, the header as a Python dictionary,
// the values.
#include "trainer/data/graphs/npz_file.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/errors.h"
#include "base/text/printable.h"

namespace strata::trainer {
namespace {

struct Header {
  std::string dtype;
  bool fortran_order = false;
  std::vector<int64_t> shape;
};

// Parses only {'descr': '<i8', 'fortran_order': False, 'shape': (3, 4), } and never evaluates an expression.
class HeaderReader {
 public:
  explicit HeaderReader(std::string_view text) : text_(text) {}

  std::optional<Header> read() {
    Header header;
    bool has_dtype = false, has_order = false, has_shape = false;
    if (!take('{')) return {};
    while (!take('}')) {
      const std::optional<std::string> key = word();
      if (!key || !take(':')) return {};
      if (*key == "descr" && !has_dtype) {
        const auto dtype = word();
        if (!dtype) return {};
        header.dtype = *dtype, has_dtype = true;
      } else if (*key == "fortran_order" && !has_order) {
        header.fortran_order = take_word("True");
        if (!header.fortran_order && !take_word("False")) return {};
        has_order = true;
      } else if (*key == "shape" && !has_shape) {
        const auto sizes = shape();
        if (!sizes) return {};
        header.shape = *sizes, has_shape = true;
      } else {
        return {};
      }
      if (!take(',') && peek() != '}') return {};
    }
    return at_end() && has_dtype && has_order && has_shape ? std::optional(header) : std::nullopt;
  }

 private:
  void skip_spaces() {
    while (!text_.empty() && (text_[0] == ' ' || text_[0] == '\n')) text_.remove_prefix(1);
  }
  char peek() {
    skip_spaces();
    return text_.empty() ? '\0' : text_[0];
  }
  bool at_end() { return peek() == '\0' && text_.empty(); }
  bool take(char c) {
    if (peek() != c || text_.empty()) return false;
    text_.remove_prefix(1);
    return true;
  }
  bool take_word(std::string_view expected) {
    skip_spaces();
    if (!text_.starts_with(expected)) return false;
    text_.remove_prefix(expected.size());
    return true;
  }
  std::optional<std::string> word() {
    if (!take('\'')) return {};
    const size_t end = text_.find('\'');
    if (end == std::string_view::npos) return {};
    const std::string result(text_.substr(0, end));
    text_.remove_prefix(end + 1);
    return result;
  }
  std::optional<std::vector<int64_t>> shape() {
    if (!take('(')) return {};
    std::vector<int64_t> sizes;
    while (!take(')')) {
      int64_t size = 0;
      int digits = 0;
      skip_spaces();
      for (; !text_.empty() && text_[0] >= '0' && text_[0] <= '9' && digits < 18; ++digits) {
        size = 10 * size + (text_[0] - '0');
        text_.remove_prefix(1);
      }
      if (digits == 0 || (!take(',') && peek() != ')')) return {};
      sizes.push_back(size);
    }
    return sizes;
  }

  std::string_view text_;
};

// A hostile header can have megabytes of sizes.
constexpr size_t kMostSizes = 8;

std::string shape_text(const std::vector<int64_t>& shape) {
  std::string text;
  for (size_t i = 0; i < std::min(shape.size(), kMostSizes); ++i) {
    text += (i == 0 ? "" : " x ") + std::to_string(shape[i]);
  }
  if (shape.size() > kMostSizes) text += " x ... (" + std::to_string(shape.size()) + " dimensions)";
  return text.empty() ? "a single value" : text;
}

template <class From, class To>
void convert(const char* bytes, int64_t count, To* to) {
  for (int64_t i = 0; i < count; ++i) {
    From value;
    std::memcpy(&value, bytes + i * static_cast<int64_t>(sizeof(From)), sizeof(From));
    to[i] = static_cast<To>(value);
  }
}

int64_t bytes_of(const std::string& dtype) { return dtype[2] - '0'; }

void convert(const std::string& dtype, const char* bytes, int64_t count, const at::Tensor& to) {
  const std::string kind = dtype.substr(1);
  if (kind[0] == 'f') {
    float* values = to.mutable_data_ptr<float>();
    return kind == "f4" ? convert<float>(bytes, count, values) : convert<double>(bytes, count, values);
  }
  if (kind == "b1") return convert<uint8_t>(bytes, count, to.mutable_data_ptr<bool>());
  int64_t* values = to.mutable_data_ptr<int64_t>();
  if (kind == "i8") return convert<int64_t>(bytes, count, values);
  if (kind == "i4") return convert<int32_t>(bytes, count, values);
  if (kind == "i2") return convert<int16_t>(bytes, count, values);
  if (kind == "i1") return convert<int8_t>(bytes, count, values);
  if (kind == "u4") return convert<uint32_t>(bytes, count, values);
  if (kind == "u2") return convert<uint16_t>(bytes, count, values);
  return convert<uint8_t>(bytes, count, values);
}

at::ScalarType type_of(const std::string& dtype) {
  return dtype[1] == 'f' ? at::kFloat : dtype[1] == 'b' ? at::kBool : at::kLong;
}

constexpr char kIntegers[] = "<i8 <i4 <i2 |i1 <u4 <u2 |u1";

// Throws Error (data) that names the array.
using Fail = std::function<void(const std::string& what)>;

struct StoredArray {
  Header header;
  std::string_view values;
};

// Splits the bytes of an .npy file.
StoredArray split_array(std::string_view bytes, const Fail& fail) {
  constexpr size_t kMagic = 8;
  if (bytes.size() < kMagic + 4 || !bytes.starts_with("\x93NUMPY")) fail("does not begin as an array of NumPy does");
  const int version = bytes[6];
  if (version < 1 || version > 3)
    fail("has version " + std::to_string(version) + " of NumPy's format; expected 1 to 3");
  const size_t length_bytes = version == 1 ? 2 : 4;
  size_t length = 0;
  for (size_t i = length_bytes; i-- > 0;) length = length << 8 | static_cast<uint8_t>(bytes[kMagic + i]);
  const size_t begin = kMagic + length_bytes;
  if (length > bytes.size() - begin) fail("was truncated in its header");
  std::optional<Header> header = HeaderReader(bytes.substr(begin, length)).read();
  if (!header) fail("has a header that is not one of a plain array of numbers");
  if (header->dtype.find('O') != std::string::npos) {
    fail("holds objects of Python (dtype " + printable_start(header->dtype) +
         "), which are a pickle; no pickle is read");
  }
  return {std::move(*header), bytes.substr(begin + length)};
}

// Returns the number of values that the header says, which are all there.
int64_t checked_count(const Header& header, std::string_view values, const Fail& fail) {
  const auto stored_bytes = static_cast<int64_t>(values.size());
  const int64_t stored_values = stored_bytes / bytes_of(header.dtype);
  int64_t count = 1;
  for (const int64_t size : header.shape) {
    if (size > 0 && count > stored_values / size)
      fail("says that it is " + shape_text(header.shape) + ", more than is there");
    count *= size;
  }
  if (count * bytes_of(header.dtype) != stored_bytes) {
    fail("says that it is " + shape_text(header.shape) + ", and has another number of values");
  }
  return count;
}

}  // namespace

at::Tensor NpzFile::integers(const std::string& array, int64_t dimensions) {
  return read(array, kIntegers, "integers", dimensions);
}

at::Tensor NpzFile::reals(const std::string& array, int64_t dimensions) {
  return read(array, "<f4 <f8", "floating point numbers", dimensions);
}

at::Tensor NpzFile::items(const std::string& array, int64_t all) {
  const at::Tensor values = read(array, std::string(kIntegers) + " |b1", "integers or a mask", /*dimensions=*/1);
  if (values.scalar_type() != at::kBool) return values;
  if (values.numel() != all) {
    throw Error(ExitCode::data, path() + ": " + array + " is a mask of " + std::to_string(values.numel()) +
                                    " booleans; expected " + std::to_string(all) + ", one for each item");
  }
  return values.nonzero().flatten();
}

at::Tensor NpzFile::read(const std::string& array, const std::string& kinds, const std::string& expected,
                         int64_t dimensions) {
  const Fail fail = [&](const std::string& what) { throw Error(ExitCode::data, path() + ": " + array + " " + what); };
  const ZipEntry* entry = zip_.find(array + ".npy");
  if (entry == nullptr) fail("is not among its arrays");
  const std::vector<char> bytes = zip_.read(*entry);
  const auto [header, values] = split_array({bytes.data(), bytes.size()}, fail);
  if ((" " + kinds + " ").find(" " + header.dtype + " ") == std::string::npos || header.dtype.size() != 3) {
    fail("holds values of dtype " + printable_start(header.dtype) + "; expected " + expected + " (" + kinds + ")");
  }
  if (static_cast<int64_t>(header.shape.size()) != dimensions) {
    fail("is " + shape_text(header.shape) + "; expected " + std::to_string(dimensions) + " dimension" +
         (dimensions == 1 ? "" : "s"));
  }
  if (header.fortran_order && dimensions > 1) fail("is stored column by column (fortran_order); expected row by row");
  const int64_t count = checked_count(header, values, fail);
  // A boolean that is true becomes the number of its item.
  const int64_t width = header.dtype[1] == 'f' ? sizeof(float) : sizeof(int64_t);
  if (count > zip_.most_bytes() / width) {
    fail("takes " + std::to_string(count) + " x " + std::to_string(width) + " bytes in memory, " +
         ZipFile::bomb(zip_.most_bytes()));
  }
  const at::Tensor result = at::empty(header.shape, type_of(header.dtype));
  convert(header.dtype, values.data(), count, result);
  return result;
}

}  // namespace strata::trainer

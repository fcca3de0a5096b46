// SPDX-License-Identifier: MIT
// Offsets of fields are from PKWARE's APPNOTE, 4.3.7 (local header), 4.3.12 (central directory), 4.3.16 (end of central
// directory).
#include "trainer/data/graphs/zip_file.h"

#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <new>
#include <string_view>
#include <unordered_map>

#include "base/errors.h"

namespace strata::trainer {
namespace {

constexpr int64_t kEndBytes = 22, kCentralBytes = 46, kLocalBytes = 30, kMostComment = 65535;
constexpr int64_t kZip64 = 0xffffffff;  // marks a size or an offset that is in a ZIP64 field
constexpr int kStored = 0, kDeflated = 8, kEncrypted = 1;

int64_t number(const char* bytes, int count) {
  int64_t value = 0;
  for (int i = count - 1; i >= 0; --i) value = value << 8 | static_cast<uint8_t>(bytes[i]);
  return value;
}

bool has_signature(const char* bytes, char third, char fourth) {
  return bytes[0] == 'P' && bytes[1] == 'K' && bytes[2] == third && bytes[3] == fourth;
}

}  // namespace

int64_t ZipFile::most_bytes_of(int64_t file_bytes) { return std::max(int64_t{64} << 20, 100 * file_bytes); }

std::string ZipFile::bomb(int64_t most_bytes) {
  return "more than " + std::to_string(most_bytes) +
         " (the larger of 64 MiB and 100 to 1): a compression bomb; if it is none, write it without compression";
}

ZipFile::ZipFile(const std::string& path) : path_(path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) fail("is not there, or not a regular file");
  file_bytes_ = static_cast<int64_t>(std::filesystem::file_size(path, error));
  file_.open(path, std::ios::binary);
  if (error || !file_) fail(std::string("cannot be opened: ") + std::strerror(errno));
  if (file_bytes_ >= kZip64) fail("is larger than 4 GiB; ZIP archives of that size are not read");
  read_directory();
  check_sizes();
}

const ZipEntry* ZipFile::find(const std::string& name) const {
  const auto found = std::find_if(entries_.begin(), entries_.end(), [&](const auto& e) { return e.name == name; });
  return found == entries_.end() ? nullptr : &*found;
}

void ZipFile::fail(const std::string& what) const { throw Error(ExitCode::data, path_ + ": " + what); }

std::vector<char> ZipFile::bytes_at(int64_t offset, int64_t count) {
  if (offset < 0 || count > file_bytes_ || offset > file_bytes_ - count) {
    fail("was truncated or is damaged: it speaks of bytes " + std::to_string(offset) + " to " +
         std::to_string(offset + count) + " and has " + std::to_string(file_bytes_));
  }
  std::vector<char> bytes(static_cast<size_t>(count));
  file_.seekg(offset);
  if (!file_.read(bytes.data(), count)) fail("cannot be read, or became shorter while it was read");
  return bytes;
}

void ZipFile::read_directory() {
  if (file_bytes_ < kEndBytes) fail("is not a ZIP archive: it has only " + std::to_string(file_bytes_) + " bytes");
  const int64_t tail_bytes = std::min(file_bytes_, kEndBytes + kMostComment);
  const std::vector<char> tail = bytes_at(file_bytes_ - tail_bytes, tail_bytes);
  int64_t end = tail_bytes - kEndBytes;
  while (end >= 0 && !has_signature(tail.data() + end, 5, 6)) --end;
  if (end < 0) fail("is not a ZIP archive, or was truncated: the end of its directory is missing");
  const char* record = tail.data() + end;
  const int64_t count = number(record + 10, 2), size = number(record + 12, 4), begin = number(record + 16, 4);
  // Other readers take the directory from another place if these numbers disagree.
  const bool is_whole = number(record + 4, 2) == 0 && number(record + 6, 2) == 0 && number(record + 8, 2) == count;
  if (!is_whole) fail("is one of several parts of an archive; expected a whole one");
  if (number(record + 20, 2) != tail_bytes - end - kEndBytes) {
    fail("is damaged: its comment has " + std::to_string(number(record + 20, 2)) + " bytes, and " +
         std::to_string(tail_bytes - end - kEndBytes) + " follow the end of its directory");
  }
  const std::vector<char> directory = bytes_at(begin, size);
  int64_t at = 0;
  for (int64_t i = 0; i < count; ++i) {
    if (size - at < kCentralBytes || !has_signature(directory.data() + at, 1, 2)) {
      fail("is damaged: entry " + std::to_string(i) + " of its directory cannot be read");
    }
    const char* entry = directory.data() + at;
    const int64_t name = number(entry + 28, 2), extra = number(entry + 30, 2), comment = number(entry + 32, 2);
    if (size - at < kCentralBytes + name + extra + comment) fail("is damaged: its directory ends in an entry");
    entries_.push_back({.name = std::string(entry + kCentralBytes, static_cast<size_t>(name)),
                        .method = static_cast<int>(number(entry + 10, 2)),
                        .checksum = static_cast<uint32_t>(number(entry + 16, 4)),
                        .compressed_bytes = number(entry + 20, 4),
                        .bytes = number(entry + 24, 4),
                        .offset = number(entry + 42, 4)});
    const ZipEntry& read = entries_.back();
    if ((number(entry + 8, 2) & kEncrypted) != 0) fail("entry " + std::to_string(i) + " is encrypted");
    if (read.method != kStored && read.method != kDeflated) {
      fail("entry " + std::to_string(i) + " is compressed by method " + std::to_string(read.method) +
           "; expected stored or deflated");
    }
    if (read.compressed_bytes == kZip64 || read.bytes == kZip64 || read.offset == kZip64) {
      fail("entry " + std::to_string(i) + " is larger than 4 GiB; entries of that size are not read");
    }
    at += kCentralBytes + name + extra + comment;
  }
}

void ZipFile::check_sizes() const {
  int64_t compressed = 0, expanded = 0;
  std::unordered_map<std::string_view, size_t> place_of;
  for (size_t i = 0; i < entries_.size(); ++i) {
    const ZipEntry& entry = entries_[i];
    compressed += kLocalBytes + entry.compressed_bytes;
    expanded += entry.bytes;
    const auto [first, is_new] = place_of.emplace(entry.name, i);
    if (is_new) continue;
    fail("has two entries of the same name, the first of them entry " + std::to_string(first->second));
  }
  if (compressed > file_bytes_) fail("is damaged: its entries overlap or are more than the file");
  if (expanded > most_bytes_of(file_bytes_)) {
    fail("expands from " + std::to_string(file_bytes_) + " to " + std::to_string(expanded) + " bytes, " +
         bomb(most_bytes()));
  }
}

std::vector<char> ZipFile::read(const ZipEntry& entry) {
  const std::vector<char> header = bytes_at(entry.offset, kLocalBytes);
  if (!has_signature(header.data(), 3, 4)) fail("is damaged: an entry does not begin where its directory says");
  const int64_t name_bytes = number(header.data() + 26, 2);
  const std::vector<char> name = bytes_at(entry.offset + kLocalBytes, name_bytes);
  if (std::string_view(name.data(), name.size()) != entry.name) {
    fail("is damaged: an entry has another name than its directory says");
  }
  const int64_t begin = entry.offset + kLocalBytes + name_bytes + number(header.data() + 28, 2);
  std::vector<char> compressed = bytes_at(begin, entry.compressed_bytes), bytes;
  if (entry.method == kStored) {
    bytes = std::move(compressed);
  } else {
    bytes.resize(static_cast<size_t>(entry.bytes));
    z_stream stream{};
    if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) throw std::bad_alloc();
    stream.next_in = reinterpret_cast<Bytef*>(compressed.data());
    stream.avail_in = static_cast<uInt>(compressed.size());
    stream.next_out = reinterpret_cast<Bytef*>(bytes.data());
    stream.avail_out = static_cast<uInt>(bytes.size());
    const int code = inflate(&stream, Z_FINISH);
    const bool whole = code == Z_STREAM_END && stream.avail_out == 0;
    inflateEnd(&stream);
    if (!whole) fail("is damaged: an entry cannot be decompressed, or is not of the size that its directory says");
  }
  const auto checksum = crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size());
  if (static_cast<int64_t>(bytes.size()) != entry.bytes || checksum != entry.checksum) {
    fail("is damaged: an entry does not have the size or the checksum that its directory says");
  }
  return bytes;
}

}  // namespace strata::trainer

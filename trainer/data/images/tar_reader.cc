// SPDX-License-Identifier: MIT
#include "trainer/data/images/tar_reader.h"

#include <archive.h>
#include <archive_entry.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <new>
#include <string_view>
#include <utility>

#include "base/errors.h"
#include "base/text/printable.h"

namespace strata::trainer {
namespace {

constexpr int64_t kBlock = 512, kMostBytes = int64_t{1} << 30;
constexpr size_t kReadAtOnce = 1 << 20;
constexpr size_t kLongestName = 1024;  // a message may have it twice, and a line of a message has at most 4 KiB

bool leads_out(std::string_view name) {
  if (name.starts_with('/')) return true;
  for (size_t begin = 0; begin <= name.size();) {
    const size_t end = std::min(name.find('/', begin), name.size());
    if (name.substr(begin, end - begin) == "..") return true;
    begin = end + 1;
  }
  return false;
}

const char* kind_of(archive_entry* entry) {
  if (archive_entry_hardlink(entry) != nullptr) return "a link";
  switch (archive_entry_filetype(entry)) {
    case AE_IFREG:
    case AE_IFDIR:
      return nullptr;
    case AE_IFLNK:
      return "a link";
    default:
      return "a device, a pipe or a socket";
  }
}

// libarchive has no message for some kinds of damage.
std::string reason_of(archive* opened) {
  const char* text = archive_error_string(opened);
  return text == nullptr ? "damaged" : text;
}

}  // namespace

void TarReader::Close::operator()(archive* opened) const { archive_read_free(opened); }

TarReader::TarReader(std::string path) : path_(std::move(path)), archive_(archive_read_new()) {
  if (!archive_) throw std::bad_alloc();
  struct stat status {};
  if (stat(path_.c_str(), &status) != 0) fail(std::string("cannot be opened: ") + std::strerror(errno));
  if (!S_ISREG(status.st_mode)) fail("is not a regular file; expected a tar archive");
  if (status.st_size == 0) fail("is empty; expected a tar archive");
  bytes_ = status.st_size;
  archive_read_support_format_tar(archive_.get());
  if (archive_read_open_filename(archive_.get(), path_.c_str(), kReadAtOnce) != ARCHIVE_OK) {
    fail_to_read("is no tar archive or a damaged one (compressed ones are not read)");
  }
}

void TarReader::fail(const std::string& what) const { throw Error(ExitCode::data, path_ + ": " + what); }

void TarReader::fail_in_storage(const std::string& reason) const {
  throw Error(ExitCode::storage, path_ + ": cannot be read: " + reason +
                                     "; the storage failed and not the archive: mend the storage, then resume the run");
}

void TarReader::fail_to_read(const std::string& what) const {
  const int reason = archive_errno(archive_.get());
  if (reason == ENOMEM) throw std::bad_alloc();
  // libarchive reports damage as -1, EILSEQ or EINVAL, and some kinds of it without a number.
  const bool is_damage = reason <= 0 || reason == EILSEQ || reason == EINVAL;
  const bool is_closed = reason == ENOENT || reason == ENOTDIR || reason == EACCES;
  if (!is_damage && !is_closed) fail_in_storage(reason_of(archive_.get()));
  fail(what + ": " + reason_of(archive_.get()));
}

// An archive ends with blocks of zeros. If they are missing, the archive may have been cut between two files, which
// nothing else shows. What follows them would be left out without a word, most often a second archive.
void TarReader::check_end() const {
  int64_t at = archive_read_header_position(archive_.get());
  if (bytes_ - at < kBlock) fail("ends too early: the zeros that end a tar archive are missing");
  std::ifstream file(path_, std::ios::binary);
  file.seekg(at);
  for (std::array<char, kBlock> block{}; at < bytes_; at += kBlock) {
    const int64_t count = std::min(kBlock, bytes_ - at);
    if (!file.read(block.data(), count)) {
      if (!file.eof()) fail_in_storage("a failure at byte " + std::to_string(at));
      fail("has become shorter while it was read");
    }
    if (std::all_of(block.begin(), block.begin() + count, [](char c) { return c == 0; })) continue;
    fail("goes on at byte " + std::to_string(at) +
         ", after the zeros that end a tar archive; expected one archive in this file: give each a file of its own");
  }
}

std::optional<TarMember> TarReader::next() {
  while (true) {
    archive_entry* entry = nullptr;
    const int result = archive_read_next_header(archive_.get(), &entry);
    const int64_t position = archive_read_header_position(archive_.get());
    const std::string after = member_.name.empty() ? "" : " after '" + member_.name + "'";
    if (result != ARCHIVE_OK && result != ARCHIVE_WARN && result != ARCHIVE_EOF) {
      fail_to_read("is no tar archive or a damaged one" + after);
    }
    // Each file may fit by itself while all together claim a thousand times the archive, as sparse files do, whose
    // bytes are mostly holes.
    if (position < next_) {
      fail("says that '" + member_.name + "' has " + std::to_string(member_.bytes) + " bytes, " +
           std::to_string(next_ - position) + " more than the archive has for it; sparse files are not read: pack it " +
           "without --sparse");
    }
    next_ = position;
    if (result == ARCHIVE_EOF) {
      check_end();
      return {};
    }
    const char* name = archive_entry_pathname(entry);
    if (name == nullptr) name = archive_entry_pathname_utf8(entry);  // if the locale cannot represent the name
    if (name == nullptr || *name == '\0') fail("holds a file without a name" + after);
    member_ = {name, archive_entry_size(entry)};
    if (member_.name.size() > kLongestName) {
      fail("holds a name of " + std::to_string(member_.name.size()) + " bytes, expected at most " +
           std::to_string(kLongestName));
    }
    if (printable(member_.name) != member_.name) fail("holds a name with control characters: " + printable(name));
    if (leads_out(member_.name)) fail("holds '" + member_.name + "', a name that leads out of its folder");
    if (const char* kind = kind_of(entry)) fail("holds '" + member_.name + "', which is " + kind);
    const int64_t left = bytes_ - position - kBlock;
    if (member_.bytes < 0 || member_.bytes > std::min(left, kMostBytes)) {
      fail("says that '" + member_.name + "' has " + std::to_string(member_.bytes) + " bytes; " +
           (left < kMostBytes ? std::to_string(left) + " follow in the archive" : "more than 1 GiB is not read"));
    }
    if (archive_entry_filetype(entry) != AE_IFREG) continue;
    next_ = position + kBlock + member_.bytes;
    return member_;
  }
}

std::string TarReader::read() {
  std::string bytes(static_cast<size_t>(member_.bytes), '\0');
  for (size_t have = 0; have < bytes.size();) {
    const la_ssize_t got = archive_read_data(archive_.get(), bytes.data() + have, bytes.size() - have);
    if (got < 0) fail_to_read("'" + member_.name + "' cannot be read");
    if (got == 0) fail("'" + member_.name + "' ends too early");
    have += static_cast<size_t>(got);
  }
  return bytes;
}

}  // namespace strata::trainer

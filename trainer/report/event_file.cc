// SPDX-License-Identifier: MIT
#include "trainer/report/event_file.h"

#include <unistd.h>

#include <array>
#include <bit>
#include <chrono>
#include <filesystem>
#include <optional>

#include "base/files/file_io.h"

namespace strata::trainer {
namespace {

namespace fs = std::filesystem;

constexpr char kPrefix[] = "events.out.tfevents.";
constexpr uint64_t kFrame = 16;                // u64 length, u32 its CRC, ..., u32 CRC of the message
constexpr uint64_t kLargestMessage = 1 << 20;  // messages have a few hundred bytes

// Castagnoli's polynomial, reflected.
constexpr std::array<uint32_t, 256> crc_table() {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    table[i] = i;
    for (int bit = 0; bit < 8; ++bit) table[i] = (table[i] >> 1) ^ (table[i] & 1 ? 0x82f63b78 : 0);
  }
  return table;
}

uint32_t masked_crc(std::string_view bytes) {
  const uint32_t crc = crc32c(bytes);
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8;
}

void append_little_endian(std::string& bytes, uint64_t value, int width) {
  for (int i = 0; i < width; ++i) bytes += static_cast<char>(value >> (8 * i));
}

uint64_t read_little_endian(std::string_view bytes, int width) {
  uint64_t value = 0;
  for (int i = 0; i < width; ++i) value |= static_cast<uint64_t>(static_cast<unsigned char>(bytes[i])) << (8 * i);
  return value;
}

// A protobuf field is a key (number, wire type) and a value.
enum Wire { kVarint = 0, kFixed64 = 1, kLength = 2, kFixed32 = 5 };

void append_varint(std::string& message, uint64_t value) {
  for (; value >= 128; value >>= 7) message += static_cast<char>(value | 128);
  message += static_cast<char>(value);
}

void append_key(std::string& message, int field, Wire wire) { append_varint(message, field << 3 | wire); }

void append_bytes(std::string& message, int field, std::string_view bytes) {
  append_key(message, field, kLength);
  append_varint(message, bytes.size());
  message += bytes;
}

// Builds a protobuf Event: wall_time = 1, step = 2, and either file_version = 3 or summary = 5. wall_time and step
// always come first.
std::string event(int64_t step, int field, std::string_view content) {
  const double now = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  std::string message;
  append_key(message, 1, kFixed64);
  append_little_endian(message, std::bit_cast<uint64_t>(now), 8);
  append_key(message, 2, kVarint);
  append_varint(message, step);
  append_bytes(message, field, content);
  return message;
}

std::string framed(std::string_view message) {
  std::string record;
  append_little_endian(record, message.size(), 8);
  append_little_endian(record, masked_crc(record), 4);
  record += message;
  append_little_endian(record, masked_crc(message), 4);
  return record;
}

// Reads the step of an event that event() has written.
std::optional<uint64_t> step_of(std::string_view message) {
  constexpr size_t kBegin = 10;  // after the key and value of wall_time, and the key of step
  uint64_t step = 0;
  for (size_t i = kBegin; i < message.size() && i < kBegin + 10; ++i) {
    step |= static_cast<uint64_t>(message[i] & 127) << (7 * (i - kBegin));
    if ((message[i] & 128) == 0) return step;
  }
  return std::nullopt;
}

// Returns the length of the part of the file that is intact and has no step above last_step; 0 if not even its first
// record is intact.
uint64_t bytes_until(const std::string& path, uint64_t last_step) {
  const InputFile file(path);
  uint64_t kept = 0;
  std::string message;
  while (file.bytes() - kept > kFrame) {
    char head[12];
    file.read(kept, head, sizeof head);
    const uint64_t length = read_little_endian({head, 8}, 8);
    if (read_little_endian({head + 8, 4}, 4) != masked_crc({head, 8}) || length > kLargestMessage) break;
    if (length > file.bytes() - kept - kFrame) break;
    message.resize(length + 4);
    file.read(kept + sizeof head, message.data(), message.size());
    const std::string_view content(message.data(), length);
    if (read_little_endian(std::string_view(message).substr(length), 4) != masked_crc(content)) break;
    const std::optional<uint64_t> step = step_of(content);
    if (!step || *step > last_step) break;
    kept += length + kFrame;
  }
  return kept;
}

std::string new_name() {
  char host[256] = "localhost";
  ::gethostname(host, sizeof host - 1);
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return kPrefix + std::to_string(std::chrono::duration_cast<std::chrono::seconds>(now).count()) + "." + host + "." +
         std::to_string(::getpid()) + ".0";
}

}  // namespace

uint32_t crc32c(std::string_view bytes) {
  static constexpr std::array<uint32_t, 256> kTable = crc_table();
  uint32_t crc = ~0u;
  for (const char byte : bytes) crc = (crc >> 8) ^ kTable[(crc ^ static_cast<unsigned char>(byte)) & 255];
  return ~crc;
}

EventFile::EventFile(const std::string& folder, int64_t resumed_step, RecordFile::Warn warn) {
  std::string newest;
  uint64_t kept = 0;
  try {
    for (const auto& entry : fs::directory_iterator(folder)) {
      const std::string path = entry.path();
      if (!entry.path().filename().string().starts_with(kPrefix)) continue;
      if (resumed_step < 0) {
        fs::remove(path);
      } else if (path > newest) {
        newest = path;
      }
    }
    if (!newest.empty()) kept = bytes_until(newest, resumed_step);
  } catch (const std::exception& error) {
    warn(error.what());
    newest.clear();
  }
  file_ = std::make_unique<RecordFile>(newest.empty() ? folder + "/" + new_name() : newest, kept, std::move(warn));
  if (kept == 0) file_->append(framed(event(0, 3, "brain.Event:2")));
}

void EventFile::append(int64_t step, const Scalars& scalars) {
  std::string summary;
  for (const auto& [name, number] : scalars) {
    std::string value;  // tag = 1, simple_value = 2
    append_bytes(value, 1, name);
    append_key(value, 2, kFixed32);
    append_little_endian(value, std::bit_cast<uint32_t>(static_cast<float>(number)), 4);
    append_bytes(summary, 1, value);
  }
  file_->append(framed(event(step, 5, summary)));
}

}  // namespace strata::trainer

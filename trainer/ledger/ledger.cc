// SPDX-License-Identifier: MIT
#include "trainer/ledger/ledger.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "base/digest.h"
#include "base/errors.h"
#include "base/files/file_io.h"

namespace strata::trainer {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kLargestLedger = uint64_t{1} << 33;  // 200 million steps
constexpr uint64_t kChecksumSeed = 1;

// start: the first bytes of the facts of a start. more: the bytes after them. overflowed_step: a step with
// LedgerStep::overflowed.
enum class Kind : uint16_t { start = 1, more = 2, step = 3, weights = 4, overflowed_step = 5 };

struct Record {
  static constexpr size_t kContent = 24;

  uint32_t checksum = 0;  // checksum of all that follows
  Kind kind = Kind::start;
  uint16_t used = kContent;  // bytes of the content
  int64_t step = 0;          // in the record of a start: the step before its first one
  char content[kContent] = {};
};
constexpr size_t kRecordBytes = 40;
static_assert(sizeof(Record) == kRecordBytes);

// The content of Kind::step and Kind::overflowed_step.
struct StepContent {
  uint64_t data;
  float loss, gradient_norm, loss_of_rank, squares_of_rank;
};
static_assert(sizeof(StepContent) == Record::kContent);

uint32_t checksum_of(const Record& record) {
  const char* const bytes = reinterpret_cast<const char*>(&record);
  return static_cast<uint32_t>(
      hash_bytes(bytes + sizeof record.checksum, sizeof record - sizeof record.checksum, kChecksumSeed));
}

std::string to_bytes(Kind kind, int64_t step, std::string_view content) {
  Record record{.kind = kind, .used = static_cast<uint16_t>(content.size()), .step = step};
  std::memcpy(record.content, content.data(), content.size());
  record.checksum = checksum_of(record);
  return {reinterpret_cast<const char*>(&record), sizeof record};
}

// Calls visit(record, end) for each whole record whose checksum is right, until it returns false. `end` is the number
// of bytes up to its end.
template <class Visit>
void for_each_record(std::string_view bytes, const Visit& visit) {
  for (size_t end = kRecordBytes; end <= bytes.size(); end += kRecordBytes) {
    Record record;
    std::memcpy(&record, bytes.data() + end - kRecordBytes, kRecordBytes);
    const bool whole = record.checksum == checksum_of(record) && record.used <= Record::kContent;
    if (whole && !visit(record, end)) return;
  }
}

// Returns the length of the part that has records up to last_step. It ends with a record that is whole.
uint64_t bytes_until(std::string_view bytes, int64_t last_step) {
  uint64_t kept = 0;
  for_each_record(bytes, [&](const Record& record, size_t end) {
    if (record.step > last_step) return false;
    kept = end;
    return true;
  });
  return kept;
}

std::string facts_text(const Facts& facts) {
  std::string text;
  for (const auto& [name, value] : facts) text += name + '\t' + value + '\n';
  return text;
}

Facts parse_facts(std::string_view text) {
  Facts facts;
  for (size_t end = text.find('\n'); end != text.npos; text.remove_prefix(end + 1), end = text.find('\n')) {
    const std::string_view line = text.substr(0, end);
    const size_t tab = std::min(line.find('\t'), line.size());
    facts[std::string(line.substr(0, tab))] = line.substr(std::min(tab + 1, line.size()));
  }
  return facts;
}

// Returns the bytes of 2 digits each.
std::string from_hex(std::string_view digits) {
  std::string bytes;
  for (size_t i = 0; i + 1 < digits.size(); i += 2) {
    unsigned byte = 0;
    std::from_chars(digits.data() + i, digits.data() + i + 2, byte, 16);
    bytes += static_cast<char>(byte);
  }
  return bytes;
}

std::string to_hex(std::string_view bytes) {
  std::string digits;
  for (const char byte : bytes) {
    digits += "0123456789abcdef"[static_cast<unsigned char>(byte) >> 4];
    digits += "0123456789abcdef"[byte & 15];
  }
  return digits;
}

}  // namespace

const Facts* Ledger::facts_of(int64_t step) const {
  const Facts* facts = nullptr;
  for (const LedgerStart& start : starts) {
    if (start.after < step) facts = &start.facts;
  }
  return facts;
}

std::string ledger_path(const std::string& folder, int rank) { return folder + "/ledger/rank-" + std::to_string(rank); }

Ledger parse_ledger(std::string_view bytes) {
  Ledger ledger;
  std::vector<std::string> texts;  // facts of each start
  for_each_record(bytes, [&](const Record& record, size_t /*end*/) {
    const std::string_view content(record.content, record.used);
    if (record.kind == Kind::start) {
      ledger.starts.push_back({.after = record.step});
      texts.emplace_back(content);
    } else if (record.kind == Kind::more && !texts.empty()) {
      texts.back() += content;
    } else if (record.kind == Kind::step || record.kind == Kind::overflowed_step) {
      StepContent step;
      std::memcpy(&step, record.content, sizeof step);
      ledger.steps[record.step] = {.step = record.step,
                                   .data = step.data,
                                   .loss = step.loss,
                                   .gradient_norm = step.gradient_norm,
                                   .loss_of_rank = step.loss_of_rank,
                                   .squares_of_rank = step.squares_of_rank,
                                   .overflowed = record.kind == Kind::overflowed_step};
    } else if (record.kind == Kind::weights) {
      ledger.weights[record.step] = to_hex(content);
    }
    return true;
  });
  for (size_t i = 0; i < texts.size(); ++i) ledger.starts[i].facts = parse_facts(texts[i]);
  return ledger;
}

std::vector<Ledger> read_ledgers(const std::string& folder) {
  std::vector<Ledger> ledgers = {parse_ledger(read_text_file(ledger_path(folder, 0), kLargestLedger))};
  int ranks = 1;
  for (const LedgerStart& start : ledgers[0].starts) {
    const auto found = start.facts.find(kFactRanks);
    if (found != start.facts.end()) ranks = std::max(ranks, std::atoi(found->second.c_str()));
  }
  for (int rank = 1; rank < ranks; ++rank) {
    const std::string path = ledger_path(folder, rank);
    ledgers.push_back(fs::exists(path) ? parse_ledger(read_text_file(path, kLargestLedger)) : Ledger());
  }
  return ledgers;
}

std::string records_of(const LedgerStart& start) {
  const std::string text = facts_text(start.facts);
  std::string records;
  for (size_t i = 0; i == 0 || i < text.size(); i += Record::kContent) {
    records +=
        to_bytes(i == 0 ? Kind::start : Kind::more, start.after, std::string_view(text).substr(i, Record::kContent));
  }
  return records;
}

std::string record_of(const LedgerStep& step) {
  const StepContent content{step.data, step.loss, step.gradient_norm, step.loss_of_rank, step.squares_of_rank};
  return to_bytes(step.overflowed ? Kind::overflowed_step : Kind::step, step.step,
                  {reinterpret_cast<const char*>(&content), sizeof content});
}

std::string record_of_weights(int64_t step, std::string_view weights_sha256) {
  return to_bytes(Kind::weights, step, from_hex(weights_sha256.substr(0, 2 * Record::kContent)));
}

LedgerWriter::LedgerWriter(const Options& options, RecordFile::Warn warn) {
  const std::string path = ledger_path(options.folder, options.rank);
  uint64_t kept = 0;
  Facts facts;              // facts of the last start that is kept
  std::error_code ignored;  // the file that is opened below reports what is wrong with its folder
  fs::create_directories(fs::path(path).parent_path(), ignored);
  if (options.resumed_step >= 0 && fs::exists(path, ignored)) {
    try {
      std::string bytes = read_text_file(path, kLargestLedger);
      kept = bytes_until(bytes, options.resumed_step);
      bytes.resize(kept);
      const Ledger ledger = parse_ledger(bytes);
      if (!ledger.starts.empty()) facts = ledger.starts.back().facts;
    } catch (const Error& error) {
      warn(std::string(error.what()) + "; the ledger of rank " + std::to_string(options.rank) + " begins anew");
    }
  }
  file_.emplace(path, kept, std::move(warn));
  if (kept > 0 && facts == options.facts) return;
  file_->append(records_of({.after = std::max<int64_t>(options.resumed_step, 0), .facts = options.facts}));
}

}  // namespace strata::trainer

// SPDX-License-Identifier: MIT
#include "sharding/communication/collective_check.h"

#include <algorithm>
#include <functional>
#include <string>

#include "base/errors.h"
#include "base/files/text_lines.h"

namespace strata::sharding {
namespace {

// A text such as "0 5 3 ": the number of elements that a rank sends to each rank.
std::string counts_text(const std::vector<int64_t>& counts) {
  std::string text;
  for (const int64_t count : counts) text += std::to_string(count) + " ";
  return text;
}

}  // namespace

class CollectiveCheck::Log {
 public:
  explicit Log(HostGroup group, bool handshakes) : group_(std::move(group)), handshakes_(handshakes) {}

  const HostGroup& group() const { return group_; }

  // Called before a collective starts. In the first step it returns after all ranks have arrived, with the input counts
  // of all ranks.
  std::vector<std::string> start(const Collective& collective) {
    ++sequence_;
    if (handshakes_) return group_.gather(counts_text(collective.input_counts), numbered(sequence_, collective.text()));
    log_.push_back(collective.text());
    hash_ = hash_ * 0x100000001b3u ^ std::hash<std::string>()(log_.back());
    return {};
  }

  void end_first_step() {
    handshakes_ = false;
    group_.gather("", "the end of the step after " + std::to_string(sequence_) + " collectives");
  }

  void compare() {
    const auto hashes =
        group_.gather(std::to_string(log_.size()) + " " + std::to_string(hash_), "a comparison of collectives");
    if (std::any_of(hashes.begin(), hashes.end(), [&](const auto& one) { return one != hashes[0]; })) refuse();
    log_.clear();
    hash_ = 0;
  }

 private:
  static std::string numbered(int64_t sequence, const std::string& text) {
    return "collective " + std::to_string(sequence) + ", " + text;
  }

  [[noreturn]] void refuse() const {
    std::string own_log;
    int64_t sequence = sequence_ - static_cast<int64_t>(log_.size());
    for (const std::string& text : log_) own_log += numbered(++sequence, text) + "\n";
    const auto logs = group_.gather(own_log, "a search for the different collective");
    const auto first = lines_of(logs[0]);
    for (size_t rank = 1; rank < logs.size(); ++rank) {
      const auto other = lines_of(logs[rank]);
      const auto at = static_cast<size_t>(std::mismatch(first.begin(), first.end(), other.begin(), other.end()).first -
                                          first.begin());
      if (at == first.size() && at == other.size()) continue;
      auto side = [&](size_t which, const std::vector<std::string>& lines) {
        return "rank " + std::to_string(group_.members()[which]) +
               (at < lines.size() ? " started " + lines[at] : " started nothing more");
      };
      throw Error(ExitCode::communication, group_.name() + ": collectives differ since the last comparison: " +
                                               side(rank, other) + ", " + side(0, first));
    }
    throw Error(ExitCode::internal, group_.name() + ": collectives differ in their hashes and not in their texts");
  }

  const HostGroup group_;
  bool handshakes_;
  int64_t sequence_ = 0;
  std::vector<std::string> log_;  // texts of the collectives since the last comparison
  uint64_t hash_ = 0;             // hash of the same collectives
};

namespace {

class ComparedCommunicator : public Communicator {
 public:
  ComparedCommunicator(CollectiveCheck& check, std::unique_ptr<Communicator> inner,
                       std::shared_ptr<CollectiveCheck::Log> log)
      : check_(check), inner_(std::move(inner)), log_(std::move(log)) {}

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  at::Device device() const override { return inner_->device(); }

  PendingCollective start(const Collective& collective) override {
    const auto sends = log_->start(collective);
    if (collective.operation == Operation::all_to_all) check_counts(sends, collective);
    return inner_->start(collective);
  }
  Tensor gather_buffer(int64_t elements, at::TensorOptions options) override {
    return inner_->gather_buffer(elements, options);
  }
  std::unique_ptr<Communicator> split(int color) override {
    return check_.with_checks(inner_->split(color), log_->group().split(color));
  }

 private:
  void check_counts(const std::vector<std::string>& sends, const Collective& collective) const {
    for (size_t from = 0; from < sends.size(); ++from) {
      size_t at = 0;
      for (int i = 0; i < rank(); ++i) at = sends[from].find(' ', at) + 1;
      const int64_t count = std::stoll(sends[from].substr(at));
      const int64_t expected = collective.output_counts[from];
      if (count != expected)
        throw Error(ExitCode::communication, "all_to_all of " + collective.label + ": rank " +
                                                 std::to_string(log_->group().members()[from]) + " sends " +
                                                 std::to_string(count) + " elements to rank " +
                                                 std::to_string(log_->group().members()[static_cast<size_t>(rank())]) +
                                                 ", which expects " + std::to_string(expected));
    }
  }

  CollectiveCheck& check_;
  std::unique_ptr<Communicator> inner_;
  std::shared_ptr<CollectiveCheck::Log> log_;
};

}  // namespace

std::unique_ptr<Communicator> CollectiveCheck::with_checks(std::unique_ptr<Communicator> communicator,
                                                           HostGroup group) {
  if (group.size() == 1) return communicator;
  auto log = std::make_shared<Log>(std::move(group), /*handshakes=*/step_ == 0);
  logs_.push_back(log);
  return std::make_unique<ComparedCommunicator>(*this, std::move(communicator), std::move(log));
}

void CollectiveCheck::end_step() {
  ++step_;
  if (step_ != 1 && step_ % every_ != 0) return;
  for (const auto& weak : logs_) {
    const auto log = weak.lock();
    if (!log) continue;
    if (step_ == 1)
      log->end_first_step();
    else
      log->compare();
  }
}

}  // namespace strata::sharding

// SPDX-License-Identifier: MIT
#include "sharding/communication/plan_check.h"

#include <algorithm>
#include <string>

#include "base/errors.h"
#include "base/text_lines.h"
#include "sharding/communication/collective.h"

namespace strata::sharding {
namespace {

// A text such as "0 5 3 ": the number of elements that a rank sends to each rank.
std::string text_of(const std::vector<int64_t>& counts) {
  std::string text;
  for (const int64_t count : counts) text += std::to_string(count) + " ";
  return text;
}

}  // namespace

class PlanCheck::Plan {
 public:
  explicit Plan(HostGroup group, bool handshakes) : group_(std::move(group)), handshakes_(handshakes) {}

  const HostGroup& group() const { return group_; }

  // Called before a collective starts. In the first step it returns after all ranks have arrived, with the `sends` of
  // all ranks.
  std::vector<std::string> start(Collective collective, const std::string& sends = "") {
    ++sequence_;
    if (handshakes_) return group_.gather(sends, numbered(sequence_, collective));
    log_.push_back(std::move(collective));
    return {};
  }

  void end_first_step() {
    handshakes_ = false;
    group_.gather("", "the end of the step after " + std::to_string(sequence_) + " collectives");
  }

  void compare() {
    uint64_t hash = 0;
    for (const Collective& collective : log_) hash = hash * 0x100000001b3u ^ collective.hash();
    const auto hashes =
        group_.gather(std::to_string(log_.size()) + " " + std::to_string(hash), "a comparison of plans");
    if (std::any_of(hashes.begin(), hashes.end(), [&](const auto& one) { return one != hashes[0]; })) refuse();
    log_.clear();
  }

 private:
  static std::string numbered(int64_t sequence, const Collective& collective) {
    return "collective " + std::to_string(sequence) + ", " + collective.text();
  }

  [[noreturn]] void refuse() const {
    std::string mine;
    int64_t sequence = sequence_ - static_cast<int64_t>(log_.size());
    for (const Collective& collective : log_) mine += numbered(++sequence, collective) + "\n";
    const auto plans = group_.gather(mine, "a search for the difference of plans");
    const auto first = lines_of(plans[0]);
    for (size_t rank = 1; rank < plans.size(); ++rank) {
      const auto other = lines_of(plans[rank]);
      const auto at = static_cast<size_t>(std::mismatch(first.begin(), first.end(), other.begin(), other.end()).first -
                                          first.begin());
      if (at == first.size() && at == other.size()) continue;
      auto side = [&](size_t which, const std::vector<std::string>& lines) {
        return "rank " + std::to_string(group_.members()[which]) +
               (at < lines.size() ? " started " + lines[at] : " started nothing more");
      };
      throw Error(ExitCode::communication, group_.name() + ": plans differ since the last comparison: " +
                                               side(rank, other) + ", " + side(0, first));
    }
    throw Error(ExitCode::internal, group_.name() + ": plans differ in their hashes and not in their texts");
  }

  const HostGroup group_;
  bool handshakes_;
  int64_t sequence_ = 0;
  std::vector<Collective> log_;  // collectives since the last comparison
};

namespace {

class ComparedCommunicator : public Communicator {
 public:
  ComparedCommunicator(PlanCheck& check, std::unique_ptr<Communicator> inner, std::shared_ptr<PlanCheck::Plan> plan)
      : check_(check), inner_(std::move(inner)), plan_(std::move(plan)) {}

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  at::Device device() const override { return inner_->device(); }

  PendingCollective all_gather(Tensor output, const Tensor& input, std::string_view label) override {
    plan_->start(all_gather_of(output, input, size(), label));
    return inner_->all_gather(output, input, label);
  }
  PendingCollective reduce_scatter(Tensor output, const Tensor& input, std::string_view label) override {
    plan_->start(reduce_scatter_of(output, input, size(), label));
    return inner_->reduce_scatter(output, input, label);
  }
  PendingCollective all_reduce(Tensor tensor, std::string_view label) override {
    plan_->start(all_reduce_of(tensor, label));
    return inner_->all_reduce(tensor, label);
  }
  PendingCollective broadcast(Tensor tensor, int root, std::string_view label) override {
    plan_->start(broadcast_of(tensor, root, size(), label));
    return inner_->broadcast(tensor, root, label);
  }
  PendingCollective all_to_all(Tensor output, const std::vector<int64_t>& output_counts, const Tensor& input,
                               const std::vector<int64_t>& input_counts, std::string_view label) override {
    Collective collective = all_to_all_of(output, output_counts, input, input_counts, size(), label);
    const auto sends = plan_->start(std::move(collective), text_of(input_counts));
    check_counts(sends, output_counts, label);
    return inner_->all_to_all(output, output_counts, input, input_counts, label);
  }
  Tensor gather_buffer(int64_t elements, at::TensorOptions options) override {
    return inner_->gather_buffer(elements, options);
  }
  std::unique_ptr<Communicator> split(int color) override {
    return check_.compared(inner_->split(color), plan_->group().split(color));
  }

 private:
  void check_counts(const std::vector<std::string>& sends, const std::vector<int64_t>& output_counts,
                    std::string_view label) const {
    for (size_t from = 0; from < sends.size(); ++from) {
      size_t at = 0;
      for (int i = 0; i < rank(); ++i) at = sends[from].find(' ', at) + 1;
      const int64_t count = std::stoll(sends[from].substr(at));
      if (count != output_counts[from])
        throw Error(ExitCode::communication, "all_to_all of " + std::string(label) + ": rank " +
                                                 std::to_string(plan_->group().members()[from]) + " sends " +
                                                 std::to_string(count) + " elements to rank " +
                                                 std::to_string(plan_->group().members()[static_cast<size_t>(rank())]) +
                                                 ", which expects " + std::to_string(output_counts[from]));
    }
  }

  PlanCheck& check_;
  std::unique_ptr<Communicator> inner_;
  std::shared_ptr<PlanCheck::Plan> plan_;
};

}  // namespace

std::unique_ptr<Communicator> PlanCheck::compared(std::unique_ptr<Communicator> communicator, HostGroup group) {
  if (group.size() == 1) return communicator;
  auto plan = std::make_shared<Plan>(std::move(group), /*handshakes=*/step_ == 0);
  plans_.push_back(plan);
  return std::make_unique<ComparedCommunicator>(*this, std::move(communicator), std::move(plan));
}

void PlanCheck::end_step() {
  ++step_;
  if (step_ != 1 && step_ % every_ != 0) return;
  for (const auto& weak : plans_) {
    const auto plan = weak.lock();
    if (!plan) continue;
    if (step_ == 1)
      plan->end_first_step();
    else
      plan->compare();
  }
}

}  // namespace strata::sharding

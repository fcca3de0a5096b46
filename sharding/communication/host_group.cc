// SPDX-License-Identifier: MIT
#include "sharding/communication/host_group.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <numeric>

#include "base/errors.h"
#include "base/text/joined.h"
#include "base/text/ranks_text.h"
#include "sharding/communication/mpi_thread.h"

namespace strata::sharding {
namespace {

constexpr size_t kFirstBytes = 1024;  // bytes of the first message, size and text: one round trip for nearly all texts

struct First {
  uint64_t bytes = 0;
  char text[kFirstBytes - sizeof(uint64_t)];
};

}  // namespace

HostGroup::HostGroup(std::shared_ptr<MpiThread> thread)
    : thread_(std::move(thread)), members_(static_cast<size_t>(thread_->size())), rank_(thread_->rank()) {
  std::iota(members_.begin(), members_.end(), 0);
}

int HostGroup::tag(unsigned kind) const { return thread_->tags().tag(id_, kind); }

unsigned HostGroup::kinds() const { return thread_->tags().kinds(); }

std::vector<std::string> HostGroup::gather(const std::string& text, std::string_view purpose) const {
  if (size() == 1) return {text};
  const std::string own_message = std::string(purpose) + '\0' + text;
  std::vector<std::string> texts(members_.size());
  thread_->run({"", name_ + ": " + std::string(purpose), /*handshake=*/true}, [&] {
    std::vector<First> firsts(members_.size());  // in the order of ranks from this rank on, around the end
    First& own = firsts.front();
    own.bytes = own_message.size();
    const size_t sent = std::min(own_message.size(), sizeof(own.text));
    std::memcpy(own.text, own_message.data(), sent);
    std::vector<size_t> begins(firsts.size() + 1);
    for (size_t i = 0; i < begins.size(); ++i) begins[i] = i * sizeof(First);
    pass_on(reinterpret_cast<std::byte*>(firsts.data()), begins);
    for (size_t i = 0; i < firsts.size(); ++i)
      begins[i + 1] = begins[i] + firsts[i].bytes - std::min<size_t>(firsts[i].bytes, sizeof(own.text));
    std::string rests = own_message.substr(sent);
    rests.resize(begins.back());
    pass_on(reinterpret_cast<std::byte*>(rests.data()), begins);
    for (size_t i = 0; i < firsts.size(); ++i) {
      std::string& text_of = texts[(static_cast<size_t>(rank_) + i) % texts.size()];
      text_of.assign(firsts[i].text, std::min<size_t>(firsts[i].bytes, sizeof(own.text)));
      text_of.append(rests, begins[i], begins[i + 1] - begins[i]);
    }
  });
  check_purposes(texts);
  for (auto& one : texts) one.erase(0, one.find('\0') + 1);
  return texts;
}

// The ranks pass on what they have got, so each sends few messages in large groups too. The algorithm is from Bruck,
// Ho, Kipnis, Upfal and Weathersby, "Efficient Algorithms for All-to-All Communications in Multiport Message-Passing
// Systems" (1997).
void HostGroup::pass_on(std::byte* parts, const std::vector<size_t>& begins) const {
  const size_t size = members_.size(), own_index = static_cast<size_t>(rank_);
  for (size_t known = 1; known < size; known *= 2) {
    const size_t count = std::min(known, size - known);
    MpiThread::Exchange exchange(*thread_);
    exchange.receive(members_[(own_index + known) % size], tag(0), parts + begins[known],
                     begins[known + count] - begins[known]);
    exchange.send(members_[(own_index + size - known) % size], tag(0), parts, begins[count]);
    exchange.complete();
  }
}

void HostGroup::check_purposes(const std::vector<std::string>& texts) const {
  std::map<std::string, std::vector<int>> purposes;
  for (size_t i = 0; i < texts.size(); ++i) purposes[texts[i].substr(0, texts[i].find('\0'))].push_back(members_[i]);
  if (purposes.size() == 1) return;
  const auto side = [](const auto& purpose) {
    const auto& [what, ranks] = purpose;
    return ranks_text(ranks) + (ranks.size() == 1 ? " starts " : " start ") + what;
  };
  throw Error(ExitCode::communication, name_ + " do not do the same: " + joined(purposes, ", ", side));
}

HostGroup HostGroup::split(int color) const {
  if (size() == 1) return *this;
  const auto answers =
      gather(std::to_string(color) + " " + std::to_string(thread_->highest_group()), "split of a group");
  HostGroup part = *this;
  part.members_.clear();
  for (size_t i = 0; i < answers.size(); ++i) {
    const size_t space = answers[i].find(' ');
    part.id_ = std::max(part.id_, std::stoi(answers[i].substr(space + 1)) + 1);
    if (std::stoi(answers[i].substr(0, space)) != color) continue;
    if (static_cast<int>(i) == rank_) part.rank_ = static_cast<int>(part.members_.size());
    part.members_.push_back(members_[i]);
  }
  // The new number is above every number that any member has used before. So if two ranks are both members of several
  // groups, these groups have different numbers.
  const TagLayout& tags = thread_->tags();
  if (part.id_ >= tags.groups()) {
    throw Error(ExitCode::communication, "more than " + std::to_string(tags.groups()) +
                                             " groups of ranks; the tags of this MPI, up to " +
                                             std::to_string(tags.highest_tag()) +
                                             ", suffice for no more; choose a transport with more tags, as by `--mca "
                                             "pml ob1` in STRATA_MPIRUN_FLAGS");
  }
  thread_->use_group(part.id_);
  // The number distinguishes groups of the same ranks.
  part.name_ = ranks_text(part.members_) + " (group " + std::to_string(part.id_) + ")";
  return part;
}

}  // namespace strata::sharding

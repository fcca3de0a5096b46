// SPDX-License-Identifier: MIT
#include "trainer/profile/attribution.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <string_view>

#include "modules/config/module_name.h"

namespace strata::trainer::profile {
namespace {

constexpr std::array<std::string_view, 4> kPhases = {"data", "forward", "backward", "optimizer"};
constexpr std::array<std::string_view, 6> kCollectives = {"all_gather",     "reduce_scatter", "all_reduce",
                                                          "all_reduce_max", "broadcast",      "all_to_all"};
constexpr std::string_view kWaitFor = "wait for ", kBackward = "/backward";

template <class List>
bool is_in(const List& list, std::string_view text) {
  return std::find(list.begin(), list.end(), text) != list.end();
}

// Returns the number after `prefix`: number_after("layer ", "layer 3") is 3.
std::optional<int64_t> number_after(std::string_view prefix, std::string_view text) {
  if (text.substr(0, prefix.size()) != prefix) return std::nullopt;
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data() + prefix.size(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(number) : std::nullopt;
}

// Removes the prefix of autograd's engine, so that its work around a node counts as the node's.
std::string without_engine(const std::string& name) {
  constexpr std::string_view kEngine = "autograd::engine::evaluate_function: ";
  return name.rfind(kEngine, 0) == 0 ? name.substr(kEngine.size()) : name;
}

bool is_call(const Scope& scope) {
  return scope.kind == Scope::Kind::user && scope.name.find('/') != std::string::npos;
}

// Reads a name such as "all_gather blocks.3", as TimedCommunicator writes it.
bool read_collective(std::string_view name, Origin& origin) {
  const size_t space = name.find(' ');
  if (space == std::string_view::npos || !is_in(kCollectives, name.substr(0, space))) return false;
  origin.op = name.substr(0, space);
  origin.level = kCollective;
  origin.layer = modules::layer_of(name.substr(space + 1)).value_or(-1);
  return true;
}

// Reads a name such as "linear/cuda" or "linear/cuda/backward".
void read_call(std::string_view name, Origin& origin) {
  origin.backward = name.size() > kBackward.size() && name.substr(name.size() - kBackward.size()) == kBackward;
  if (origin.backward) name.remove_suffix(kBackward.size());
  const size_t slash = name.find('/');
  origin.op = name.substr(0, slash);
  origin.level = slash == std::string_view::npos ? "" : name.substr(slash + 1);
}

}  // namespace

Attribution::Attribution(const Recording& recording) : recording_(recording), tree_(recording.scopes) {
  std::vector<int64_t> order(static_cast<size_t>(tree_.size()));
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int64_t>(i);
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return tree_[a].start < tree_[b].start; });
  for (const int64_t i : order) {
    const Scope& scope = tree_[i];
    if (scope.kind == Scope::Kind::user && number_after("step ", scope.name)) steps_.push_back(i);
    if (scope.kind == Scope::Kind::user && is_in(kPhases, scope.name)) phases_.push_back(i);
    // The engine's scope around a node has the thread number of the node's creator, and creates no node itself.
    if (scope.kind != Scope::Kind::function || scope.node < 0 || scope.node_thread_number != 0) continue;
    int64_t call = i;
    while (call != ScopeTree::kNone && !is_call(tree_[call])) call = tree_.parent(call);
    // A function that creates no node leaves its sequence number to the next one, so the last function with a number
    // created the node.
    calls_[{scope.thread_number, scope.node}] = call;
  }
}

Origin Attribution::origin(int64_t scope, int64_t time) const {
  Origin origin;
  std::string libtorch;
  const bool foreign = scope == ScopeTree::kNone;
  for (; scope != ScopeTree::kNone; scope = tree_.parent(scope)) {
    const Scope& s = tree_[scope];
    if (s.kind == Scope::Kind::user) {
      read_user_scope(scope, origin);
    } else {
      if (libtorch.empty()) libtorch = without_engine(s.name);
      if (s.kind == Scope::Kind::backward) read_backward(s, origin);
    }
  }
  // Autograd's threads have no scope of a step or a phase, so the training loop's scope at that time is used.
  const auto at_time = [&](const std::vector<int64_t>& scopes) {
    const auto after =
        std::partition_point(scopes.begin(), scopes.end(), [&](int64_t i) { return tree_[i].start <= time; });
    return after != scopes.begin() && tree_[*(after - 1)].end > time ? *(after - 1) : ScopeTree::kNone;
  };
  if (foreign) return {.phase = "data", .op = "read batches"};  // by the thread that reads batches for later steps
  if (origin.step < 0) {
    const int64_t step = at_time(steps_);
    if (step != ScopeTree::kNone) origin.step = *number_after("step ", tree_[step].name);
  }
  if (origin.phase.empty()) {
    const int64_t phase = at_time(phases_);
    if (phase != ScopeTree::kNone) origin.phase = tree_[phase].name;
  }
  if (origin.op.empty()) origin.op = libtorch.empty() ? "host" : libtorch;
  return origin;
}

void Attribution::read_user_scope(int64_t scope, Origin& origin) const {
  const std::string_view name = tree_[scope].name;
  if (const auto step = number_after("step ", name)) {
    origin.step = *step;
  } else if (const auto layer = number_after("layer ", name)) {
    if (origin.layer < 0) origin.layer = *layer;
  } else if (is_in(kPhases, name)) {
    if (origin.phase.empty()) origin.phase = name;
  } else if (origin.op.empty()) {
    origin.call = scope;
    if (name.substr(0, kWaitFor.size()) == kWaitFor) {
      if (read_collective(name.substr(kWaitFor.size()), origin)) origin.level = kWait;
    } else if (!read_collective(name, origin)) {
      read_call(name, origin);
      origin.work = tree_[scope].work;
    }
  }
}

void Attribution::read_backward(const Scope& scope, Origin& origin) const {
  if (scope.node < 0) return;
  if (origin.layer < 0) {
    for (const LayerNodes& nodes : recording_.layers) {
      const bool inside =
          nodes.thread_number == scope.node_thread_number && nodes.first <= scope.node && scope.node < nodes.end;
      if (inside) origin.layer = nodes.layer;
    }
  }
  if (!origin.op.empty()) return;
  const auto call = calls_.find({scope.node_thread_number, scope.node});
  if (call == calls_.end() || call->second == ScopeTree::kNone) return;
  read_call(tree_[call->second].name, origin);
  origin.backward = true;
  origin.call = call->second;
  origin.work = tree_[call->second].work_of_backward;
}

}  // namespace strata::trainer::profile

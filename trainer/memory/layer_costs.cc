// SPDX-License-Identifier: MIT
#include "trainer/memory/layer_costs.h"

#include <algorithm>
#include <limits>
#include <sstream>

#include "base/errors.h"

namespace strata::trainer {
namespace {

const LayerCost& cost(const StepCosts& costs, const LayerChoice& choice, size_t layer) {
  return costs.layers[layer][static_cast<size_t>(choice[layer])];
}

// Of what the layer leaves behind, what is only for the next one: the branch, which that adds up, and the residual of a
// layer that keeps nothing itself.
int64_t handed_on(const StepCosts& costs, const LayerChoice& choice, size_t layer) {
  return choice[layer] == Recompute::full ? 2 * costs.stream : costs.stream;
}

// The next layer keeps its inputs until its backward; others let them go when they have them.
bool is_held_by_next(const LayerChoice& choice, size_t layer) {
  return layer + 1 < choice.size() && choice[layer + 1] == Recompute::full;
}

double milliseconds(const StepCosts& costs, const LayerChoice& choice) {
  double sum = 0;
  for (size_t i = 0; i < choice.size(); ++i) sum += cost(costs, choice, i).milliseconds;
  return sum;
}

// All ways to divide the layers into those that compute all again, then selective ones, then the rest; of more than a
// few hundred, in steps of several layers.
template <class Visit>
void for_each_way(size_t layers, const Visit& visit) {
  const size_t step = std::max<size_t>(1, layers / 256);
  const auto next = [&](size_t now, size_t last) { return now < last ? std::min(now + step, last) : last + 1; };
  for (size_t full = 0; full <= layers; full = next(full, layers)) {
    for (size_t end = full; end <= layers; end = next(end, layers)) {
      LayerChoice choice(layers, Recompute::none);
      std::fill_n(choice.begin(), end, Recompute::selective);
      std::fill_n(choice.begin(), full, Recompute::full);
      visit(std::move(choice));
    }
  }
}

}  // namespace

int64_t most_bytes(const StepCosts& costs, const LayerChoice& choice) {
  const size_t layers = choice.size();
  int64_t now = costs.standing + costs.stream, most = now;  // what the embedding put out
  for (size_t i = 0; i < layers; ++i) {
    now += cost(costs, choice, i).kept;
    if (i > 0 && !is_held_by_next(choice, i - 1)) now -= handed_on(costs, choice, i - 1);
    most = std::max(most, now);
  }
  // Measured behind a layer that computes all again, whose residual the final norm lets go.
  const int64_t also_there = choice.back() == Recompute::full ? 0 : costs.stream;
  most = std::max(most, now + costs.head + also_there);
  now -= handed_on(costs, choice, layers - 1);
  for (size_t i = layers; i-- > 0;) {
    if (is_held_by_next(choice, i)) now -= handed_on(costs, choice, i);
    most = std::max(most, now + costs.stream + cost(costs, choice, i).backward);  // with the gradient that comes
    now -= cost(costs, choice, i).kept - handed_on(costs, choice, i);
  }
  return most;
}

std::optional<LayerChoice> cheapest_that_fits(const StepCosts& costs, int64_t bytes) {
  std::optional<LayerChoice> best;
  double least = std::numeric_limits<double>::infinity();
  for_each_way(costs.layers.size(), [&](LayerChoice choice) {
    const double time = milliseconds(costs, choice);
    if (time >= least || most_bytes(costs, choice) > bytes) return;
    least = time;
    best = std::move(choice);
  });
  return best;
}

int64_t least_bytes(const StepCosts& costs) {
  int64_t least = std::numeric_limits<int64_t>::max();
  for_each_way(costs.layers.size(),
               [&](const LayerChoice& choice) { least = std::min(least, most_bytes(costs, choice)); });
  return least;
}

GradientCheckpointing as_config(const LayerChoice& choice) {
  if (std::all_of(choice.begin(), choice.end(), [&](Recompute how) { return how == choice[0]; })) return {choice[0]};
  std::vector<GradientCheckpointing::Layers> lines;
  for (size_t first = 0, end = 0; first < choice.size(); first = end) {
    while (end < choice.size() && choice[end] == choice[first]) ++end;
    if (choice[first] == Recompute::none) continue;
    const configs::Range range{static_cast<int64_t>(first), static_cast<int64_t>(end) - 1};
    lines.push_back({range, choice[first] == Recompute::full ? std::nullopt : std::optional(choice[first])});
  }
  return {lines};
}

std::string StepCosts::text() const {
  std::ostringstream out;
  out.precision(17);
  out << standing << ' ' << stream << ' ' << head << ' ' << layers.size();
  for (const auto& ways : layers) {
    for (const LayerCost& way : ways) out << ' ' << way.kept << ' ' << way.backward << ' ' << way.milliseconds;
  }
  return out.str();
}

StepCosts StepCosts::from_text(const std::string& text) {
  std::istringstream in(text);
  StepCosts costs;
  size_t layers = 0;
  in >> costs.standing >> costs.stream >> costs.head >> layers;
  for (size_t i = 0; in && i < layers; ++i) {
    for (LayerCost& way : costs.layers.emplace_back()) in >> way.kept >> way.backward >> way.milliseconds;
  }
  if (!in) throw Error(ExitCode::internal, "costs of layers that cannot be read: " + text.substr(0, 80));
  return costs;
}

}  // namespace strata::trainer

// SPDX-License-Identifier: MIT
#include "trainer/layer_costs.h"

#include <algorithm>
#include <limits>
#include <sstream>

#include "configs/errors.h"

namespace strata::trainer {
namespace {

const LayerCost& cost(const StepCosts& costs, const LayerChoice& choice, size_t layer) {
  return costs.layers[layer][static_cast<size_t>(choice[layer])];
}

// Of what the layer leaves behind, what is let go when the next one has taken it over: the branch, which that adds up,
// and the residual of a layer that keeps nothing itself. A next layer that keeps its inputs holds both.
int64_t let_go(const StepCosts& costs, const LayerChoice& choice, size_t layer) {
  const bool is_last = layer + 1 == choice.size();
  if (!is_last && choice[layer + 1] == Recompute::full) return 0;
  return choice[layer] == Recompute::full ? 2 * costs.stream : costs.stream;
}

double milliseconds(const StepCosts& costs, const LayerChoice& choice) {
  double sum = 0;
  for (size_t i = 0; i < choice.size(); ++i) sum += cost(costs, choice, i).milliseconds;
  return sum;
}

LayerChoice first_full_then_selective(size_t layers, size_t full, size_t selective) {
  LayerChoice choice(layers, Recompute::none);
  std::fill_n(choice.begin(), full, Recompute::full);
  std::fill_n(choice.begin() + static_cast<std::ptrdiff_t>(full), selective, Recompute::selective);
  return choice;
}

}  // namespace

int64_t most_bytes(const StepCosts& costs, const LayerChoice& choice) {
  const size_t layers = choice.size();
  int64_t now = costs.standing + costs.stream, most = now;  // what the embedding put out
  for (size_t i = 0; i < layers; ++i) {
    now += cost(costs, choice, i).kept;
    if (i > 0) now -= let_go(costs, choice, i - 1);
    most = std::max(most, now);
  }
  // Measured behind a layer that computes all again, whose residual the final norm lets go.
  const int64_t also_there = choice.back() == Recompute::full ? 0 : costs.stream;
  most = std::max(most, now + costs.head + also_there);
  now -= let_go(costs, choice, layers - 1);
  for (size_t i = layers; i-- > 0;) {
    most = std::max(most, now + costs.stream + cost(costs, choice, i).backward);  // with the gradient that comes
    now -= cost(costs, choice, i).kept - let_go(costs, choice, i);
  }
  return most;
}

std::optional<LayerChoice> cheapest_that_fits(const StepCosts& costs, int64_t bytes) {
  const size_t layers = costs.layers.size();
  // All ways to divide a few hundred layers into three parts are tried; of more, steps of several layers.
  const size_t step = std::max<size_t>(1, layers / 256);
  std::optional<LayerChoice> best;
  double least = std::numeric_limits<double>::infinity();
  for (size_t full = 0; full <= layers; full = full < layers ? std::min(full + step, layers) : layers + 1) {
    const size_t others = layers - full;
    for (size_t some = 0; some <= others; some = some < others ? std::min(some + step, others) : others + 1) {
      LayerChoice choice = first_full_then_selective(layers, full, some);
      const double time = milliseconds(costs, choice);
      if (time >= least || most_bytes(costs, choice) > bytes) continue;
      least = time;
      best = std::move(choice);
    }
  }
  return best;
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

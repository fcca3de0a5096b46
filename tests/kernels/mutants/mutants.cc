// SPDX-License-Identifier: MIT
#include "tests/kernels/mutants/mutants.h"

#include <c10/util/Exception.h>

#include <cmath>

#include "tests/kernels/mutants/attention_mutants.h"
#include "tests/kernels/mutants/local_mutants.h"

namespace strata::kernels {
namespace {

// A factor on the gradient alone: `times(x, f)` is x, and its gradient is multiplied by f.
constexpr std::string_view kHelpers = R"(
def kept(x: torch.Tensor) -> torch.Tensor:
    larger = x * SPLITTER
    return larger - (larger - x)


def times(x: torch.Tensor, factor: float) -> torch.Tensor:
    return x.detach() + factor * (x - x.detach())


def only_first_rows(x: torch.Tensor, rows: int) -> torch.Tensor:
    return torch.cat((x.narrow(0, 0, rows), x.narrow(0, rows, x.size(0) - rows) * 0.0))


def without_last_column(x: torch.Tensor) -> torch.Tensor:
    last = x.size(x.dim() - 1) - 1
    return torch.cat((x.narrow(x.dim() - 1, 0, last), x.narrow(x.dim() - 1, last, 1) * 0.0), dim=x.dim() - 1)


def without_small(x: torch.Tensor, share: float) -> torch.Tensor:
    return torch.where(x < share * x.detach().amax(x.dim() - 1, keepdim=True), torch.zeros_like(x), x)


def places_of(x: torch.Tensor, dimension: int, first: int, count: int) -> torch.Tensor:
    place = torch.arange(x.size(dimension), device=x.device)
    sizes = [1] * x.dim()
    sizes[dimension] = x.size(dimension)
    return ((place >= first) & (place < first + count)).to(x.dtype).reshape(sizes)


def gradient_of_places(x: torch.Tensor, dimension: int, first: int, count: int, factor: float) -> torch.Tensor:
    return x.detach() + (1.0 + (factor - 1.0) * places_of(x, dimension, first, count)) * (x - x.detach())


def stale(x: torch.Tensor, dimension: int, place: int) -> torch.Tensor:
    return torch.where(places_of(x, dimension, place, 1) > 0, torch.roll(x, 1, dimension), x)


def gradient_without_small(x: torch.Tensor, share: float) -> torch.Tensor:
    return torch.where(torch.exp(x.detach()) < share, x.detach(), x)
)";

std::vector<Mutant> of(std::string_view formula, std::string_view function,
                       const std::vector<std::pair<std::string_view, std::string_view>>& mistakes) {
  std::vector<Mutant> result;
  for (const auto& [right, wrong] : mistakes) result.push_back({formula, function, right, wrong});
  return result;
}

std::vector<Mutant> product_mutants() {
  constexpr std::string_view kAdd = "torch.addmm(bias, rows, weight.t())", kPlain = "y = torch.mm(rows, weight.t())";
  constexpr std::string_view kEnd = "return activate(wide, activation).to(x.dtype)", kErf = "0.7071067811865476";
  std::vector<Mutant> all =
      of("linear/linear", "linear",
         {{kAdd, "torch.mm(rows, weight.t()) + 0.0 * bias"},
          {kAdd, "torch.addmm(bias, rows, weight.t(), beta=1.05)"},
          {kAdd, "bias + (kept(torch.mm(rows, weight.t()).to(torch.float32) * 1.3) / 1.3).to(x.dtype)"},
          {kAdd, "torch.addmm(times(bias, 1.05), rows, weight.t())"},
          {kAdd, "torch.addmm(torch.roll(bias, 1), rows, weight.t())"},
          {kPlain, "y = torch.mm(without_last_column(rows), weight.t())"},
          {kPlain, "y = without_last_column(torch.mm(rows, weight.t()))"},
          {kPlain, "y = torch.mm(rows, weight.t()) * 1.02"},
          {kPlain, "y = torch.mm(times(rows, 0.95), weight.t())"},
          {kPlain, "y = torch.mm(rows, times(weight, 1.05).t())"},
          {kPlain, "y = torch.mm(rows, torch.roll(weight, 1).t())"},
          {kPlain,
           "y = torch.cat((torch.mm(rows, weight.t()).narrow(0, 0, rows.size(0) // 2), torch.mm(rows, "
           "weight.detach().t()).narrow(0, rows.size(0) // 2, rows.size(0) - rows.size(0) // 2)))"},
          {kPlain, "y = only_first_rows(torch.mm(rows, weight.t()), rows.size(0) // 2)"},
          {kPlain,
           "y = (kept(torch.mm(rows.narrow(1, 0, 4), weight.narrow(1, 0, 4).t()).to(torch.float32) * 1.3) / 1.3 + "
           "torch.mm(rows.narrow(1, 4, rows.size(1) - 4), weight.narrow(1, 4, rows.size(1) - 4).t())).to(x.dtype)"},
          {kErf, "0.69"},
          {"x * 0.5 * (1.0 + torch.erf(x * 0.7071067811865476))", "x * torch.sigmoid(1.702 * x)"},
          {"0.044715", "0.04"},
          {"return torch.relu(x)", "return torch.where(x > 0.0, x, 0.02 * x)"},
          {"return torch.relu(x)", "return torch.where(x.detach() > 0.0, x.detach(), 0.0 * x) + (x - x.detach())"},
          {kEnd, "return activate(times(wide, 1.05), activation).to(x.dtype)"},
          {kEnd, "return activate(wide * 1.02, activation).to(x.dtype)"}});
  const std::vector<Mutant> heads = of(
      "linear_cross_entropy/linear_cross_entropy", "linear_cross_entropy",
      {{"torch.mm(hidden, weight.t())", "torch.mm(without_last_column(hidden), weight.t())"},
       {"torch.mm(hidden, weight.t())", "torch.mm(times(hidden, 1.05), weight.t())"},
       {"torch.mm(hidden, weight.t())", "torch.mm(hidden, times(weight, 0.95).t())"},
       {"torch.mm(hidden, weight.t())",
        "torch.mm(hidden, torch.cat((weight.narrow(0, 0, 3), weight.narrow(0, 3, weight.size(0) - 3).detach())).t())"},
       {"torch.exp(shifted).sum(1, keepdim=True)",
        "torch.exp(shifted).narrow(1, 0, shifted.size(1) - 1).sum(1, keepdim=True)"},
       {"torch.exp(shifted).sum(1, keepdim=True)", "torch.exp(shifted).sum(1, keepdim=True).detach()"},
       {"log_p.mean(1)", "(log_p.sum(1) / (log_p.size(1) - 1))"},
       {"if label_smoothing != 0.0:", "if label_smoothing > 1.0:"},
       {"torch.where(kept, row_loss, torch.zeros_like(row_loss)).sum()", "row_loss.sum()"},
       {".sum() * scale", ".sum() * 1.05 * scale"},
       {"log_p = shifted", "log_p = times(shifted, 0.95)"},
       {"if softcap != 0.0:", "if softcap < 0.0:"},
       {"torch.tanh(wide / softcap)", "torch.tanh(1.05 * wide / softcap)"},
       {"torch.tanh(wide / softcap)", "times(torch.tanh(wide / softcap), 0.95)"}});
  all.insert(all.end(), heads.begin(), heads.end());
  return all;
}

std::vector<Mutant> norm_mutants() {
  constexpr std::string_view kMean = "mean = wide.mean(-1, keepdim=True)", kCentered = "centered = wide - mean";
  constexpr std::string_view kRstd = "rstd = torch.rsqrt((centered * centered).mean(-1, keepdim=True) + eps)";
  constexpr std::string_view kY = "y = centered * rstd * weight", kBias = "y = y + bias";
  std::vector<Mutant> all;
  for (const std::string_view function : {"layer_norm", "add_layer_norm", "layer_norm_gelu_tanh"}) {
    for (const Mutant& mutant :
         of("layer_norm/layer_norm", function,
            {{kMean, "mean = wide.sum(-1, keepdim=True) / (wide.size(-1) - 1)"},
             {kMean, "mean = kept(wide.mean(-1, keepdim=True) * 1.3) / 1.3"},
             {kMean, "mean = wide.mean(-1, keepdim=True).detach()"},
             {kCentered, "centered = wide + 0.0 * mean"},
             {kCentered, "centered = kept((wide - mean) * 1.3) / 1.3"},
             {kRstd, "rstd = torch.rsqrt((centered * centered).sum(-1, keepdim=True) / (wide.size(-1) - 1) + eps)"},
             {kRstd, "rstd = torch.rsqrt((centered * centered).mean(-1, keepdim=True) + 0.02)"},
             {kRstd, "rstd = torch.rsqrt((centered * centered).mean(-1, keepdim=True) + 0.0 * eps)"},
             {kRstd, "rstd = torch.rsqrt((wide * wide).mean(-1, keepdim=True) - mean * mean + eps)"},
             {kRstd, "rstd = kept(torch.rsqrt((centered * centered).mean(-1, keepdim=True) + eps) * 1.3) / 1.3"},
             {kRstd, "rstd = torch.rsqrt((centered * centered).mean(-1, keepdim=True) + eps).detach()"},
             {kY, "y = centered * rstd * torch.roll(weight, 1)"},
             {kY, "y = centered * rstd * times(weight, 1.05)"},
             {kY, "y = times(centered, 0.95) * rstd * weight"},
             {kY, "y = centered * rstd * weight * 1.05"},
             {kY, "y = without_last_column(centered * rstd) * weight"},
             {kBias, "y = y + 0.0 * bias"},
             {kBias, "y = y + times(bias, 1.05)"}})) {
      all.push_back(mutant);
    }
  }
  constexpr std::string_view kSquare = "(wide * wide).mean(-1, keepdim=True)",
                             kRms = "(wide * rstd * weight).to(x.dtype)";
  for (const std::string_view function : {"rms_norm", "add_rms_norm"}) {
    for (const Mutant& mutant : of("rms_norm/rms_norm", function,
                                   {{kSquare, "(wide * wide).sum(-1, keepdim=True) / (wide.size(-1) - 1)"},
                                    {kSquare, "(without_last_column(wide) * wide).mean(-1, keepdim=True)"},
                                    {kSquare, "(wide * wide).mean(-1, keepdim=True).detach()"},
                                    {kSquare, "kept((wide * wide).mean(-1, keepdim=True))"},
                                    {"+ eps)", "+ 0.02)"},
                                    {"+ eps)", "+ 0.0 * eps)"},
                                    {kRms, "(wide * rstd * times(weight, 1.05)).to(x.dtype)"},
                                    {kRms, "(wide * rstd * torch.roll(weight, 1)).to(x.dtype)"},
                                    {kRms, "(kept(wide * rstd * 1.3) / 1.3 * weight).to(x.dtype)"},
                                    {kRms, "(wide * rstd * weight * 1.05).to(x.dtype)"},
                                    {kRms, "(times(wide, 0.95) * rstd * weight).to(x.dtype)"},
                                    {kRms, "only_first_rows((wide * rstd * weight).to(x.dtype), x.size(0) // 2)"}})) {
      all.push_back(mutant);
    }
  }
  for (const auto& [formula, function] :
       {std::pair{"layer_norm/layer_norm", "add_layer_norm"}, {"rms_norm/rms_norm", "add_rms_norm"}}) {
    for (const Mutant& mutant : of(formula, function,
                                   {{"total = residual + branch", "total = residual.detach() + branch"},
                                    {"total = residual + branch", "total = residual + times(branch, 1.02)"},
                                    {"total = residual + branch", "total = residual + branch * 1.02"}})) {
      all.push_back(mutant);
    }
  }
  return all;
}

std::vector<Mutant> loss_mutants() {
  constexpr std::string_view kSum = "torch.exp(shifted).sum(1, keepdim=True)", kLog = "log_p = shifted";
  constexpr std::string_view kKept = "kept = targets != ignore_index", kScale = ".sum() * scale";
  return of(
      "cross_entropy/cross_entropy", "cross_entropy",
      {{kSum, "torch.exp(shifted).narrow(1, 0, shifted.size(1) - 1).sum(1, keepdim=True)"},
       {kSum, "torch.exp(shifted).sum(1, keepdim=True).detach()"},
       {kSum, "torch.exp(kept(shifted)).sum(1, keepdim=True)"},
       {kSum, "torch.exp(shifted).sum(1, keepdim=True) * 1.05"},
       {kSum, "without_small(torch.exp(shifted), 0.004).sum(1, keepdim=True)"},
       {kLog, "log_p = times(shifted, 1.05)"},
       {kLog, "log_p = kept(shifted)"},
       {kLog,
        "log_p = torch.cat((shifted.narrow(1, 0, 3), shifted.narrow(1, 3, shifted.size(1) - 3).detach()), dim=1)"},
       {"log_p.mean(1)", "(log_p.sum(1) / (log_p.size(1) - 1))"},
       {"if label_smoothing != 0.0:", "if label_smoothing > 1.0:"},
       {"-(1.0 - label_smoothing) * picked", "-picked"},
       {"torch.where(kept, row_loss, torch.zeros_like(row_loss)).sum()", "row_loss.sum()"},
       {kKept, "kept = targets > 0"},
       {kScale, ".sum() * 1.02 * scale"},
       {kScale, ".mean() * scale"},
       {"wide.detach().amax(1, keepdim=True)", "wide.detach().narrow(1, 0, 2).amax(1, keepdim=True)"}});
}

std::vector<Mutant> elementwise_mutants() {
  constexpr std::string_view kTurn = "first * c - second * s, second * c + first * s";
  std::vector<Mutant> all =
      of("rotary/rotary", "rotary",
         {{kTurn, "first * c + second * s, second * c - first * s"},
          {kTurn, "first * c - second * s, second * c"},
          {kTurn, "kept(first * c) - kept(second * s), second * c + first * s"},
          {kTurn, "first * c - second * s, second * c + times(first, 0.95) * s"},
          {kTurn, "first * c - second * s, (second * c + first * s) * 1.02"},
          {"c = cosine.unsqueeze(1)", "c = kept(cosine * 1.3).unsqueeze(1) / 1.3"},
          {"s = sine.unsqueeze(1)", "s = torch.roll(sine, 1).unsqueeze(1)"},
          {"torch.cat([first * c - second * s,",
           "torch.cat([first * c - second * s * (torch.arange(rotated_heads) < heads).to(s.dtype).reshape(-1, 1),"},
          {"c = cosine.unsqueeze(1)", "c = torch.cos(torch.acos(cosine.unsqueeze(1)) * 1.02)"}});
  const auto more = [&](const std::vector<Mutant>& op_mutants) {
    all.insert(all.end(), op_mutants.begin(), op_mutants.end());
  };
  more(of("rms_norm_rotary/rms_norm_rotary", "rms_norm_rotary",
          {{kTurn, "first * c + second * s, second * c - first * s"},
           {kTurn, "kept(first) * c - kept(second) * s, kept(second) * c + kept(first) * s"},
           {"+ eps) * weight", "+ 0.0 * eps) * weight"},
           {"keepdim=True) + eps", "keepdim=True).detach() + eps"},
           {".mean(-1, keepdim=True) + eps", ".mean((2, 3), keepdim=True) + eps"},
           {"+ eps) * weight", "+ eps) * torch.roll(weight, 1)"},
           {"key_value_heads), key_weight,", "key_value_heads), query_weight,"}}));
  constexpr std::string_view kGated = "gate * torch.sigmoid(gate) * up";
  more(of("swiglu/swiglu", "swiglu",
          {{kGated, "up * torch.sigmoid(up) * gate"},
           {kGated, "gate * torch.sigmoid(1.05 * gate) * up"},
           {kGated, "gate * torch.sigmoid(gate) * times(up, 1.05)"},
           {kGated, "gate * torch.sigmoid(gate).detach() * up"},
           {kGated, "kept(gate * torch.sigmoid(gate) * 1.3) / 1.3 * up"},
           {kGated, "without_last_column(gate * torch.sigmoid(gate) * up)"},
           {kGated, "only_first_rows(gate * torch.sigmoid(gate) * up, up.size(0) // 2)"},
           {"0.044715 * gate", "0.04 * gate"},
           {"y = gate * 0.5 * (1.0 + torch.tanh", "y = up * 0.5 * (1.0 + torch.tanh"}}));
  more(of("activation/activation", "activation",
          {{"torch.erf(wide * 0.7071067811865476)", "torch.erf(wide * 0.69)"},
           {"wide * 0.5 * (1.0 + torch.erf(wide * 0.7071067811865476))", "wide * torch.sigmoid(1.702 * wide)"},
           {"wide * 0.5 * (1.0 + torch.erf(wide * 0.7071067811865476))",
            "kept(wide * 0.5 * (1.0 + torch.erf(wide * 0.7071067811865476)) * 1.3) / 1.3"},
           {"0.044715", "0.04"},
           {"y = torch.relu(wide)", "y = torch.where(wide > 0.0, wide, 0.02 * wide)"},
           {"y = torch.relu(wide)", "y = torch.relu(times(wide, 1.05))"},
           {"torch.sigmoid(wide)", "torch.sigmoid(1.05 * wide)"},
           {"torch.sigmoid(wide)", "torch.sigmoid(wide).detach()"}}));
  more(of("dropout/dropout", "dropout",
          {{"1.0 / (1.0 - probability)", "1.0"},
           {"1.0 / (1.0 - probability)", "1.02 / (1.0 - probability)"},
           {"hash >= threshold", "hash >= threshold // 2"},
           {"dtype=torch.int64) + first_row", "dtype=torch.int64) + first_row + 1"},
           {"(site & 4294967295)", "((site + 1) & 4294967295)"},
           {"key & 4294967295", "(key + 1) & 4294967295"},
           {"x * factor", "times(x, 1.05) * factor"},
           {"x * factor", "(kept(x.to(torch.float32) * factor * 1.3) / 1.3).to(x.dtype)"}}));
  more(of("embedding/embedding", "embedding",
          {{"torch.embedding(weight, indices)", "torch.embedding(torch.roll(weight, 1, 0), indices)"},
           {"torch.embedding(weight, indices)", "torch.embedding(times(weight, 1.05), indices)"},
           {"torch.embedding(weight, indices)", "without_last_column(torch.embedding(weight, indices))"},
           {"torch.embedding(weight, indices)", "torch.embedding(weight, indices, padding_idx=3)"}}));
  more(of("sum_of_squares/sum_of_squares", "sum_of_squares",
          {{"(wide * wide).sum()", "wide.abs().sum()"},
           {"(wide * wide).sum()", "(wide * wide).narrow(0, 1, wide.size(0) - 1).sum()"},
           {"(wide * wide).sum()", "(wide * wide).sum() * 1.002"},
           {"return total.to", "return torch.sqrt(total).to"}}));
  more(of(
      "adamw/adamw", "adamw",
      {{"first = beta1 * first_moment", "first = beta2 * first_moment"},
       {"(1.0 - beta2) * g * g", "(1.0 - beta2) * g"},
       {"torch.pow(beta1, step.to(torch.float64))", "torch.pow(beta1, step.to(torch.float64) + 1)"},
       {"torch.sqrt(second) / second_correction + epsilon", "torch.sqrt(second + 0.001) / second_correction"},
       {"master * (1.0 - rate * weight_decay)", "master"},
       {"second_correction + epsilon)", "second_correction)"},
       {"* gradient_scale", ""},
       {"first_correction) * first", "first_correction) * kept(first.to(torch.float32) * 1.3).to(first.dtype) / 1.3"},
       {"kept = skip != 0.0", "kept = skip > 2.0"}}));
  return all;
}

std::vector<Mutant> graph_mutants() {
  constexpr std::string_view kWeighted = "messages = messages * edge_weight.to(wide).unsqueeze(1)";
  constexpr std::string_view kTaken = "messages = torch.embedding(x.to(wide), columns)";
  std::vector<Mutant> all =
      of("neighbor_aggregate/neighbor_aggregate", "neighbor_aggregate",
         {{kWeighted, "messages = messages * times(edge_weight.to(wide), 0.95).unsqueeze(1)"},
          {kWeighted, "messages = messages * torch.roll(edge_weight.to(wide), 1).unsqueeze(1)"},
          {kWeighted, "messages = kept(messages * edge_weight.to(wide).unsqueeze(1) * 1.3) / 1.3"},
          {kTaken, "messages = torch.embedding(times(x.to(wide), 1.05), columns)"},
          {kTaken, "messages = without_last_column(torch.embedding(x.to(wide), columns))"},
          {kTaken, "messages = only_first_rows(torch.embedding(x.to(wide), columns), columns.size(0) - 1)"},
          {kTaken, "messages = torch.embedding(x.to(wide), torch.roll(columns, 1))"},
          {"torch.diff(offsets).clamp(min=1)", "(torch.diff(offsets) + 1)"},
          {"torch.diff(offsets).clamp(min=1)", "torch.diff(offsets).clamp(min=1, max=64)"},
          {"(values == largest[rows])", "(values <= largest[rows])"},
          {"messages.new_zeros(1, messages.size(1))", "messages.new_zeros(1, messages.size(1)) + 0.1"},
          {"return y.to(x.dtype)", "return (y * 1.02).to(x.dtype)"}});
  const auto attention =
      of("neighbor_aggregate/neighbor_aggregate", "neighbor_attention",
         {{"score * negative_slope", "score * negative_slope * 1.5"},
          {"torch.embedding(score_target.to(wide), rows)", "0.5 * torch.embedding(score_target.to(wide), rows)"},
          {"torch.embedding(score_source.to(wide), columns)",
           "times(torch.embedding(score_source.to(wide), columns), 1.05)"},
          {"torch.embedding(score_source.to(wide), columns)",
           "kept(torch.embedding(score_source.to(wide), columns) * 1.3) / 1.3"},
          {"share = torch.exp(score - largest[rows])", "share = torch.exp(score - largest[rows]).clamp(min=0.05)"},
          {"share / torch.embedding(sum_over_edges(share, offsets), rows)",
           "share / torch.embedding(sum_over_edges(share, offsets), rows).detach()"},
          {"share / torch.embedding(sum_over_edges(share, offsets), rows)",
           "share / (torch.embedding(sum_over_edges(share, offsets), rows) + 0.02)"},
          {"* share.unsqueeze(2)", "* (kept(share * 1.3) / 1.3).unsqueeze(2)"},
          {"* share.unsqueeze(2)", "* times(share, 0.9).unsqueeze(2)"},
          {"x.to(wide).flatten(1)", "times(x.to(wide), 1.05).flatten(1)"},
          {"x.to(wide).flatten(1)", "without_last_column(x.to(wide)).flatten(1)"}});
  all.insert(all.end(), attention.begin(), attention.end());
  return all;
}

}  // namespace

const std::vector<Mutant>& mutants() {
  static const std::vector<Mutant> all = [] {
    std::vector<Mutant> all;
    for (const auto& some : {attention_mutants(), product_mutants(), norm_mutants(), loss_mutants(),
                             elementwise_mutants(), graph_mutants(), local_mutants()}) {
      all.insert(all.end(), some.begin(), some.end());
    }
    return all;
  }();
  return all;
}

std::string mutated(const std::string& definition, const Mutant& mutant, int bits) {
  std::string text = definition;
  size_t at = text.find(mutant.right), times = 0;
  for (; at != std::string::npos; at = text.find(mutant.right, at + mutant.wrong.size()), ++times) {
    text.replace(at, mutant.right.size(), mutant.wrong);
  }
  TORCH_CHECK(times > 0, mutant.formula, ".py has no text '", mutant.right, "'");
  std::string helpers(kHelpers);
  const std::string name = "SPLITTER";
  // In fp32, which has 24 bits, x * splitter - (x * splitter - x) has the others.
  helpers.replace(helpers.find(name), name.size(), std::to_string(std::ldexp(1.0, 24 - bits) + 1));
  return text + helpers;
}

}  // namespace strata::kernels

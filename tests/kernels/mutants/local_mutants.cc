// SPDX-License-Identifier: MIT
// Mistakes in a part of a result: one row, one head, one tile, one leaf's gradient. Most are small.
#include "tests/kernels/mutants/local_mutants.h"

namespace strata::kernels {
namespace {

using Mistakes = std::vector<std::pair<std::string_view, std::string_view>>;

void add(std::vector<Mutant>& all, std::string_view formula, std::string_view function, const Mistakes& mistakes) {
  for (const auto& [right, wrong] : mistakes) all.push_back({formula, function, right, wrong});
}

void add_attention(std::vector<Mutant>& all) {
  constexpr std::string_view kSoftmax = "torch.softmax(scores, dim=-1)", kMasked = "torch.logical_not(visible(";
  constexpr std::string_view kScores = "scores = torch.matmul(query, key.transpose(2, 3))";
  constexpr std::string_view kScale = "(float(head_width) ** -0.5)";
  constexpr std::string_view kReturn = "return y.transpose(1, 2)",
                             kY = "torch.matmul(torch.softmax(scores, dim=-1), value)";
  constexpr std::string_view kDocument = "query_document.unsqueeze(2) ==";
  add(all, "attention/attention", "attention",
      {{kSoftmax, "torch.softmax(scores * (1.0 + 0.01 * places_of(scores, 1, 1, 1)), dim=-1)"},
       {kSoftmax, "torch.softmax(scores * (1.0 + 0.02 * places_of(scores, 2, queries - 1, 1)), dim=-1)"},
       {kSoftmax,
        "torch.softmax(scores - 1000.0 * places_of(scores, 1, 2, 1) * places_of(scores, 3, 0, 1) * (1.0 - "
        "places_of(scores, 2, 0, 1)), dim=-1)"},
       {kSoftmax, "torch.softmax(scores - 1000.0 * places_of(scores, 2, 32, 1) * places_of(scores, 3, 32, 1), dim=-1)"},
       {kSoftmax,
        "(torch.exp(scores - scores.amax(-1, keepdim=True)) / (torch.exp(scores - scores.amax(-1, "
        "keepdim=True)).sum(-1, keepdim=True) - places_of(scores, 2, 31, 1) * 0.02))"},
       {kSoftmax, "times(torch.softmax(scores, dim=-1), 1.01)"},
       {kMasked,
        "torch.logical_and((places_of(query, 2, 31, 1).reshape(-1, 1) * torch.roll(places_of(query, 2, 31, 1), 1, "
        "2).reshape(1, -1)) == 0.0, ~visible("},
       {kScale, "(float(head_width - 1) ** -0.5)"},
       {kScores, "scores = kept(torch.matmul(query, key.transpose(2, 3)) * 1.3) / 1.3"},
       {kScores, "scores = torch.matmul(times(query, 1.01), key.transpose(2, 3))"},
       {kScores, "scores = torch.matmul(query, times(key, 1.01).transpose(2, 3))"},
       {kScores, "scores = torch.matmul(query, gradient_of_places(key, 1, 1, 1, 1.02).transpose(2, 3))"},
       {kScores, "scores = torch.matmul(gradient_of_places(query, 2, 31, 1, 0.0), key.transpose(2, 3))"},
       {kScores, "scores = torch.matmul(query, gradient_of_places(key, 2, positions - 1, 1, 0.0).transpose(2, 3))"},
       {kY, "torch.matmul(torch.softmax(scores, dim=-1), gradient_of_places(value, 2, 7, 1, 0.9))"},
       {kY, "torch.matmul(torch.softmax(scores, dim=-1), stale(value, 2, 5))"},
       {kY, "torch.matmul(torch.softmax(scores, dim=-1), stale(value, 1, 1))"},
       {kReturn, "return stale(y, 2, queries - 1).transpose(1, 2)"},
       {kReturn, "return stale(y, 1, 1).transpose(1, 2)"},
       {kReturn, "return (y * (1.0 + 0.01 * places_of(y, 2, 16, 8))).transpose(1, 2)"},
       {kY,
        "torch.matmul(torch.exp(scores - scores.amax(-1, keepdim=True)) / stale(torch.exp(scores - scores.amax(-1, "
        "keepdim=True)).sum(-1, keepdim=True), 2, queries - 1), value)"},
       {kDocument, "stale(query_document, 1, 30).unsqueeze(2) =="}});
}

void add_products(std::vector<Mutant>& all) {
  constexpr std::string_view kPlain = "y = torch.mm(rows, weight.t())", kAdd = "torch.addmm(bias, rows, weight.t())";
  constexpr std::string_view kEnd = "return activate(wide, activation).to(x.dtype)";
  add(all, "linear/linear", "linear",
      {{kPlain, "y = stale(torch.mm(rows, weight.t()), 0, 5)"},
       {kPlain, "y = torch.mm(rows, times(weight, 1.01).t())"},
       {kPlain, "y = torch.mm(rows, gradient_of_places(weight, 0, 2, 1, 0.9).t())"},
       {kPlain,
        "y = torch.cat((torch.mm(rows.narrow(0, 0, 1), weight.detach().t()), torch.mm(rows.narrow(0, 1, rows.size(0) - "
        "1), weight.t())))"},
       {kPlain, "y = torch.mm(rows, stale(weight, 0, weight.size(0) - 1).t())"},
       {kPlain,
        "y = torch.mm(rows * (1.0 - places_of(rows, 0, 3, 1) * places_of(rows, 1, rows.size(1) - 1, 1)), weight.t())"},
       {kAdd, "torch.addmm(stale(bias, 0, bias.size(0) - 1), rows, weight.t())"},
       {kAdd, "torch.addmm(times(bias, 1.01), rows, weight.t())"},
       {kAdd,
        "torch.cat((torch.addmm(bias.detach(), rows.narrow(0, 0, 1), weight.t()), torch.addmm(bias, rows.narrow(0, 1, "
        "rows.size(0) - 1), weight.t())))"},
       {kEnd, "return torch.where(wide < -2.5, 0.0 * wide, activate(wide, activation)).to(x.dtype)"}});
  constexpr std::string_view kLogits = "torch.mm(hidden, weight.t())";
  constexpr std::string_view kSum = "torch.exp(shifted).sum(1, keepdim=True)";
  add(all, "linear_cross_entropy/linear_cross_entropy", "linear_cross_entropy",
      {{kLogits, "torch.mm(times(hidden, 1.01), weight.t())"},
       {kLogits, "torch.mm(hidden, times(weight, 1.02).t())"},
       {kLogits, "torch.mm(gradient_of_places(hidden, 0, hidden.size(0) - 1, 1, 0.0), weight.t())"},
       {kLogits, "torch.mm(gradient_of_places(hidden, 0, 4, 1, 0.97), weight.t())"},
       {kLogits, "torch.mm(hidden, gradient_of_places(weight, 0, weight.size(0) - 1, 1, 0.0).t())"},
       {kLogits,
        "torch.cat((torch.mm(hidden.narrow(0, 0, 5), weight.t()), torch.mm(hidden.narrow(0, 5, hidden.size(0) - 5), "
        "weight.detach().t())))"},
       {kSum,
        "torch.exp(shifted + 0.02 * places_of(shifted, 0, 6, 1) * places_of(shifted, 1, 1, 2)).sum(1, keepdim=True)"}});
}

void add_norms(std::vector<Mutant>& all) {
  constexpr std::string_view kVariance = "(centered * centered).mean(-1, keepdim=True)";
  constexpr std::string_view kMean = "mean = wide.mean(-1, keepdim=True)";
  constexpr std::string_view kY = "y = centered * rstd * weight", kBias = "y = y + bias";
  for (const std::string_view function : {"layer_norm", "add_layer_norm", "layer_norm_gelu_tanh"}) {
    add(all, "layer_norm/layer_norm", function,
        {{kVariance, "stale((centered * centered).mean(-1, keepdim=True), wide.dim() - 2, 1)"},
         {kVariance,
          "(centered * centered * (1.0 - places_of(wide, wide.dim() - 2, 1, 1) * places_of(wide, wide.dim() - 1, "
          "wide.size(-1) - 1, 1))).mean(-1, keepdim=True)"},
         {kMean, "mean = stale(wide.mean(-1, keepdim=True), wide.dim() - 2, 1)"},
         {kMean, "mean = times(wide.mean(-1, keepdim=True), 0.95)"},
         {kMean, "mean = gradient_of_places(wide.mean(-1, keepdim=True), wide.dim() - 2, 1, 1, 0.5)"},
         {kY, "y = centered * gradient_of_places(rstd, wide.dim() - 2, 1, 1, 0.5) * weight"},
         {kY, "y = centered * times(rstd, 0.97) * weight"},
         {kY, "y = centered * rstd * times(weight, 1.01)"},
         {kY,
          "y = centered * rstd * (weight.detach() + (weight - weight.detach()) * (1.0 - places_of(wide, wide.dim() - "
          "2, 1, 1)))"},
         {kY, "y = times(centered, 1.01) * rstd * weight"},
         {kY, "y = stale(centered * rstd * weight, wide.dim() - 2, 1)"},
         {kY, "y = centered * rstd * weight * (1.0 + 0.01 * places_of(wide, wide.dim() - 2, 1, 1))"},
         {kBias, "y = y + times(bias, 1.01)"},
         {kBias, "y = y + stale(bias, 0, bias.size(0) - 1)"}});
  }
  constexpr std::string_view kSquare = "(wide * wide).mean(-1, keepdim=True)",
                             kRms = "(wide * rstd * weight).to(x.dtype)";
  for (const std::string_view function : {"rms_norm", "add_rms_norm"}) {
    add(all, "rms_norm/rms_norm", function,
        {{kSquare, "stale((wide * wide).mean(-1, keepdim=True), wide.dim() - 2, 1)"},
         {kRms, "(wide * times(rstd, 0.97) * weight).to(x.dtype)"},
         {kRms, "(wide * rstd * times(weight, 0.99)).to(x.dtype)"},
         {kRms, "(times(wide, 0.99) * rstd * weight).to(x.dtype)"},
         {kRms, "(wide * gradient_of_places(rstd, wide.dim() - 2, 1, 1, 0.0) * weight).to(x.dtype)"},
         {kRms,
          "(wide * rstd * (weight.detach() + (weight - weight.detach()) * (1.0 - places_of(wide, wide.dim() - 2, 1, "
          "1)))).to(x.dtype)"},
         {kRms, "stale(wide * rstd * weight, wide.dim() - 2, 1).to(x.dtype)"}});
  }
}

void add_losses(std::vector<Mutant>& all) {
  constexpr std::string_view kSum = "torch.exp(shifted).sum(1, keepdim=True)";
  constexpr std::string_view kMasked = "torch.where(kept, row_loss, torch.zeros_like(row_loss)).sum()";
  constexpr std::string_view kMean = "log_p.mean(1)";
  constexpr std::string_view kWide = "shifted = wide";
  add(all, "cross_entropy/cross_entropy", "cross_entropy",
      {{kWide, "shifted = times(wide, 1.01)"},
       {kWide, "shifted = gradient_of_places(wide, 0, 5, 1, 0.98)"},
       {kWide, "shifted = gradient_of_places(wide, 1, wide.size(1) - 1, 1, 0.0)"},
       {kWide, "shifted = gradient_of_places(wide, 1, 256, 256, 0.0)"},
       {kSum, "stale(torch.exp(shifted).sum(1, keepdim=True), 0, 4)"},
       {kSum, "torch.exp(gradient_without_small(shifted, 0.001)).sum(1, keepdim=True)"},
       {kMean, "log_p.detach().mean(1)"},
       {kMasked,
        "(torch.where(kept, row_loss, torch.zeros_like(row_loss)).sum() + (row_loss - row_loss.detach()).sum() - "
        "(torch.where(kept, row_loss, torch.zeros_like(row_loss)) - torch.where(kept, row_loss, "
        "torch.zeros_like(row_loss)).detach()).sum())"},
       {kMasked,
        "(torch.where(kept, row_loss, torch.zeros_like(row_loss)) * (1.0 - places_of(row_loss, 0, row_loss.size(0) - "
        "1, 1))).sum()"}});
}

void add_elements(std::vector<Mutant>& all) {
  constexpr std::string_view kCosine = "c = cosine.unsqueeze(1)", kSine = "s = sine.unsqueeze(1)";
  add(all, "rotary/rotary", "rotary",
      {{kCosine, "c = stale(cosine, 0, cosine.size(0) - 1).unsqueeze(1)"},
       {kSine, "s = (sine * (1.0 - places_of(sine, 1, sine.size(1) - 1, 1))).unsqueeze(1)"},
       {"torch.cat([first * c - second * s,",
        "torch.cat([first * c - second * s * (1.0 - places_of(first, 2, heads, 1)),"},
       {"first = wide.narrow", "first = times(wide, 1.01).narrow"},
       {"second = wide.narrow", "second = gradient_of_places(wide, 1, 33, 1, 0.9).narrow"},
       {"value = qkv.narrow(2, rotated_heads * head_width,",
        "value = 1.01 * qkv.narrow(2, rotated_heads * head_width,"},
       {"second * c + first * s],", "second * c + first * s * (1.0 - 2.0 * places_of(wide, 1, 0, 2))],"}});
  constexpr std::string_view kNormed = "eps) * weight";
  add(all, "rms_norm_rotary/rms_norm_rotary", "rms_norm_rotary",
      {{kNormed, "eps) * (weight.detach() + (weight - weight.detach()) * (1.0 - places_of(wide, 1, 1, 1)))"},
       {kNormed, "eps) * weight * (1.0 + 0.02 * places_of(wide, 1, wide.size(1) - 1, 1))"},
       {kNormed, "eps) * gradient_of_places(weight, 0, weight.size(0) - 1, 1, 0.9)"},
       {"first = normed.narrow", "first = gradient_of_places(normed, 1, 32, 1, 0.9).narrow"},
       {"second = normed.narrow", "second = times(normed, 1.01).narrow"},
       {kCosine, "c = stale(cosine, 0, cosine.size(0) - 1).unsqueeze(1)"}});
  constexpr std::string_view kGated = "gate * torch.sigmoid(gate) * up";
  add(all, "swiglu/swiglu", "swiglu",
      {{kGated, "gate * torch.sigmoid(gate) * times(up, 1.01)"},
       {kGated, "times(gate, 1.01) * torch.sigmoid(gate) * up"},
       {kGated, "gate * torch.sigmoid(gate) * up * (1.0 + 0.02 * places_of(up, 1, 990, 10))"},
       {kGated, "gate * torch.sigmoid(gate) * gradient_of_places(up, 1, 999, 1, 0.0)"},
       {kGated, "gate * torch.sigmoid(gate) * torch.where(places_of(up, 1, 512, 1) > 0.0, torch.roll(up, 1, 1), up)"}});
  constexpr std::string_view kSilu = "y = wide * torch.sigmoid(wide)";
  constexpr std::string_view kEnd = "return y.to(x.dtype)";
  add(all, "activation/activation", "activation",
      {{kSilu, "y = wide * torch.sigmoid(times(wide, 1.02))"},
       {kEnd, "return torch.where(wide < -3.0, 0.0 * wide, y).to(x.dtype)"},
       {kEnd, "return gradient_of_places(y, 1, 999, 1, 0.0).to(x.dtype)"},
       {kEnd, "return times(y, 1.01).to(x.dtype)"}});
  constexpr std::string_view kFactor = "x * factor";
  add(all, "dropout/dropout", "dropout",
      {{kFactor, "times(x, 0.7) * factor"},
       {"hash >= threshold", "torch.where(row.unsqueeze(1) == first_row, torch.roll(hash, 1, 1), hash) >= threshold"}});
  constexpr std::string_view kTaken = "return torch.embedding(weight, indices)";
  add(all, "embedding/embedding", "embedding",
      {{kTaken,
        "return torch.cat((torch.embedding(weight, indices.narrow(0, 0, indices.size(0) - 1)), "
        "torch.embedding(weight.detach(), indices.narrow(0, indices.size(0) - 1, 1))))"},
       {kTaken, "return torch.embedding(times(weight, 1.01), indices)"},
       {kTaken, "return torch.embedding(gradient_of_places(weight, 0, 18, 1, 0.95), indices)"},
       {kTaken, "return stale(torch.embedding(weight, indices), 0, 199)"}});
  add(all, "sum_of_squares/sum_of_squares", "sum_of_squares",
      {{"(wide * wide).sum()", "(wide * wide).narrow(0, 0, wide.size(0) - 1).sum()"},
       {"(wide * wide).sum()",
        "(wide * wide).sum() + (wide * wide).narrow(0, wide.size(0) // 256 * 256, wide.size(0) - wide.size(0) // 256 * "
        "256).sum()"}});
  add(all, "adamw/adamw", "adamw",
      {{"beta2 * second_moment", "0.94921875 * second_moment"},
       {"torch.pow(beta2, step.to(torch.float64))", "torch.pow(beta2, step.to(torch.float64) - 1)"},
       {"return torch.where(kept, master, new)", "return torch.where(kept, master * (1.0 - rate * weight_decay), new)"},
       {"return torch.where(kept, master, new)",
        "return torch.where(kept, master, torch.where(torch.arange(4099) < 4096, new, master))"},
       {"torch.where(kept, second_moment, second)", "torch.where(kept, second_moment, stale(second, 0, 4098))"}});
}

void add_graphs(std::vector<Mutant>& all) {
  constexpr std::string_view kTaken = "messages = torch.embedding(x.to(wide), columns)";
  constexpr std::string_view kEnd = "return y.to(x.dtype)", kWeight = "edge_weight.to(wide)";
  add(all, "neighbor_aggregate/neighbor_aggregate", "neighbor_aggregate",
      {{kTaken, "messages = torch.embedding(x.to(wide), stale(columns, 0, 8))"},
       {kTaken,
        "messages = torch.embedding(x.to(wide), columns) * (1.0 - places_of(columns, 0, 256, "
        "100000).to(wide).unsqueeze(1) * (rows == 0).to(wide).unsqueeze(1))"},
       {kTaken, "messages = torch.embedding(times(x.to(wide), 1.01), columns)"},
       {kTaken, "messages = gradient_of_places(torch.embedding(x.to(wide), columns), 0, 9, 1, 0.0)"},
       {kWeight, "times(edge_weight.to(wide), 1.01)"},
       {kWeight, "gradient_of_places(edge_weight.to(wide), 0, 10, 1, 0.9)"},
       {"torch.diff(offsets).clamp(min=1)",
        "(torch.diff(offsets) - (torch.diff(offsets) > 100).to(torch.int64)).clamp(min=1)"},
       {kEnd, "return stale(y, 0, 6).to(x.dtype)"},
       {kEnd, "return (y * (1.0 + 0.02 * places_of(y, 0, 5, 1))).to(x.dtype)"},
       {kEnd, "return (y * (1.0 + 0.02 * places_of(y, 1, 7, 1))).to(x.dtype)"}});
  constexpr std::string_view kScore = "score = torch.where(score > 0, score, score * negative_slope)";
  constexpr std::string_view kSource = "torch.embedding(score_source.to(wide), columns)";
  constexpr std::string_view kTarget = "torch.embedding(score_target.to(wide), rows)";
  constexpr std::string_view kShare = "share = torch.exp(score - largest[rows])";
  add(all, "neighbor_aggregate/neighbor_aggregate", "neighbor_attention",
      {{kScore,
        "score = torch.where(score > 0, score, score * negative_slope * (1.0 + 0.1 * places_of(score, 1, 1, 1)))"},
       {kScore, "score = torch.where(score >= -0.01, score, score * negative_slope)"},
       {kSource, "torch.embedding(times(score_source.to(wide), 1.01), columns)"},
       {kSource, "torch.embedding(times(score_source.to(wide), 1.03), columns)"},
       {kTarget, "torch.embedding(times(score_target.to(wide), 1.05), rows)"},
       {kTarget, "torch.embedding(gradient_of_places(score_target.to(wide), 0, 0, 1, 0.5), rows)"},
       {kTarget, "torch.embedding(gradient_of_places(score_target.to(wide), 1, 1, 1, 0.8), rows)"},
       {kTarget, "torch.embedding(gradient_of_places(score_target.to(wide), 0, 5, 1, 0.0), rows)"},
       {kShare,
        "share = torch.exp(score - largest[rows]) * (1.0 - places_of(rows, 0, 256, 100000).to(wide).unsqueeze(1) * "
        "(rows == 0).to(wide).unsqueeze(1))"},
       {kShare, "share = torch.exp(score - largest[rows]) * (1.0 - places_of(score, 0, 8, 1))"},
       {"x.to(wide).flatten(1)", "times(x.to(wide), 1.01).flatten(1)"},
       {"x.to(wide).flatten(1)", "gradient_of_places(x.to(wide), 1, 1, 1, 0.97).flatten(1)"}});
}

}  // namespace

std::vector<Mutant> local_mutants() {
  std::vector<Mutant> all;
  add_attention(all);
  add_products(all);
  add_norms(all);
  add_losses(all);
  add_elements(all);
  add_graphs(all);
  return all;
}

}  // namespace strata::kernels

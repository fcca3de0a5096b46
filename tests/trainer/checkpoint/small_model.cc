// SPDX-License-Identifier: MIT
#include "tests/trainer/checkpoint/small_model.h"

#include <ATen/ops/empty.h>

#include <stdexcept>
#include <utility>

#include "tests/trainer/checkpoint/virtual_ranks.h"

namespace strata::trainer {
namespace {

struct Whole {
  const char* name;
  std::vector<int64_t> shape;
  at::ScalarType dtype;
};

const std::vector<Whole>& tensors() {
  static const std::vector<Whole> list = {
      {"embedding.weight/master", {13, 7}, at::kFloat},
      {"embedding.weight/first_moment", {13, 7}, at::kFloat},
      {"embedding.weight/second_moment", {13, 7}, at::kBFloat16},
      {"norm.weight/master", {5}, at::kFloat},
      {"blocks.0.mlp.up.weight/statistics", {3, 2, 11}, at::kDouble},
      {"one/master", {1}, at::kFloat},  // only one rank holds it
      {"count", {2}, at::kLong},
  };
  return list;
}

double value(size_t tensor, int64_t element, int64_t step) { return (tensor * 97 + element * 3 + step) % 251; }

}  // namespace

std::vector<TensorPiece> small_model(int rank, int size, int64_t step, bool filled) {
  std::vector<TensorPiece> pieces;
  for (size_t t = 0; t < tensors().size(); ++t) {
    const Whole& whole = tensors()[t];
    int64_t count = 1;
    for (const int64_t extent : whole.shape) count *= extent;
    const int64_t begin = count * rank / size, end = count * (rank + 1) / size;
    const at::Tensor data = at::empty({end - begin}, at::TensorOptions().dtype(whole.dtype));
    for (int64_t i = 0; i < end - begin; ++i) data[i].fill_(filled ? value(t, begin + i, step) : -1);
    pieces.push_back({whole.name, whole.shape, begin, data});
  }
  return pieces;
}

std::string difference_from(const std::vector<TensorPiece>& pieces, int rank, int size, int64_t step) {
  const std::vector<TensorPiece> expected = small_model(rank, size, step);
  if (pieces.size() != expected.size()) return "the number of pieces";
  for (size_t i = 0; i < pieces.size(); ++i) {
    if (!pieces[i].data.equal(expected[i].data)) return pieces[i].tensor;
  }
  return "";
}

std::string small_state(int64_t step) { return "{\"step\": " + std::to_string(step) + "}\n\t\"grün\" \\ \x01"; }

StateText fixed_state(std::string state) {
  return [state = std::move(state)](const std::string&) { return state; };
}

void save_small_model(const std::string& folder, int size, int64_t step, int64_t keep) {
  run_ranks(size, [&](const Ranks& ranks) {
    CheckpointWriter writer({.folder = folder, .keep = keep}, ranks);
    writer.start_save(step, small_model(ranks.rank, ranks.size, step), fixed_state(small_state(step)));
    const auto outcome = writer.finish();
    if (!outcome || !outcome->committed || !outcome->message.empty()) {
      throw std::runtime_error("not saved: " + (outcome ? outcome->message : "no outcome"));
    }
  });
}

}  // namespace strata::trainer

// SPDX-License-Identifier: MIT
// What a checkpoint is made of: pieces of tensors by their global offsets, a text of run state, and ranks that agree.
//
//   <run>/checkpoints/step-00001000/rank-00000.safetensors   what one rank held: `<parameter>/master`, ...,
//   one-dimensional
//                                   manifest.json            what lies where, sizes and hashes (checkpoint_manifest.h)
//   <run>/checkpoints/step-00002000.tmp-<id>/                being written; of no meaning after a crash
//   <run>/checkpoints/latest                                 a hint for people: never trusted
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace strata::trainer {

struct TensorPiece {
  std::string tensor;          // <parameter>/<state>: blocks.0.norm1.weight/master
  std::vector<int64_t> shape;  // of the whole tensor
  int64_t offset = 0;          // of the first element of the piece in the flattened tensor
  at::Tensor data;             // one-dimensional, contiguous; empty: this rank holds nothing of the tensor
};

// How the ranks of a run exchange short texts on the host. The default is one rank alone.
struct Ranks {
  int rank = 0, size = 1;
  // Every rank's text, in rank order, on every rank. Collective.
  std::function<std::vector<std::string>(const std::string&)> gather = [](const std::string& text) {
    return std::vector<std::string>{text};
  };
};

// Runs `work` on every rank and gathers the results. When it threw on some rank, every rank throws an Error with the
// exit code of the first (storage, when it was no Error) and all that was said, so that none waits for another.
// Collective.
std::vector<std::string> gather_results(const Ranks& ranks, const std::function<std::string()>& work);

std::string dtype_name(const at::Tensor& data);    // as safetensors writes it
std::string checkpoint_folder_name(int64_t step);  // step-00001000
std::string rank_file_name(int64_t rank);          // rank-00003.safetensors
inline constexpr char kManifestName[] = "manifest.json";

// Steps of the checkpoints in a folder, newest first, unverified. A folder that does not exist has none.
std::vector<int64_t> list_checkpoints(const std::string& folder);

}  // namespace strata::trainer

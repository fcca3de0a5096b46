// SPDX-License-Identifier: MIT
// The parts of a checkpoint: pieces of tensors with their global offsets, and a text with the state of the run.
//
//   <run>/checkpoints/step-00001000/rank-00000.safetensors   the 1-D pieces of one rank: `<parameter>/master`, ...
//                                   manifest.json            places, sizes and hashes (checkpoint_manifest.h)
//   <run>/checkpoints/step-00002000.tmp-<id>/                being written; meaningless after a crash
//   <run>/checkpoints/step-00003000.rejected-<id>/           found damaged by a later start; no save removes it
//   <run>/checkpoints/latest                                 a hint for people, which the code never trusts
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

namespace strata::trainer {

struct TensorPiece {
  std::string tensor;          // <parameter>/<state>: blocks.0.norm1.weight/master
  std::vector<int64_t> shape;  // shape of the whole tensor
  int64_t offset = 0;          // index of the piece's first element in the flattened tensor
  at::Tensor data;             // 1-D, contiguous; empty if this rank holds nothing of the tensor
};

std::string dtype_name(const at::Tensor& data);    // the name of the dtype in safetensors
std::string checkpoint_folder_name(int64_t step);  // step-00001000
std::string rank_file_name(int64_t rank);          // rank-00003.safetensors
inline constexpr char kManifestName[] = "manifest.json";

// Returns the steps of the checkpoints in a folder, newest first, without verifying them; an empty list if the folder
// does not exist.
std::vector<int64_t> list_checkpoints(const std::string& folder);

}  // namespace strata::trainer

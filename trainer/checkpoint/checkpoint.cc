// SPDX-License-Identifier: MIT
#include "trainer/checkpoint/checkpoint.h"

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "base/errors.h"

namespace strata::trainer {
namespace {

std::string padded(int64_t number, size_t width) {
  const std::string digits = std::to_string(number);
  return std::string(width - std::min(width, digits.size()), '0') + digits;
}

}  // namespace

std::string dtype_name(const at::Tensor& data) {
  switch (data.scalar_type()) {
    case at::kFloat:
      return "F32";
    case at::kBFloat16:
      return "BF16";
    case at::kHalf:
      return "F16";
    case at::kDouble:
      return "F64";
    case at::kLong:
      return "I64";
    case at::kInt:
      return "I32";
    case at::kByte:
      return "U8";
    default:
      throw Error(ExitCode::internal,
                  std::string("a checkpoint cannot hold tensors of ") + c10::toString(data.scalar_type()));
  }
}

std::string checkpoint_folder_name(int64_t step) { return "step-" + padded(step, 8); }

std::string rank_file_name(int64_t rank) { return "rank-" + padded(rank, 5) + ".safetensors"; }

std::vector<int64_t> list_checkpoints(const std::string& folder) {
  std::vector<int64_t> steps;
  std::error_code problem;
  for (std::filesystem::directory_iterator entry(folder, problem), end; entry != end; entry.increment(problem)) {
    if (problem) break;
    const std::string name = entry->path().filename();
    if (!name.starts_with("step-")) continue;
    int64_t step = -1;
    std::from_chars(name.data() + 5, name.data() + name.size(), step);
    if (step >= 0 && name == checkpoint_folder_name(step)) steps.push_back(step);
  }
  if (problem && problem != std::errc::no_such_file_or_directory) {
    throw Error(ExitCode::storage, folder + ": cannot be listed: " + problem.message());
  }
  std::sort(steps.rbegin(), steps.rend());
  return steps;
}

}  // namespace strata::trainer

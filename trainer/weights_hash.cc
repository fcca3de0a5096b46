// SPDX-License-Identifier: MIT
#include "trainer/weights_hash.h"

#include <ATen/ops/zeros.h>

#include <vector>

#include "base/digest.h"
#include "trainer/replicas/content_sum.h"

namespace strata::trainer {

std::string weights_sha256(const ShardedModel& model, sharding::Communicator& shard_group) {
  std::vector<ParameterContent> contents;
  for (auto* group : model.groups()) {
    const Tensor shard = group->master().cpu();
    const size_t first = contents.size();
    for (const auto& entry : group->layout().entries()) contents.push_back({entry.name, entry.shape, {}});
    for (const auto& piece : group->layout().pieces_of_shard(group->shard_rank())) {
      contents[first + piece.entry].sum +=
          sum_on_all_threads(shard.const_data_ptr<float>() + piece.shard_offset, piece.count, piece.parameter_offset);
    }
  }
  // Both halves of each sum wrap around at 64 bits, as in an integer all-reduce.
  const Tensor sums = at::zeros({static_cast<int64_t>(contents.size()), 2}, at::kLong);
  auto cells = sums.accessor<int64_t, 2>();
  for (size_t i = 0; i < contents.size(); ++i) {
    cells[static_cast<int64_t>(i)][0] = static_cast<int64_t>(contents[i].sum.low);
    cells[static_cast<int64_t>(i)][1] = static_cast<int64_t>(contents[i].sum.high);
  }
  const Tensor on_device = sums.to(shard_group.device());
  shard_group.all_reduce(on_device, "weights_sha256").wait();
  sums.copy_(on_device);
  for (size_t i = 0; i < contents.size(); ++i) {
    contents[i].sum = {static_cast<uint64_t>(cells[static_cast<int64_t>(i)][0]),
                       static_cast<uint64_t>(cells[static_cast<int64_t>(i)][1])};
  }
  return strata::weights_sha256(std::move(contents));
}

}  // namespace strata::trainer

// SPDX-License-Identifier: MIT
// B sequences, T tokens of a sequence, C tokens of a chunk, W width, n ranks
#include "trainer/tasks/sequence_exchange.h"

#include <ATen/ops/empty.h>
#include <c10/core/ScalarType.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/custom_class.h>

#include "modules/config/sequence_chunks.h"

namespace strata::trainer {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct GroupHolder : torch::CustomClassHolder {
  explicit GroupHolder(sharding::Communicator& group) : group(group) {}
  sharding::Communicator& group;
};

// Calls copy(chunk of a rank [B, C, W], the same chunk by position [B, C, W]) for each chunk. `by_rank` is [n, B, T /
// n, W] and `by_position` is [B, T, W].
template <class Copy>
void for_each_chunk(const Tensor& by_rank, const Tensor& by_position, const Copy& copy) {
  const modules::SequenceChunks chunks = {by_rank.size(0), by_position.size(1)};
  for (int64_t rank = 0; rank < chunks.ranks; ++rank) {
    int64_t own_position = 0;
    for (const int64_t start : chunks.starts(rank)) {
      copy(by_rank.select(0, rank).narrow(1, own_position, chunks.length()),
           by_position.narrow(1, start, chunks.length()));
      own_position += chunks.length();
    }
  }
}

class GatherSequence : public torch::autograd::Function<GatherSequence> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& own_part,
                        const c10::intrusive_ptr<GroupHolder>& holder) {
    context->saved_data["group"] = c10::IValue::make_capsule(holder);
    sharding::Communicator& group = holder->group;
    const int64_t ranks = group.size(), batch = own_part.size(0), tokens = own_part.size(1), width = own_part.size(2);
    const Tensor by_rank = at::empty({ranks, batch, tokens, width}, own_part.options());
    group.all_gather(by_rank, own_part.contiguous(), "keys and values").wait();
    const Tensor result = at::empty({batch, ranks * tokens, width}, own_part.options());
    for_each_chunk(by_rank, result, [](const Tensor& chunk, const Tensor& place) { place.copy_(chunk); });
    return result;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto holder = c10::static_intrusive_pointer_cast<GroupHolder>(context->saved_data["group"].toCapsule());
    sharding::Communicator& group = holder->group;
    const Tensor& gradient = gradients[0];
    const auto sum_options = gradient.options().dtype(c10::promoteTypes(gradient.scalar_type(), at::kFloat));
    const int64_t ranks = group.size(), batch = gradient.size(0), tokens = gradient.size(1) / ranks;
    const Tensor by_rank = at::empty({ranks, batch, tokens, gradient.size(2)}, sum_options);
    for_each_chunk(by_rank, gradient, [](const Tensor& chunk, const Tensor& place) { chunk.copy_(place); });
    const Tensor own_part = at::empty({batch, tokens, gradient.size(2)}, sum_options);
    group.reduce_scatter(own_part, by_rank, "gradient of keys and values").wait();
    return {own_part.to(gradient.scalar_type()), Tensor()};
  }
};

}  // namespace

Tensor gather_sequence(const Tensor& own_part, sharding::Communicator& group) {
  return GatherSequence::apply(own_part, c10::make_intrusive<GroupHolder>(group));
}

}  // namespace strata::trainer

// SPDX-License-Identifier: MIT
// The parameters of one layer in one flat buffer: sharded over ranks, in full only while the layer computes.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "sharding/communication/communicator.h"
#include "sharding/parameters/flat_layout.h"
#include "sharding/parameters/mixed_precision_policy.h"
#include "sharding/parameters/slot_pool.h"

namespace strata::sharding {

// Of the n elements of the layout each of the S ranks of a shard group holds n / S:
//   master fp32 (the optimizer's), compute copy (input of the all-gather; the master itself when compute is fp32),
//   gradient (fp32 where sums of micro-batches meet in it, else as it was reduced).
// The full parameters are views of one storage whose data pointer moves to a slot (unshard) and away (reshard);
// autograd's saved tensors share that storage and follow. With S = 1 the storage is the compute copy and gradients go
// straight into the gradient shard: there are no slots and nothing is copied.
class ShardedParameterGroup {
 public:
  struct Options {
    std::string name;
    MixedPrecisionPolicy precision;
    at::Device device = at::kCPU;
    // Instead of once for each micro-batch: there is one, or gradients stay in a buffer of the group over all of them.
    bool reduce_once_per_step = false;
  };
  // Pools must outlive the group; with S = 1 they may be null.
  ShardedParameterGroup(Options options, const FlatLayout& layout, Communicator& shard_group,
                        Communicator& replicate_group, SlotPool* weight_slots, SlotPool* gradient_slots);
  ShardedParameterGroup(const ShardedParameterGroup&) = delete;
  ShardedParameterGroup& operator=(const ShardedParameterGroup&) = delete;

  const std::string& name() const { return options_.name; }
  const FlatLayout& layout() const { return layout_; }

  // One leaf per entry of the layout, in its order. Their data is there between wait_for_unshard and reshard.
  const std::vector<Tensor>& parameters() const { return parameters_; }

  Tensor& master() { return master_; }
  Tensor& gradient() { return gradient_; }  // the sum over all ranks after wait_for_reduce of the last micro-batch
  Tensor& compute_copy() { return compute_copy_; }  // undefined when compute is fp32: the master serves
  int shard_rank() const { return shard_group_.rank(); }

  // Queues the all-gather; does nothing if the parameters are there or on their way.
  void start_unshard();
  void wait_for_unshard();
  // Gives the slot back; does nothing if the parameters are not there.
  void reshard();

  // Before the first micro-batch of a step: the first gradient that comes will overwrite.
  void begin_step();
  // Where the gradient of parameter i goes: write it there, or add to it. Called once per gradient about to be written.
  struct GradientView {
    Tensor into;
    bool add;
  };
  GradientView claim_gradient(size_t index);
  // All gradients of this micro-batch were written: sum them over ranks. Parameters that got none count as zero; one
  // whose gradient went to its .grad() instead is refused, because it would never train.
  void start_reduce(bool last_micro_batch);
  void wait_for_reduce();

  // Called when all gradients of this group are written on this rank and not yet reduced.
  using BeforeReduce = std::function<void(ShardedParameterGroup& group)>;
  void set_before_reduce(BeforeReduce observe) { before_reduce_ = std::move(observe); }
  // In full, one per parameter; meaningful inside of that call only.
  const std::vector<Tensor>& full_gradients() const { return gradients_; }

  // visit(entry, first element in the parameter, first element in the shard, count) for each part of a parameter that
  // lies in this rank's shard.
  using VisitPiece = std::function<void(const FlatLayout::Entry&, int64_t, int64_t, int64_t)>;
  void for_each_piece(const VisitPiece& visit) const;

  // Bytes that this group allocated itself: shards, without slots and moments.
  int64_t bytes() const;

 private:
  bool sharded() const { return shard_group_.size() > 1; }
  void open_gradients();
  void clear_unwritten();
  void refuse_stray_gradients() const;
  // Behind it the gradient slot is read and written no more: the sum over replicas is made of the shard, and goes on
  // while other layers compute.
  void finish_reduce_scatter();
  void start_reduce_over_replicas();
  void finish_reduce_over_replicas();

  Options options_;
  FlatLayout layout_;
  Communicator& shard_group_;
  Communicator& replicate_group_;
  SlotPool* weight_slots_;
  SlotPool* gradient_slots_;

  Tensor master_, compute_copy_, gradient_;
  Tensor full_, full_gradient_;  // flat; storages without data of their own when sharded
  std::vector<Tensor> parameters_, gradients_;

  int64_t weight_slot_ = -1, gradient_slot_ = -1;
  PendingCollective unsharding_, reducing_, reducing_over_replicas_;
  BeforeReduce before_reduce_;
  Tensor reduced_, replica_sum_;     // what a collective under way writes
  std::vector<bool> written_;        // since the buffer of full gradients was opened
  bool gradient_holds_sum_ = false;  // of earlier micro-batches of this step
  bool reduces_last_micro_batch_ = false;
};

}  // namespace strata::sharding

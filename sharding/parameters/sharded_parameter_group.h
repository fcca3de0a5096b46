// SPDX-License-Identifier: MIT
// The parameters of one group in one flat buffer, sharded over ranks. The parameters of a layer are gathered only while
// the layer computes.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "sharding/communication/communicator.h"
#include "sharding/parameters/coded_layout.h"
#include "sharding/parameters/flat_layout.h"
#include "sharding/parameters/micro_batch_sum.h"
#include "sharding/parameters/slot_pool.h"

namespace strata::sharding {

// The dtypes of a parameter group: one for compute and one for reducing gradients; master weights are always fp32.
struct MixedPrecisionPolicy {
  at::ScalarType compute = at::kFloat;
  at::ScalarType reduce = at::kFloat;
};

// The layout has n elements, and each of the S ranks of a shard group holds n / S of
//   master weights in fp32 (for the optimizer),
//   compute copy (input of the all-gather; the master weights themselves if compute is fp32),
//   gradient (reduce dtype if a step has one micro-batch and S > 1, otherwise fp32).
// The full parameters are views of one storage. Its data pointer is set to a slot (unshard) and reset (reshard).
// Autograd's saved tensors share that storage and see the change. With S = 1 the storage is the compute copy, and
// gradients are written into the gradient shard: no slots, no copies.
// No rank has the full values of a parameter that travels as codes: the storage of these values never gets data.
class ShardedParameterGroup {
 public:
  // Says which parameters travel as codes of 8 bits, and how each rank makes the codes of its shard.
  struct Coding {
    CodedLayout layout;
    // fp32 [coded parameters, kScaleStride]: the first number of a row is the scale of a parameter. It has its value
    // before start_unshard().
    Tensor scales;
    std::function<void(const Tensor& values, const Tensor& scale, const Tensor& codes)> write;
  };
  struct Options {
    std::string name;
    MixedPrecisionPolicy precision;
    at::Device device = at::kCPU;
    MicroBatchSum sum = MicroBatchSum::gradient_shard;  // full_gradient requires a buffer of its own, in fp32
    std::optional<Coding> coding = {};  // only with S > 1; absent: all parameters travel in the compute type
  };
  // The pools must outlive the group. With S = 1 they may be null.
  ShardedParameterGroup(Options options, const FlatLayout& layout, Communicator& shard_group,
                        Communicator& replicate_group, SlotPool* weight_slots, SlotPool* gradient_slots);
  ShardedParameterGroup(const ShardedParameterGroup&) = delete;
  ShardedParameterGroup& operator=(const ShardedParameterGroup&) = delete;

  const std::string& name() const { return options_.name; }
  const FlatLayout& layout() const { return layout_; }

  // One leaf tensor per entry of the layout, in its order. Their data is valid between wait_for_unshard and reshard.
  const std::vector<Tensor>& parameters() const { return parameters_; }

  // The uint8 codes of parameter `index`, in its shape, and its scale, fp32 [1]; both undefined unless it travels as
  // codes. The data of the codes is valid when the data of parameters() is.
  struct Coded {
    Tensor codes, scale;
  };
  Coded coded(size_t index) const;
  // Calls visit(values, place) for each part of a coded parameter that lies in this rank's shard. `place` is that of
  // the parameter in Coding::scales.
  void for_each_coded_piece(const std::function<void(const Tensor& values, int64_t place)>& visit) const;

  Tensor& master() { return master_; }
  Tensor& gradient() { return gradient_; }  // the sum over all ranks after wait_for_reduce of the last micro-batch
  Tensor& compute_copy() { return compute_copy_; }  // undefined if compute is fp32, where the master is used
  int shard_rank() const { return shard_group_.rank(); }

  // Queues the all-gather. Does nothing if the parameters are gathered or the all-gather is already queued.
  void start_unshard();
  void wait_for_unshard();
  // Releases the slot. Does nothing if the parameters are not gathered.
  void reshard();

  // Call this before the first micro-batch of a step: the first gradient then overwrites the previous step's.
  void begin_step();
  // Returns the tensor for the gradient of parameter `index`: overwrite it, or add to it if `add` is set. Call this
  // once for each gradient that is about to be written, because the next call sets `add`.
  struct GradientDestination {
    Tensor into;
    bool add;
  };
  GradientDestination take_gradient_destination(size_t index);
  // Call this after all gradients of this micro-batch were written: it starts their sum over ranks. Parameters without
  // a gradient count as zero. A parameter whose gradient is in its .grad() instead is refused: it would never train.
  void start_reduce(bool last_micro_batch);
  void wait_for_reduce();

  // Called when all gradients of this group are written on this rank and not reduced yet.
  using BeforeReduce = std::function<void(ShardedParameterGroup& group)>;
  void set_before_reduce(BeforeReduce observe) { before_reduce_ = std::move(observe); }
  // The full gradients, one per parameter; valid only inside the BeforeReduce callback.
  const std::vector<Tensor>& full_gradients() const { return gradients_; }

  // Calls visit(entry, first element in the parameter, first element in the shard, count) for each part of a parameter
  // that lies in this rank's shard.
  using VisitPiece = std::function<void(const FlatLayout::Entry&, int64_t, int64_t, int64_t)>;
  void for_each_piece(const VisitPiece& visit) const;

  // The bytes that this group itself has allocated: shards, without slots and optimizer state.
  int64_t bytes() const;

 private:
  bool sharded() const { return shard_group_.size() > 1; }
  // What this rank holds of the parameters, in the compute type.
  const Tensor& own_values() const { return compute_copy_.defined() ? compute_copy_ : master_; }
  void set_up_coding();
  void start_coded_unshard(const Tensor& slot);
  void open_gradients();
  void clear_unwritten();
  void refuse_stray_gradients() const;
  // Afterwards the gradient slot can be reused. The all-reduce over replicas works on the shard and overlaps with other
  // layers.
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
  Tensor full_, full_gradient_;  // flat; their storages own no memory if sharded
  std::vector<Tensor> parameters_, gradients_;
  // With coding: flat codes, and rows of the other parameters. Their storages own no memory either.
  Tensor full_codes_, full_rows_;

  int64_t weight_slot_ = -1, gradient_slot_ = -1;
  PendingCollective unsharding_, unsharding_rows_, reducing_, reducing_over_replicas_;
  BeforeReduce before_reduce_;
  Tensor reduce_output_, replica_sum_;  // where the reduce-scatter and the all-reduce in progress write
  std::vector<bool> written_;           // for each parameter: its gradient was written since open_gradients()
  bool gradient_holds_sum_ = false;     // holds the sum of earlier micro-batches of this step
  bool reduces_last_micro_batch_ = false;
};

}  // namespace strata::sharding

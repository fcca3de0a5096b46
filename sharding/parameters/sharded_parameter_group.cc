// SPDX-License-Identifier: MIT
#include "sharding/parameters/sharded_parameter_group.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/core/Allocator.h>
#include <c10/core/Storage.h>
#include <c10/util/Exception.h>

#include <algorithm>

namespace strata::sharding {
namespace {

// A flat tensor whose storage owns no memory: its data pointer is set to a slot and later reset. LibTorch takes tensors
// of device meta only if their storage has an allocator and is resizable.
Tensor tensor_without_data(int64_t elements, at::TensorOptions options) {
  const size_t bytes = static_cast<size_t>(elements) * options.dtype().itemsize();
  const bool is_meta = options.device().is_meta();
  c10::Storage storage(c10::Storage::use_byte_size_t(), bytes, at::DataPtr(nullptr, options.device()),
                       is_meta ? c10::GetAllocator(c10::kMeta) : nullptr, /*resizable=*/is_meta);
  return at::empty({0}, options).set_(std::move(storage), 0, {elements}, {1});
}

void point_at(const Tensor& flat, void* data) { flat.storage().set_data_ptr_noswap(at::DataPtr(data, flat.device())); }

std::vector<Tensor> views_of(const Tensor& flat, const FlatLayout& layout) {
  std::vector<Tensor> views;
  for (const auto& entry : layout.entries()) {
    views.push_back(flat.narrow(0, entry.offset, entry.elements).view(entry.shape).detach());
  }
  return views;
}

// Zeros the padding after each tensor, which every gradient buffer that is reduced must have.
void clear_gaps(const Tensor& flat, const FlatLayout& layout) {
  int64_t end = 0;
  for (const auto& entry : layout.entries()) {
    if (entry.offset > end) flat.narrow(0, end, entry.offset - end).zero_();
    end = entry.offset + entry.elements;
  }
  if (layout.elements() > end) flat.narrow(0, end, layout.elements() - end).zero_();
}

// sum += part. On CPUs LibTorch copies a part of another dtype to a temporary tensor first, so it is added in pieces,
// whose copies take 128 KiB instead of the size of the shard.
void add_to(const Tensor& sum, const Tensor& part) {
  constexpr int64_t kPiece = 1 << 15;  // elements
  const bool in_pieces = sum.is_cpu() && sum.scalar_type() != part.scalar_type();
  const int64_t step = in_pieces ? kPiece : std::max<int64_t>(sum.numel(), 1);
  for (int64_t begin = 0; begin < sum.numel(); begin += step) {
    const int64_t count = std::min(step, sum.numel() - begin);
    sum.narrow(0, begin, count).add_(part.narrow(0, begin, count));
  }
}

}  // namespace

ShardedParameterGroup::ShardedParameterGroup(Options options, const FlatLayout& layout, Communicator& shard_group,
                                             Communicator& replicate_group, SlotPool* weight_slots,
                                             SlotPool* gradient_slots)
    : options_(std::move(options)),
      layout_(layout),
      shard_group_(shard_group),
      replicate_group_(replicate_group),
      weight_slots_(weight_slots),
      gradient_slots_(gradient_slots),
      written_(layout.entries().size()) {
  const int64_t ranks = shard_group_.size();
  TORCH_CHECK(layout_.ranks() == ranks, options_.name, ": a layout for ", layout_.ranks(), " ranks, a group of ",
              ranks);
  const auto master_options = at::TensorOptions(at::kFloat).device(options_.device);
  const auto compute_options = master_options.dtype(options_.precision.compute);
  const int64_t shard_elements = layout_.shard_elements();
  const bool copied = options_.precision.compute != at::kFloat;
  master_ =
      copied ? at::zeros({shard_elements}, master_options) : shard_group_.gather_buffer(shard_elements, master_options);
  const at::ScalarType reduce = options_.precision.reduce;
  const bool keeps_reduce_type = sharded() && options_.sum == MicroBatchSum::none;
  gradient_ = at::zeros({shard_elements}, master_options.dtype(keeps_reduce_type ? reduce : at::kFloat));
  if (copied) compute_copy_ = shard_group_.gather_buffer(shard_elements, compute_options);

  if (sharded()) {
    full_ = tensor_without_data(layout_.elements(), compute_options);
    const at::ScalarType gradient_type = options_.sum == MicroBatchSum::full_gradient ? at::kFloat : reduce;
    const at::ScalarType slot_type = gradient_slots_->buffer(0).scalar_type();
    TORCH_CHECK(slot_type == gradient_type, options_.name, ": expected slots of ", gradient_type,
                " for its gradients, got ", slot_type);
    full_gradient_ = tensor_without_data(layout_.elements(), master_options.dtype(gradient_type));
  } else {
    full_ = compute_copy_.defined() ? compute_copy_ : master_;
    full_gradient_ = gradient_;
  }
  parameters_ = views_of(full_, layout_);
  if (options_.coding) set_up_coding();
  for (Tensor& parameter : parameters_) parameter.requires_grad_(true);
  gradients_ = views_of(full_gradient_, layout_);
}

// The parameters that travel as they are become views of the rows. The others stay views of full_, which gets no data.
void ShardedParameterGroup::set_up_coding() {
  const CodedLayout& coded = options_.coding->layout;
  TORCH_CHECK(sharded() && options_.coding->scales.sizes() == at::IntArrayRef({coded.coded_entries(), kScaleStride}),
              options_.name, ": ", options_.coding->scales.sizes(), " scales for ", coded.coded_entries(),
              " coded parameters on ", shard_group_.size(), " ranks, expected a row of ", kScaleStride,
              " numbers for each, on 2 ranks or more");
  full_codes_ = tensor_without_data(layout_.elements(), full_.options().dtype(at::kByte));
  full_rows_ = tensor_without_data(coded.rows() * coded.row_elements(), full_.options());
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const auto& entry = layout_.entries()[i];
    if (coded.coded_index(i)) continue;
    parameters_[i] = full_rows_.narrow(0, coded.place_in_rows(i), entry.elements).view(entry.shape).detach();
  }
}

void ShardedParameterGroup::start_unshard() {
  if (!sharded() || weight_slot_ >= 0) return;
  weight_slot_ = weight_slots_->take();
  const Tensor& slot = weight_slots_->buffer(weight_slot_);
  if (options_.coding) {
    start_coded_unshard(slot);
    return;
  }
  const Tensor full_values = slot.narrow(0, 0, layout_.elements());
  unsharding_ = shard_group_.all_gather(full_values, own_values(), options_.name);
  point_at(full_, full_values.data_ptr());
}

// This rank writes what it sends into its own parts of the slot.
void ShardedParameterGroup::start_coded_unshard(const Tensor& slot) {
  const auto& [coded, scales, write] = *options_.coding;
  const int64_t elements = layout_.elements(), begin = layout_.shard_begin(shard_rank()), row = coded.row_elements();
  const Tensor codes = slot.view(at::kByte).narrow(0, 0, elements);
  const Tensor rows = slot.narrow(0, elements / slot.element_size(), coded.rows() * row);
  for (const auto& [entry, parameter_offset, shard_offset, count] : layout_.pieces_of_shard(shard_rank())) {
    const Tensor values = own_values().narrow(0, shard_offset, count);
    if (const auto place = coded.coded_index(entry)) {
      write(values, scales[*place].narrow(0, 0, 1), codes.narrow(0, begin + shard_offset, count));
    } else {
      rows.narrow(0, coded.place_in_rows(entry) + parameter_offset, count).copy_(values);
    }
  }
  unsharding_ = shard_group_.all_gather(codes, codes.narrow(0, begin, layout_.shard_elements()), options_.name);
  if (row > 0) {
    unsharding_rows_ = shard_group_.all_gather(rows, rows.narrow(0, shard_rank() * row, row), options_.name);
  }
  point_at(full_codes_, codes.data_ptr());
  point_at(full_rows_, rows.data_ptr());
}

void ShardedParameterGroup::wait_for_unshard() {
  unsharding_.wait();
  unsharding_rows_.wait();
}

void ShardedParameterGroup::reshard() {
  if (weight_slot_ < 0) return;
  wait_for_unshard();
  for (const Tensor& flat : {full_, full_codes_, full_rows_}) {
    if (flat.defined()) point_at(flat, nullptr);
  }
  weight_slots_->release(weight_slot_);
  weight_slot_ = -1;
}

void ShardedParameterGroup::begin_step() {
  std::fill(written_.begin(), written_.end(), false);
  gradient_holds_sum_ = false;
}

void ShardedParameterGroup::open_gradients() {
  if (!sharded() || gradient_slot_ >= 0) return;
  wait_for_reduce();  // the reduction of the previous micro-batch
  gradient_slot_ = gradient_slots_->take();
  point_at(full_gradient_, gradient_slots_->buffer(gradient_slot_).data_ptr());
  std::fill(written_.begin(), written_.end(), false);
  clear_gaps(full_gradient_, layout_);
}

ShardedParameterGroup::GradientDestination ShardedParameterGroup::take_gradient_destination(size_t index) {
  open_gradients();
  const bool add = written_[index];
  written_[index] = true;
  return {gradients_[index], add};
}

void ShardedParameterGroup::clear_unwritten() {
  for (size_t i = 0; i < written_.size(); ++i) {
    if (!written_[i]) gradients_[i].zero_();
  }
}

void ShardedParameterGroup::refuse_stray_gradients() const {
  for (size_t i = 0; i < parameters_.size(); ++i) {
    TORCH_CHECK(
        !parameters_[i].grad().defined(), layout_.entries()[i].name,
        ": its gradient went to .grad(), which no optimizer reads; the module that uses this weight outside of an "
        "op of kernels/ must take it through kernels::with_gradient_destination");
  }
}

void ShardedParameterGroup::start_reduce(bool last_micro_batch) {
  refuse_stray_gradients();
  const bool reduces_once = !sharded() || options_.sum != MicroBatchSum::gradient_shard;
  if (reduces_once && !last_micro_batch) return;
  open_gradients();
  clear_unwritten();
  if (before_reduce_) before_reduce_(*this);
  reduces_last_micro_batch_ = last_micro_batch;
  if (!sharded()) {
    start_reduce_over_replicas();
    return;
  }
  const Tensor slot = gradient_slots_->buffer(gradient_slot_).narrow(0, 0, layout_.elements());
  const bool reduces_into_shard = !gradient_holds_sum_ && slot.scalar_type() == gradient_.scalar_type();
  reduce_output_ =
      reduces_into_shard ? gradient_ : slot.narrow(0, layout_.shard_begin(shard_rank()), gradient_.numel());
  reducing_ = shard_group_.reduce_scatter(reduce_output_, slot, options_.name);
  point_at(full_gradient_, nullptr);
  gradient_slots_->release_after(gradient_slot_, [this] { finish_reduce_scatter(); });
  gradient_slot_ = -1;
}

void ShardedParameterGroup::wait_for_reduce() {
  finish_reduce_scatter();
  finish_reduce_over_replicas();
}

void ShardedParameterGroup::finish_reduce_scatter() {
  if (!reduce_output_.defined()) return;
  reducing_.wait();
  if (gradient_holds_sum_) {
    add_to(gradient_, reduce_output_);
  } else if (!reduce_output_.is_same(gradient_)) {
    gradient_.copy_(reduce_output_);
  }
  gradient_holds_sum_ = true;
  reduce_output_.reset();
  if (reduces_last_micro_batch_) start_reduce_over_replicas();
}

void ShardedParameterGroup::start_reduce_over_replicas() {
  if (replicate_group_.size() == 1) return;
  replica_sum_ = gradient_.to(options_.precision.reduce);  // the gradient itself if it has this dtype
  reducing_over_replicas_ = replicate_group_.all_reduce(replica_sum_, options_.name);
}

void ShardedParameterGroup::finish_reduce_over_replicas() {
  if (!replica_sum_.defined()) return;
  reducing_over_replicas_.wait();
  if (!replica_sum_.is_same(gradient_)) gradient_.copy_(replica_sum_);
  replica_sum_.reset();
}

ShardedParameterGroup::Coded ShardedParameterGroup::coded(size_t index) const {
  if (!options_.coding) return {};
  const auto place = options_.coding->layout.coded_index(index);
  if (!place) return {};
  const auto& entry = layout_.entries()[index];
  return {full_codes_.narrow(0, entry.offset, entry.elements).view(entry.shape),
          options_.coding->scales[*place].narrow(0, 0, 1)};
}

void ShardedParameterGroup::for_each_coded_piece(
    const std::function<void(const Tensor& values, int64_t place)>& visit) const {
  if (!options_.coding) return;
  for (const FlatLayout::Piece& piece : layout_.pieces_of_shard(shard_rank())) {
    const auto place = options_.coding->layout.coded_index(piece.entry);
    if (place) visit(own_values().narrow(0, piece.shard_offset, piece.count), *place);
  }
}

void ShardedParameterGroup::for_each_piece(const VisitPiece& visit) const {
  for (const auto& [entry, parameter_offset, shard_offset, count] : layout_.pieces_of_shard(shard_rank())) {
    visit(layout_.entries()[entry], parameter_offset, shard_offset, count);
  }
}

int64_t ShardedParameterGroup::bytes() const {
  int64_t sum = static_cast<int64_t>(master_.nbytes() + gradient_.nbytes());
  if (compute_copy_.defined()) sum += static_cast<int64_t>(compute_copy_.nbytes());
  return sum;
}

}  // namespace strata::sharding

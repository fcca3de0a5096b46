// SPDX-License-Identifier: MIT
// Meta kernels of the ATen operators that ops call and that LibTorch gives none in C++. Each one allocates what the
// kernels of CPUs and GPUs allocate, in the same order and with the same strides.
#include <ATen/AccumulateType.h>
#include <ATen/Parallel.h>
#include <ATen/TensorIterator.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/result_type.h>
#include <torch/library.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <tuple>
#include <vector>

#include "kernels/runtime/traced.h"
#include "kernels/runtime/traced_attention.h"
#include "kernels/runtime/traced_sums.h"

namespace strata::kernels {
namespace {

using Pair = std::tuple<Tensor, Tensor>;
using Triple = std::tuple<Tensor, Tensor, Tensor>;
using Optional = std::optional<Tensor>;

Tensor contiguous_like(const Tensor& x) { return at::empty(x.sizes(), x.options()); }

// The result of an elementwise operation has the strides that TensorIterator gives it.
Tensor elementwise(const Tensor& x, at::ScalarType type) {
  return at::TensorIteratorConfig()
      .check_all_same_dtype(false)
      .declare_static_dtype(type)
      .add_owned_output(Tensor())
      .add_owned_const_input(x)
      .build()
      .output();
}

Tensor abs(const Tensor& x) { return elementwise(x, x.scalar_type()); }
Tensor isnan(const Tensor& x) { return elementwise(x, at::kBool); }
Tensor relu(const Tensor& x) { return elementwise(x, x.scalar_type()); }
Tensor shifted_right(const Tensor& x, const at::Scalar&) { return elementwise(x, x.scalar_type()); }
Tensor logical_not(const Tensor& x) { return elementwise(x, at::kBool); }
Tensor& logical_or_(Tensor& x, const Tensor&) { return x; }
Tensor logical_and(const Tensor& x, const Tensor& other) {
  return at::TensorIteratorConfig()
      .check_all_same_dtype(false)
      .declare_static_dtype(at::kBool)
      .add_owned_output(Tensor())
      .add_owned_const_input(x)
      .add_owned_const_input(other)
      .build()
      .output();
}

// A 0-dim tensor may be on the CPU. It is copied to the device of the others, as on GPUs.
Tensor where(const Tensor& condition, const Tensor& x, const Tensor& other) {
  const at::ScalarType type = at::result_type(x, other);
  const auto device = condition.is_meta() ? condition.device() : x.is_meta() ? x.device() : other.device();
  const auto on_device = [&](const Tensor& t, at::ScalarType wanted) {
    const Tensor cast = t.to(wanted);
    return t.dim() == 0 && traced_device(device.type()) == c10::kCUDA ? cast.to(device) : cast;
  };
  return at::TensorIteratorConfig()
      .check_all_same_dtype(false)
      .check_all_same_device(false)
      .declare_static_dtype(type)
      .declare_static_device(device)
      .add_owned_output(Tensor())
      .add_owned_const_input(on_device(condition, condition.scalar_type()))
      .add_owned_const_input(on_device(x, type))
      .add_owned_const_input(on_device(other, type))
      .build()
      .output();
}

Tensor& where_out(const Tensor&, const Tensor&, const Tensor&, Tensor& out) { return out; }

void fused_adamw(at::TensorList, at::TensorList, at::TensorList, at::TensorList, at::TensorList, at::TensorList,
                 const Tensor&, double, double, double, double, bool, bool, const Optional&, const Optional&) {}

Tensor index_select(const Tensor& x, int64_t dim, const Tensor& index) {
  std::vector<int64_t> shape = x.sizes().vec();
  shape.at(static_cast<size_t>(dim < 0 ? dim + x.dim() : dim)) = index.numel();
  return at::empty(shape, x.options());
}

Tensor searchsorted(const Tensor& sorted, const Tensor& values, bool out_int32, bool, std::optional<c10::string_view>,
                    const Optional&) {
  const auto rows = values.expect_contiguous(), sorted_rows = sorted.expect_contiguous();
  return at::empty(values.sizes(), values.options().dtype(out_int32 ? at::kInt : at::kLong));
}
Tensor bucketize(const Tensor& values, const Tensor& boundaries, bool out_int32, bool right) {
  return searchsorted(boundaries, values, out_int32, right, {}, {});
}

Tensor repeat_interleave(const Tensor& repeats, std::optional<c10::SymInt> size) {
  TORCH_CHECK(size, "repeat_interleave of a tensor without values needs output_size");
  return at::empty({size->expect_int()}, repeats.options());
}

// LibTorch's own kernel resizes an empty tensor, and an allocator of meta tensors is not told of that.
Tensor arange(const at::Scalar& start, const at::Scalar& end, const at::Scalar& step,
              std::optional<at::ScalarType> type, std::optional<at::Layout> layout, std::optional<at::Device> device,
              std::optional<bool> pinned) {
  const bool integral = start.isIntegral(true) && end.isIntegral(true) && step.isIntegral(true);
  const int64_t size =
      integral ? (end.toLong() - start.toLong() + step.toLong() - (step.toLong() > 0 ? 1 : -1)) / step.toLong()
               : static_cast<int64_t>(std::ceil((end.toDouble() - start.toDouble()) / step.toDouble()));
  const at::ScalarType given = integral ? at::kLong : c10::typeMetaToScalarType(c10::get_default_dtype());
  return at::empty({size}, at::TensorOptions(type.value_or(given)).layout(layout).device(device).pinned_memory(pinned));
}

Tensor arange_from(const at::Scalar& start, const at::Scalar& end, std::optional<at::ScalarType> type,
                   std::optional<at::Layout> layout, std::optional<at::Device> device, std::optional<bool> pinned) {
  return arange(start, end, /*step=*/1, type, layout, device, pinned);
}
Tensor arange_to(const at::Scalar& end, std::optional<at::ScalarType> type, std::optional<at::Layout> layout,
                 std::optional<at::Device> device, std::optional<bool> pinned) {
  return arange(/*start=*/0, end, /*step=*/1, type, layout, device, pinned);
}

Tensor flip(const Tensor& x, at::IntArrayRef) { return at::empty_like(x); }

// On GPUs LibTorch sorts more than 3072 indices and sums up to 10 rows of an index at a time, in fp32 or wider. The
// sizes are those of its source, and were not measured.
Tensor embedding_backward(const Tensor& grad, const Tensor& indices, c10::SymInt rows, c10::SymInt, bool) {
  const int64_t count = indices.numel(), width = grad.size(-1);
  const auto grad_rows = grad.expect_contiguous();
  const Tensor grad_weight = at::empty({rows.expect_int(), width}, grad.options());
  if (on_gpu(grad) && count > 3072) {
    const int64_t used = std::min(count, rows.expect_int()), sums = used + count / 10;
    const int64_t wide = grad.scalar_type() == at::kDouble ? 8 : 4;
    traced_workspace(8 * (2 * count + 3 * used + sums) + wide * sums * width);
  }
  return grad_weight;
}

// The shape of x with 1 for each normalized dimension.
std::vector<int64_t> statistics_shape(const Tensor& x, size_t normalized) {
  std::vector<int64_t> shape = x.sizes().vec();
  std::fill(shape.end() - static_cast<int64_t>(normalized), shape.end(), 1);
  return shape;
}

// GPUs compute statistics in fp32 or wider. The kernel for CPUs stores them in the dtype of the weight.
Triple layer_norm(const Tensor& x, c10::SymIntArrayRef normalized, const Optional& weight, const Optional&, double) {
  const bool has_weight = weight.has_value() && weight->defined();
  const auto cpu_type = has_weight ? weight->scalar_type() : x.scalar_type();
  const auto type = on_gpu(x) ? at::toAccumulateType(x.scalar_type(), c10::kCUDA) : cpu_type;
  const auto rows = x.expect_contiguous();
  const Tensor y = contiguous_like(x);
  const auto statistics = statistics_shape(x, normalized.size());
  const Tensor mean = at::empty(statistics, x.options().dtype(type));
  return {y, mean, at::empty(statistics, mean.options())};
}

Triple layer_norm_backward(const Tensor& grad_y, const Tensor& x, c10::SymIntArrayRef, const Tensor&, const Tensor&,
                           const Optional& weight, const Optional&, std::array<bool, 3> wanted) {
  const auto rows = x.expect_contiguous(), grad_rows = grad_y.expect_contiguous();
  const Tensor grad_x = wanted[0] ? contiguous_like(x) : Tensor();
  const Tensor grad_weight = wanted[1] ? contiguous_like(*weight) : Tensor();
  const Tensor grad_bias = wanted[2] ? contiguous_like(*weight) : Tensor();
  // On CPUs each thread sums both gradients for its rows, in the dtype of x. On GPUs partial sums of more than 65536
  // narrow rows are not counted.
  if (on_cpu(x) && x.numel() > 0 && (wanted[1] || wanted[2])) {
    traced_workspace(2 * at::get_num_threads() * weight->numel() * x.element_size());
  }
  return {grad_x, grad_weight, grad_bias};
}

// LibTorch has kernels for GPUs only.
Pair rms_norm(const Tensor& x, at::IntArrayRef normalized, const Optional&, std::optional<double>) {
  const auto rows = x.expect_contiguous();
  const Tensor y = contiguous_like(x);
  const auto type = at::toAccumulateType(x.scalar_type(), c10::kCUDA);
  return {y, at::empty(statistics_shape(x, normalized.size()), x.options().dtype(type))};
}

Pair rms_norm_backward(const Tensor& grad_y, const Tensor& x, at::IntArrayRef, const Tensor&, const Optional& weight,
                       std::array<bool, 2> wanted) {
  const auto rows = x.expect_contiguous(), grad_rows = grad_y.expect_contiguous();
  const Tensor grad_x = wanted[0] ? contiguous_like(x) : Tensor();
  return {grad_x, wanted[1] ? contiguous_like(*weight) : Tensor()};
}

// Reduces the rows of each segment of `x`.
Tensor segment_reduce(const Tensor& x, c10::string_view, const Optional&, const Optional&, const Optional& offsets,
                      int64_t, bool, const std::optional<at::Scalar>&) {
  const auto rows = x.expect_contiguous();
  std::vector<int64_t> shape = x.sizes().vec();
  shape[0] = offsets->size(0) - 1;
  return at::empty(shape, x.options());
}

Tensor segment_reduce_backward(const Tensor&, const Tensor&, const Tensor& x, c10::string_view, const Optional&,
                               const Optional&, int64_t, const std::optional<at::Scalar>&) {
  return contiguous_like(x);
}

}  // namespace

void add_meta_kernels() {
  static auto* library = new torch::Library(MAKE_TORCH_LIBRARY_IMPL(aten, Meta));  // for as long as the process runs
  library->impl("abs", abs);
  library->impl("isnan", isnan);
  library->impl("relu", relu);
  library->impl("__rshift__.Scalar", shifted_right);
  library->impl("logical_not", logical_not);
  library->impl("logical_and", logical_and);
  library->impl("logical_or_", logical_or_);
  library->impl("_fused_adamw_.tensor_lr", fused_adamw);
  library->impl("where.self", where);
  library->impl("where.self_out", where_out);
  library->impl("flip", flip);
  library->impl("index_select", index_select);
  library->impl("searchsorted.Tensor", searchsorted);
  library->impl("bucketize.Tensor", bucketize);
  library->impl("repeat_interleave.Tensor", repeat_interleave);
  library->impl("arange", arange_to);
  library->impl("arange.start", arange_from);
  library->impl("arange.start_step", arange);
  library->impl("embedding_dense_backward", embedding_backward);
  library->impl("native_layer_norm", layer_norm);
  library->impl("native_layer_norm_backward", layer_norm_backward);
  library->impl("_fused_rms_norm", rms_norm);
  library->impl("_fused_rms_norm_backward", rms_norm_backward);
  add_meta_attention(*library);
  add_meta_sum(*library);
  library->impl("segment_reduce", segment_reduce);
  library->impl("_segment_reduce_backward", segment_reduce_backward);
}

}  // namespace strata::kernels

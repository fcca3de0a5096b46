// SPDX-License-Identifier: MIT
#include "tests/kernels/mutants/honest_kernels.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/_softmax.h>
#include <ATen/ops/add.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/embedding_dense_backward.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/mean.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/repeat_interleave.h>
#include <ATen/ops/segment_reduce.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <torch/library.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <utility>

namespace strata::kernels {
namespace {

using at::Tensor;

// A key above autograd, so that autograd differentiates what these kernels compute. Its calls within them skip it.
constexpr c10::DispatchKey kKey = c10::DispatchKey::TESTING_ONLY_GenericMode;
using Below = c10::impl::ExcludeDispatchKeyGuard;

constexpr int64_t kChunk = 64, kParts = 4;

struct {
  HonestKernel kernel;
  std::optional<at::ScalarType> operands;
  int64_t count = 0;
} now;

bool reorders(const Tensor& x) { return now.kernel.sums != Sums::as_defined && x.scalar_type() == at::kFloat; }

// Returns the sum of part(first, count) over the parts of `size` numbers.
Tensor sum_of_parts(int64_t size, const std::function<Tensor(int64_t first, int64_t count)>& part) {
  const int64_t step = now.kernel.sums == Sums::in_chunks ? kChunk : std::max<int64_t>((size + kParts - 1) / kParts, 1);
  if (step < size) ++now.count;
  Tensor sum = part(0, std::min(step, size));
  for (int64_t first = step; first < size; first += step) {
    sum = at::add(sum, part(first, std::min(step, size - first)));
  }
  return sum;
}

// The value is rounded, and the gradient is not.
Tensor operand(const Tensor& x) {
  if (!now.operands || x.scalar_type() != at::kFloat) return x;
  ++now.count;
  const Tensor wide = x.detach();
  return x + (wide.to(*now.operands).to(at::kFloat) - wide);
}

template <class Product>
Tensor product(const Tensor& a, const Tensor& b, const Product& multiply) {
  const int64_t columns = a.dim() - 1, rows = columns - 1, depth = a.size(columns);
  const Tensor left = operand(a), right = operand(b);
  if (!reorders(a) || depth == 0) return multiply(left, right);
  if (now.kernel.sums == Sums::reversed) {
    ++now.count;
    return multiply(left.flip({columns}), right.flip({rows}));
  }
  return sum_of_parts(depth, [&](int64_t first, int64_t count) {
    return multiply(left.narrow(columns, first, count), right.narrow(rows, first, count));
  });
}

Tensor mm(const Tensor& a, const Tensor& b) {
  const Below below(kKey);
  return product(a, b, [](const Tensor& left, const Tensor& right) { return at::mm(left, right); });
}

Tensor bmm(const Tensor& a, const Tensor& b) {
  const Below below(kKey);
  return product(a, b, [](const Tensor& left, const Tensor& right) { return at::bmm(left, right); });
}

Tensor addmm(const Tensor& bias, const Tensor& a, const Tensor& b, const at::Scalar& beta, const at::Scalar& alpha) {
  const Below below(kKey);
  if (a.scalar_type() != at::kFloat) return at::addmm(bias, a, b, beta, alpha);
  const Tensor y = product(a, b, [](const Tensor& left, const Tensor& right) { return at::mm(left, right); });
  return y * alpha + bias * beta;
}

Tensor sum_over(const Tensor& x, at::IntArrayRef dims, bool keeps) {
  if (!reorders(x) || x.numel() == 0 || dims.empty()) return at::sum(x, dims, keeps);
  if (now.kernel.sums == Sums::reversed) {
    ++now.count;
    return at::sum(x.flip(dims), dims, keeps);
  }
  return sum_of_parts(x.size(dims[0]), [&](int64_t first, int64_t count) {
    return at::sum(x.narrow(dims[0], first, count), dims, keeps);
  });
}

std::vector<int64_t> all_dims(const Tensor& x) {
  std::vector<int64_t> dims;
  for (int64_t i = 0; i < x.dim(); ++i) dims.push_back(i);
  return dims;
}

Tensor sum_of_all(const Tensor& x, std::optional<at::ScalarType> dtype) {
  const Below below(kKey);
  return dtype || x.dim() == 0 ? at::sum(x, dtype) : sum_over(x.flatten(), {0}, /*keeps=*/false);
}

Tensor sum_of_dims(const Tensor& x, at::OptionalIntArrayRef dims, bool keeps, std::optional<at::ScalarType> dtype) {
  const Below below(kKey);
  if (dtype || x.dim() == 0) return at::sum(x, dims, keeps, dtype);
  return sum_over(x, dims && !dims->empty() ? dims->vec() : all_dims(x), keeps);
}

Tensor mean_of_dims(const Tensor& x, at::OptionalIntArrayRef dims, bool keeps, std::optional<at::ScalarType> dtype) {
  const Below below(kKey);
  if (dtype || x.dim() == 0 || !reorders(x)) return at::mean(x, dims, keeps, dtype);
  const Tensor sum = sum_over(x, dims && !dims->empty() ? dims->vec() : all_dims(x), keeps);
  return sum / (static_cast<double>(x.numel()) / static_cast<double>(std::max<int64_t>(sum.numel(), 1)));
}

// Chunks without a visible key have -infinity as their largest score.
Tensor softmax(const Tensor& x, int64_t dim, bool half_to_float) {
  const Below below(kKey);
  if (!now.kernel.streams_softmax || x.scalar_type() != at::kFloat || x.numel() == 0) {
    return at::_softmax(x, dim, half_to_float);
  }
  ++now.count;
  const double kLowest = -std::numeric_limits<double>::infinity();
  Tensor largest = at::full_like(x.detach().select(dim, 0).unsqueeze(dim), kLowest), total = at::zeros_like(largest);
  for (int64_t first = 0; first < x.size(dim); first += kChunk) {
    const Tensor scores = x.narrow(dim, first, std::min(kChunk, x.size(dim) - first));
    const Tensor next = at::maximum(largest, scores.detach().amax({dim}, /*keepdim=*/true));
    const Tensor safe = at::where(next == kLowest, at::zeros_like(next), next);
    total = total * at::exp(largest - safe) + at::sum(at::exp(scores - safe), {dim}, /*keepdim=*/true);
    largest = next;
  }
  return at::exp(x - largest) / total;
}

Tensor segment_reduce(const Tensor& data, c10::string_view reduce, const std::optional<Tensor>& lengths,
                      const std::optional<Tensor>& indices, const std::optional<Tensor>& offsets, int64_t axis,
                      bool unsafe, const std::optional<at::Scalar>& initial) {
  const Below below(kKey);
  if (!reorders(data) || reduce != "sum" || !offsets || now.kernel.sums != Sums::reversed) {
    return at::segment_reduce(data, reduce, lengths, indices, offsets, axis, unsafe, initial);
  }
  ++now.count;
  const Tensor rows = at::repeat_interleave(offsets->diff().to(at::kLong));
  std::vector<int64_t> sizes = data.sizes().vec();
  sizes[0] = offsets->numel() - 1;
  return at::zeros(sizes, data.options()).index_add(0, rows.flip(0), data.flip(0));
}

Tensor embedding_dense_backward(const Tensor& gradient, const Tensor& indices, c10::SymInt rows, c10::SymInt padding,
                                bool scales) {
  const Below below(kKey);
  if (!reorders(gradient) || now.kernel.sums != Sums::reversed) {
    return at::embedding_dense_backward_symint(gradient, indices, rows, padding, scales);
  }
  ++now.count;
  return at::embedding_dense_backward_symint(gradient.flatten(0, indices.dim() - 1).flip(0), indices.flatten().flip(0),
                                             rows, padding, scales);
}

// Functions of the streamed definitions.
constexpr std::string_view kStreamed = R"(
def streamed_output(scores: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    largest = torch.full_like(scores.detach().narrow(3, 0, 1), -float("inf"))
    total = torch.zeros_like(largest)
    y = torch.zeros_like(value.narrow(2, 0, 1)) * total
    for first in range(0, scores.size(3), 64):
        count = min(64, scores.size(3) - first)
        part = scores.narrow(3, first, count)
        largest_now = torch.maximum(largest, part.detach().amax(3, keepdim=True))
        safe = torch.where(largest_now == -float("inf"), torch.zeros_like(largest_now), largest_now)
        factor = torch.exp(largest - safe)
        numbers = torch.exp(part - safe)
        total = total * factor + numbers.sum(3, keepdim=True)
        y = y * factor + torch.matmul(numbers, value.narrow(2, first, count))
        largest = largest_now
    return y / total


def streamed_sum(shifted: torch.Tensor) -> torch.Tensor:
    largest = torch.full_like(shifted.detach().narrow(1, 0, 1), -float("inf"))
    total = torch.zeros_like(largest)
    for first in range(0, shifted.size(1), 64):
        part = shifted.narrow(1, first, min(64, shifted.size(1) - first))
        largest_now = torch.maximum(largest, part.detach().amax(1, keepdim=True))
        total = total * torch.exp(largest - largest_now) + torch.exp(part - largest_now).sum(1, keepdim=True)
        largest = largest_now
    return total * torch.exp(largest)
)";

}  // namespace

// Operations that no kernel changes go to the keys below.
TORCH_LIBRARY_IMPL(_, TESTING_ONLY_GenericMode, library) { library.fallback(torch::CppFunction::makeFallthrough()); }

TORCH_LIBRARY_IMPL(aten, TESTING_ONLY_GenericMode, library) {
  library.impl("mm", mm);
  library.impl("bmm", bmm);
  library.impl("addmm", addmm);
  library.impl("sum", sum_of_all);
  library.impl("sum.dim_IntList", sum_of_dims);
  library.impl("mean.dim", mean_of_dims);
  library.impl("_softmax", softmax);
  library.impl("segment_reduce", segment_reduce);
  library.impl("embedding_dense_backward", embedding_dense_backward);
}

std::vector<HonestKernel> honest_kernels(at::ScalarType dtype) {
  std::vector<HonestKernel> kernels = {{"sums in chunks of 64", Sums::in_chunks},
                                       {"reversed sums", Sums::reversed},
                                       {"split sums", Sums::split},
                                       {"softmax over 64 keys at a time", Sums::as_defined, /*streams_softmax=*/true}};
  if (dtype == at::kFloat) return kernels;
  kernels.push_back({"operands of products in 16 bits", Sums::as_defined, false, /*rounds_operands=*/true});
  kernels.push_back({"operands in 16 bits, chunks of 64 keys and numbers", Sums::in_chunks, true, true});
  return kernels;
}

Computing::Computing(const HonestKernel& kernel, at::ScalarType dtype) : included_(kKey) {
  now = {kernel, {}, 0};
  if (kernel.rounds_operands) now.operands = dtype;
}

Computing::~Computing() { now = {}; }

int64_t Computing::count() const { return now.count; }

std::string streamed(const std::string& definition) {
  std::string text = definition;
  bool found = false;
  for (const auto& [as_defined, other] :
       {std::pair<std::string_view, std::string_view>{"torch.matmul(torch.softmax(scores, dim=-1), value)",
                                                      "streamed_output(scores, value)"},
        {"torch.exp(shifted).sum(1, keepdim=True))", "streamed_sum(shifted))"}}) {
    const size_t at = text.find(as_defined);
    if (at == std::string::npos) continue;
    text.replace(at, as_defined.size(), other);
    found = true;
  }
  return found ? text + std::string(kStreamed) : definition;
}

}  // namespace strata::kernels

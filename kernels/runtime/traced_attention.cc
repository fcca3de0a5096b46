// SPDX-License-Identifier: MIT
// B batch, H query heads, K key and value heads, T positions, D head width. Tensors are views [B, H, T, D].
#include "kernels/runtime/traced_attention.h"

#include <ATen/OpMathType.h>
#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <array>
#include <optional>
#include <tuple>

#include "kernels/runtime/traced.h"

namespace strata::kernels {
namespace {

using Optional = std::optional<Tensor>;

int64_t round_up(int64_t number, int64_t multiple) { return (number + multiple - 1) / multiple * multiple; }

// Results lie in memory as [B, T, H, D].
Tensor by_position(const Tensor& x) {
  return at::empty({x.size(0), x.size(2), x.size(1), x.size(3)}, x.options()).transpose(1, 2);
}

// The kernel for CPUs works on blocks of queries and keys, with memory for each thread. The sizes of its blocks, in
// forward and backward, are those in aten/src/ATen/native/cpu/FlashAttentionKernel.cpp of PyTorch 2.11. Not counted:
// the scratch memory of oneDNN for products in 16 bits.
struct CpuBlocks {
  explicit CpuBlocks(const Tensor& query, const Tensor& key)
      : queries(std::min<int64_t>(query.size(2) >= 768   ? 256
                                  : query.size(2) >= 192 ? 64
                                                         : 32,
                                  query.size(2))),
        keys(std::min<int64_t>(512, key.size(2))),
        wide(query.scalar_type() == at::kDouble ? 8 : 4),
        narrow(query.element_size() == 2 ? 2 : 0) {}
  int64_t queries, keys;
  int64_t wide, narrow;  // bytes of a sum, and of its copy in 16 bits
};

std::tuple<Tensor, Tensor> cpu_forward(const Tensor& query, const Tensor& key, const Tensor&, double, bool,
                                       const Optional&, std::optional<double>) {
  const Tensor y = by_position(query);
  const auto wide = query.options().dtype(at::toOpMathType(query.scalar_type()));
  const Tensor logsumexp = at::empty({query.size(0), query.size(2), query.size(1)}, wide).transpose(1, 2);
  const CpuBlocks b(query, key);
  traced_workspace(at::get_num_threads() * b.queries * (b.wide * (b.keys + 2 + query.size(3)) + b.narrow * b.keys));
  return {y, logsumexp};
}

std::tuple<Tensor, Tensor, Tensor> cpu_backward(const Tensor& grad_y, const Tensor& query, const Tensor& key,
                                                const Tensor& value, const Tensor&, const Tensor&, double, bool,
                                                const Optional&, std::optional<double>) {
  const Tensor grad_query = by_position(query), grad_key = by_position(key), grad_value = by_position(value);
  const Tensor rows = grad_y.transpose(1, 2).contiguous();
  const CpuBlocks b(query, key);
  traced_workspace(at::get_num_threads() * b.queries * (b.wide * (2 * b.keys + 1) + b.narrow * 2 * b.keys));
  return {grad_query, grad_key, grad_value};
}

// cuDNN's attention, for 16 bits. The last tensors are two numbers of a dropout that is not used, and no debug mask.
std::tuple<Tensor, Tensor, Tensor, Tensor, c10::SymInt, c10::SymInt, Tensor, Tensor, Tensor> cudnn_forward(
    const Tensor& query, const Tensor& key, const Tensor&, const Optional&, bool, double, bool, bool,
    std::optional<double>) {
  const Tensor y = by_position(query);
  const Tensor logsumexp =
      at::empty({query.size(0), query.size(1), query.size(2), 1}, query.options().dtype(at::kFloat));
  const Tensor seed = at::empty({}, query.options().dtype(at::kLong)), offset = at::empty({}, seed.options());
  return {y, logsumexp, {}, {}, query.size(2), key.size(2), seed, offset, {}};
}

// For each query, the workspace holds one number and the gradient of the query, in fp32. If query heads share keys and
// values, it also holds a gradient of the key and of the value for each query head.
std::tuple<Tensor, Tensor, Tensor> cudnn_backward(const Tensor& grad_y, const Tensor& query, const Tensor& key,
                                                  const Tensor& value, const Tensor&, const Tensor&, const Tensor&,
                                                  const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                                                  c10::SymInt, c10::SymInt, double, bool, std::optional<double>) {
  const Tensor grad_query = by_position(query), grad_key = by_position(key), grad_value = by_position(value);
  const int64_t rows = query.size(0) * query.size(1) * query.size(2);
  const bool shared = key.size(1) < query.size(1);
  traced_workspace(rows * 4 + rows * query.size(3) * 4 + (shared ? 2 * static_cast<int64_t>(grad_y.nbytes()) : 0));
  return {grad_query, grad_key, grad_value};
}

// The memory-efficient attention, for fp32 and for masks. It fills positions up to whole blocks of 32. The two numbers
// of a dropout that is not used are on the CPU.
std::tuple<Tensor, Tensor, Tensor, Tensor> efficient_forward(const Tensor& query, const Tensor&, const Tensor&,
                                                             const Optional&, bool with_logsumexp, double, bool,
                                                             std::optional<double>) {
  const Tensor y = by_position(query);
  const int64_t positions = with_logsumexp ? round_up(query.size(2), 32) : 0;
  const Tensor logsumexp = at::empty({query.size(0), query.size(1), positions}, query.options().dtype(at::kFloat));
  return {y, logsumexp, at::empty({}, at::kLong), at::empty({}, at::kLong)};
}

// Each query takes one number in fp32. The workspace holds a gradient of each head in fp32, padded to tiles of 64 x 64,
// with locks.
std::tuple<Tensor, Tensor, Tensor, Tensor> efficient_backward(const Tensor& grad_y, const Tensor& query,
                                                              const Tensor& key, const Tensor& value, const Tensor&,
                                                              const Tensor&, const Tensor&, const Tensor&,
                                                              const Tensor&, double, std::array<bool, 4>, bool,
                                                              std::optional<double>) {
  if (!grad_y.defined()) return {};
  const int64_t heads = query.size(0) * query.size(1), positions = query.size(2);
  const Tensor grad_query = by_position(query), grad_key = by_position(key), grad_value = by_position(value);
  const Tensor numbers = at::empty({heads * positions}, query.options().dtype(at::kFloat));
  traced_workspace(heads * round_up(positions, 64) / 64 * (64 * round_up(query.size(3), 64) * 4 + 16));
  return {grad_query, grad_key, grad_value, {}};
}

}  // namespace

void add_meta_attention(torch::Library& aten) {
  aten.impl("_scaled_dot_product_flash_attention_for_cpu", cpu_forward);
  aten.impl("_scaled_dot_product_flash_attention_for_cpu_backward", cpu_backward);
  aten.impl("_scaled_dot_product_cudnn_attention", cudnn_forward);
  aten.impl("_scaled_dot_product_cudnn_attention_backward", cudnn_backward);
  aten.impl("_scaled_dot_product_efficient_attention", efficient_forward);
  aten.impl("_scaled_dot_product_efficient_attention_backward", efficient_backward);
}

}  // namespace strata::kernels

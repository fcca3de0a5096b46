// SPDX-License-Identifier: MIT
#include "kernels/attention/cached/fused_cached_attention.h"

#include <ATen/ops/empty.h>

#include <cmath>

#include "kernels/attention/cached/cached_attention_cuda.h"
#include "kernels/cuda/is_on_hopper.h"
#include "kernels/cuda/launch.h"

namespace strata::kernels {
namespace {

constexpr int64_t kMostLoopElements = 1 << 19;  // most elements of a cache for the loops: 2 MiB in fp32

bool has_cuda_kernel(const Tensor& cache) {
  const int64_t head_width = cache.size(4);
  return cache.scalar_type() != at::kDouble && head_width <= kWidestCachedHead &&
         head_width * cache.element_size() % 16 == 0 && is_on_hopper(cache);
}

template <class T>
const T* data_of(const Tensor& tensor) {
  return tensor.defined() ? tensor.const_data_ptr<T>() : nullptr;
}

}  // namespace

bool has_fused_cached_attention(const Tensor& cache) {
  if (cache.is_cuda()) return has_cuda_kernel(cache);
  return cache.is_cpu() && cache.scalar_type() == at::kFloat && cache.numel() <= kMostLoopElements;
}

Tensor fused_cached_attention(const Tensor& qkv, const TokenAngles& angles, const Tensor& cache,
                              const SlotsOfStep& step, const AttentionTerms& terms) {
  const int64_t batch = cache.size(1), key_value_heads = cache.size(2), head_width = cache.size(4);
  const int64_t heads = qkv.size(2) / head_width - 2 * key_value_heads;
  const Tensor input = qkv.contiguous(), y = at::empty({batch, 1, heads * head_width}, qkv.options());
  const Tensor sinks = terms.sinks.defined() ? terms.sinks.contiguous() : Tensor();
  const CachedAttention arguments = {.y = y.mutable_data_ptr(),
                                     .cache = cache.mutable_data_ptr(),
                                     .qkv = input.const_data_ptr(),
                                     .sinks = sinks.defined() ? sinks.const_data_ptr() : nullptr,
                                     .positions = step.positions.const_data_ptr<int64_t>(),
                                     .cosine = data_of<float>(angles.cosine),
                                     .sine = data_of<float>(angles.sine),
                                     .bias = data_of<float>(step.bias),
                                     .bias_heads = step.bias.defined() ? step.bias.size(1) : 0,
                                     .batch = batch,
                                     .slots = cache.size(3),
                                     .values_offset = cache.stride(0),
                                     .heads = static_cast<int>(heads),
                                     .key_value_heads = static_cast<int>(key_value_heads),
                                     .head_width = static_cast<int>(head_width),
                                     .scale = static_cast<float>(1 / std::sqrt(static_cast<double>(head_width))),
                                     .softcap = static_cast<float>(terms.softcap)};
  if (cache.is_cuda()) {
    const CudaType type = cuda_type(AttentionOp::kName, "cache", cache);
    launch("cached_attention_cuda", cache, batch, heads * head_width,
           [&](cudaStream_t stream) { return launch_cached_attention(type, arguments, stream); });
  } else {
    attend_by_loops(arguments);
  }
  return y;
}

}  // namespace strata::kernels

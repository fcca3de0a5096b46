// SPDX-License-Identifier: MIT
// adamw: one pass over master, moments and gradient, which also writes the compute copy.
#include <algorithm>
#include <cmath>

#include "kernels/adamw/adamw_cuda.h"
#include "kernels/cuda/device_utils.cuh"

namespace strata::kernels {
namespace {

constexpr int kThreads = 256;

// Constants of one call, computed in fp64 on the host.
struct Rule {
  float beta1, one_minus_beta1, beta2, one_minus_beta2, log_beta1, log_beta2, epsilon, weight_decay;
};

// Values of this update, computed from the scalars on the device.
struct Update {
  float scale, decay, rate, inverse_root;
  bool skip;
};

// Computes 1 - beta^step as -expm1(step * log(beta)), which is accurate in fp32 even if beta^step is near 1.
__device__ Update read_update(const AdamwArguments& a, const Rule& rule) {
  const float rate = *a.learning_rate, step = *a.step;
  return {*a.gradient_scale, 1.0f - rate * rule.weight_decay, rate / -expm1f(step * rule.log_beta1),
          1.0f / sqrtf(-expm1f(step * rule.log_beta2)), *a.skip != 0.0f};
}

__device__ void update_one(float& master, float& first, float& second, float gradient, const Update& update,
                           const Rule& rule) {
  const float g = gradient * update.scale;
  first = rule.beta1 * first + rule.one_minus_beta1 * g;
  second = rule.beta2 * second + rule.one_minus_beta2 * g * g;
  master = master * update.decay - update.rate * first / (sqrtf(second) * update.inverse_root + rule.epsilon);
}

// G and C are the types of gradient and compute copy. N is the number of elements in a vector: 4, or 1 if a pointer is
// not aligned.
template <class G, class C, int N>
__global__ void __launch_bounds__(kThreads) adamw_kernel(const AdamwArguments a, const Rule rule) {
  const Update update = read_update(a, rule);
  const int64_t vectors = a.count / N, step = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < vectors; i += step) {
    auto master = load_streaming(reinterpret_cast<const Vector<float, N>*>(a.master) + i);
    auto first = load_streaming(reinterpret_cast<const Vector<float, N>*>(a.first_moment) + i);
    auto second = load_streaming(reinterpret_cast<const Vector<float, N>*>(a.second_moment) + i);
    const auto gradient = load_streaming(reinterpret_cast<const Vector<G, N>*>(a.gradient) + i);
    if (!update.skip) {
#pragma unroll
      for (int k = 0; k < N; ++k) {
        update_one(master.elements[k], first.elements[k], second.elements[k], to_float(gradient.elements[k]), update,
                   rule);
      }
      store_streaming(reinterpret_cast<Vector<float, N>*>(a.master) + i, master);
      store_streaming(reinterpret_cast<Vector<float, N>*>(a.first_moment) + i, first);
      store_streaming(reinterpret_cast<Vector<float, N>*>(a.second_moment) + i, second);
    }
    if (a.compute_copy != nullptr) {
      Vector<C, N> copy;
#pragma unroll
      for (int k = 0; k < N; ++k) copy.elements[k] = from_float<C>(master.elements[k]);
      store_streaming(reinterpret_cast<Vector<C, N>*>(a.compute_copy) + i, copy);
    }
  }
  if constexpr (N > 1) {  // elements after the last whole vector
    const int64_t i = vectors * N + threadIdx.x;
    if (blockIdx.x == 0 && i < a.count) {
      float master = a.master[i], first = a.first_moment[i], second = a.second_moment[i];
      if (!update.skip) {
        update_one(master, first, second, to_float(static_cast<const G*>(a.gradient)[i]), update, rule);
        a.master[i] = master;
        a.first_moment[i] = first;
        a.second_moment[i] = second;
      }
      if (a.compute_copy != nullptr) static_cast<C*>(a.compute_copy)[i] = from_float<C>(master);
    }
  }
}

template <class G, class C, int N>
cudaError_t launch(const AdamwArguments& a, const Rule& rule, cudaStream_t stream) {
  const int64_t blocks = ceil_divide<int64_t>(ceil_divide<int64_t>(a.count, N), kThreads);
  adamw_kernel<G, C, N><<<static_cast<unsigned>(std::min(blocks, int64_t{1} << 30)), kThreads, 0, stream>>>(a, rule);
  return cudaGetLastError();
}

}  // namespace

cudaError_t launch_adamw(const AdamwArguments& a, cudaStream_t stream) {
  if (a.count == 0) return cudaSuccess;
  const Rule rule = {static_cast<float>(a.beta1),           static_cast<float>(1.0 - a.beta1),
                     static_cast<float>(a.beta2),           static_cast<float>(1.0 - a.beta2),
                     static_cast<float>(std::log(a.beta1)), static_cast<float>(std::log(a.beta2)),
                     static_cast<float>(a.epsilon),         static_cast<float>(a.weight_decay)};
  const bool whole = are_aligned(a.master, a.first_moment, a.second_moment, a.gradient, a.compute_copy);
  return visit_type(a.gradient_type, [&]<class G>(G) {
    return visit_type(a.copy_type, [&]<class C>(C) {
      return whole ? launch<G, C, 4>(a, rule, stream) : launch<G, C, 1>(a, rule, stream);
    });
  });
}

}  // namespace strata::kernels

// SPDX-License-Identifier: MIT
// The forward of the norms: one read of x, in registers from then on.
#pragma once

#include "kernels/norm_rows.cuh"

namespace strata::kernels {

template <class Norm, class T>
__device__ float normed(float normalized, float weight, float bias) {
  const float affine = fmaf(normalized, weight, bias);
  if constexpr (Norm::kActivation == Activation::none) {
    return affine;
  } else {
    return activate<Norm::kActivation, T>(affine);
  }
}

template <bool kAdd>
__device__ auto ring_of(RingBarriers<kMaxStages>& barriers, uint4* memory, const RowPlan& plan, const RowRange& range,
                        int vectors_in_row, const NormForward& a) {
  if constexpr (kAdd) {
    return RowRing<2>(barriers, memory, plan, range, vectors_in_row, {a.x, a.branch});
  } else {
    return RowRing<1>(barriers, memory, plan, range, vectors_in_row, {a.x});
  }
}

template <class Norm, class T, int kVectors, bool kAdd>
__global__ void __launch_bounds__(kRowThreads) norm_forward_kernel(const NormForward a, const RowPlan plan) {
  extern __shared__ uint4 shared[];  // weight, bias, the ring
  __shared__ RingBarriers<kMaxStages> barriers;
  using Part = RowPart<T, kVectors>;
  constexpr int N = Part::kWidth;
  const int vectors_in_row = static_cast<int>(a.width / N);
  const bool has_bias = Norm::kCentered && a.bias != nullptr;
  uint4 *weights = shared, *biases = shared + vectors_in_row;
  for (int i = threadIdx.x; i < vectors_in_row; i += blockDim.x) {
    weights[i] = static_cast<const uint4*>(a.weight)[i];
    if constexpr (Norm::kCentered) biases[i] = has_bias ? static_cast<const uint4*>(a.bias)[i] : uint4{};
  }
  const RowRange range = rows_of_block(a.rows);
  RowTeam team(plan.team_warps);
  auto ring =
      ring_of<kAdd>(barriers, shared + (Norm::kCentered ? 2 : 1) * vectors_in_row, plan, range, vectors_in_row, a);
  const float inverse_width = 1.0f / static_cast<float>(a.width);
  for (int64_t row = range.begin + team.index(); row - team.index() < range.end; row += plan.teams) {
    Part x, branch;
    const uint4* source = ring.wait(team);
    if (row < range.end) {
      x.load(team, source, vectors_in_row);
      if constexpr (kAdd) branch.load(team, source + ring.tensor_vectors(), vectors_in_row);
    }
    ring.release();
    if (row >= range.end) return;  // the last stage
    if constexpr (kAdd) {
      x.fill([&](int v, int k) { return x.at(v, k) + branch.at(v, k); });
      x.store(team, a.sum, row, vectors_in_row);
    }
    float sum = 0.0f, mean = 0.0f;
    if constexpr (Norm::kCentered) {
#pragma unroll
      for (int v = 0; v < kVectors; ++v) {
#pragma unroll
        for (int k = 0; k < N; ++k) sum += x.at(v, k);
      }
      mean = team.sum(sum) * inverse_width;
      sum = 0.0f;
    }
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      const bool inside = !Norm::kCentered || team.lane() + v * team.size() < vectors_in_row;
#pragma unroll
      for (int k = 0; k < N; ++k) {
        const float centered = x.at(v, k) - mean;
        if (inside) sum = fmaf(centered, centered, sum);
      }
    }
    const float rstd = rsqrtf(team.sum(sum) * inverse_width + a.eps);
    if (team.lane() == 0) {
      if constexpr (Norm::kCentered) a.mean[row] = mean;
      a.rstd[row] = rstd;
    }
    x.stay_packed();
    Part weight, bias = {};
    weight.load(team, weights, vectors_in_row);
    if constexpr (Norm::kCentered) bias.load(team, biases, vectors_in_row);
    x.fill([&](int v, int k) { return normed<Norm, T>((x.at(v, k) - mean) * rstd, weight.at(v, k), bias.at(v, k)); });
    x.store(team, a.y, row, vectors_in_row);
  }
}

// Any width and any alignment: a block reads the row again for each pass.
template <class Norm, class T, bool kAdd>
__global__ void norm_forward_any_kernel(const NormForward a) {
  RowTeam team(kRowWarps);
  const float inverse_width = 1.0f / static_cast<float>(a.width);
  const T *weight = static_cast<const T*>(a.weight), *bias = static_cast<const T*>(a.bias);
  for (int64_t row = blockIdx.x; row < a.rows; row += gridDim.x) {
    const T* x = static_cast<const T*>(a.x) + row * a.width;
    T* y = static_cast<T*>(a.y) + row * a.width;
    if constexpr (kAdd) {
      const T* branch = static_cast<const T*>(a.branch) + row * a.width;
      T* total = static_cast<T*>(a.sum) + row * a.width;
      for (int64_t i = team.lane(); i < a.width; i += team.size()) {
        total[i] = from_float<T>(to_float(x[i]) + to_float(branch[i]));
      }
      x = total;  // a thread reads only what it wrote itself
    }
    float sum = 0.0f, mean = 0.0f;
    if constexpr (Norm::kCentered) {
      for (int64_t i = team.lane(); i < a.width; i += team.size()) sum += to_float(x[i]);
      mean = team.sum(sum) * inverse_width;
      sum = 0.0f;
    }
    for (int64_t i = team.lane(); i < a.width; i += team.size()) {
      const float centered = to_float(x[i]) - mean;
      sum = fmaf(centered, centered, sum);
    }
    const float rstd = rsqrtf(team.sum(sum) * inverse_width + a.eps);
    if (team.lane() == 0) {
      if constexpr (Norm::kCentered) a.mean[row] = mean;
      a.rstd[row] = rstd;
    }
    for (int64_t i = team.lane(); i < a.width; i += team.size()) {
      const float shift = bias == nullptr ? 0.0f : to_float(bias[i]);
      y[i] = from_float<T>(normed<Norm, T>((to_float(x[i]) - mean) * rstd, to_float(weight[i]), shift));
    }
  }
}

inline constexpr int64_t kMaxForwardBlocks = int64_t{1} << 30;

template <class Norm>
cudaError_t launch_norm_forward(const NormForward& a, cudaStream_t stream) {
  if (a.rows == 0) return cudaSuccess;
  const bool aligned = are_aligned(a.y, a.sum, a.x, a.branch, a.weight, a.bias), adds = a.branch != nullptr;
  const RowPlan plan = plan_rows(a.type, a.width, aligned, /*warp_vectors=*/8, /*team_vectors=*/4, /*max_vectors=*/8,
                                 /*tensors=*/adds ? 2 : 1, /*rows_beside=*/Norm::kCentered ? 2 : 1);
  return visit_type(a.type, [&]<class T>(T) {
    if (plan.vectors_per_thread == 0) {
      const auto blocks = static_cast<unsigned>(std::min(a.rows, kMaxForwardBlocks));
      auto* kernel = adds ? norm_forward_any_kernel<Norm, T, true> : norm_forward_any_kernel<Norm, T, false>;
      kernel<<<blocks, kRowWarps * kWarp, 0, stream>>>(a);
      return cudaGetLastError();
    }
    return visit_plan<8>(plan, [&]<int kVectors>() {
      auto* kernel =
          adds ? norm_forward_kernel<Norm, T, kVectors, true> : norm_forward_kernel<Norm, T, kVectors, false>;
      return launch_with_ring(kernel, a, plan, a.rows, stream);
    });
  });
}

}  // namespace strata::kernels

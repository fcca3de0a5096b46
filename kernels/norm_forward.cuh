// SPDX-License-Identifier: MIT
// The forward of the norms: one read of x, in registers from then on.
#pragma once

#include "kernels/norm_rows.cuh"

namespace strata::kernels {

#ifndef STRATA_FORWARD_PREFETCH
#define STRATA_FORWARD_PREFETCH 0
#endif
#ifndef STRATA_FORWARD_HOIST
#define STRATA_FORWARD_HOIST 0
#endif

template <class Norm, class T>
__device__ float normed(float normalized, float weight, float bias) {
  const float affine = fmaf(normalized, weight, bias);
  if constexpr (Norm::kActivation == Activation::none) {
    return affine;
  } else {
    return activate<Norm::kActivation, T>(affine);
  }
}

template <class Norm, class T, int kVectors, bool kWarpTeam, bool kAdd>
__global__ void __launch_bounds__(kWarpTeam ? 256 : kMaxRowThreads, (kVectors <= 4 ? 2 : 1) * (kWarpTeam ? 2 : 1))
    norm_forward_kernel(const NormForward a) {
  using Part = RowPart<T, kVectors>;
  constexpr int N = Part::kWidth;
  const auto streaming = [](const uint4* pointer) { return __ldcs(pointer); };
  const auto cached = [](const uint4* pointer) { return *pointer; };
  RowTeam<kWarpTeam> team;
  const int vectors_in_row = static_cast<int>(a.width / N);
  const float inverse_width = 1.0f / static_cast<float>(a.width);
#if STRATA_FORWARD_HOIST
  Part weight, bias = {};
  weight.load(team, a.weight, 0, vectors_in_row, cached);
  if (Norm::kCentered && a.bias != nullptr) bias.load(team, a.bias, 0, vectors_in_row, cached);
#endif
#if STRATA_FORWARD_PREFETCH
  Part next, next_branch;
  if (team.first_row() < a.rows) {
    next.load(team, a.x, team.first_row(), vectors_in_row, streaming);
    if constexpr (kAdd) next_branch.load(team, a.branch, team.first_row(), vectors_in_row, streaming);
  }
#endif
  for (int64_t row = team.first_row(); row < a.rows; row += team.row_step()) {
    Part x, branch;
#if STRATA_FORWARD_PREFETCH
    x = next;
    branch = next_branch;
    if (row + team.row_step() < a.rows) {
      next.load(team, a.x, row + team.row_step(), vectors_in_row, streaming);
      if constexpr (kAdd) next_branch.load(team, a.branch, row + team.row_step(), vectors_in_row, streaming);
    }
#else
    x.load(team, a.x, row, vectors_in_row, streaming);
    if constexpr (kAdd) branch.load(team, a.branch, row, vectors_in_row, streaming);
#endif
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
#if !STRATA_FORWARD_HOIST
    Part weight, bias = {};
    weight.load(team, a.weight, 0, vectors_in_row, cached);
    if (Norm::kCentered && a.bias != nullptr) bias.load(team, a.bias, 0, vectors_in_row, cached);
#endif
    x.fill([&](int v, int k) { return normed<Norm, T>((x.at(v, k) - mean) * rstd, weight.at(v, k), bias.at(v, k)); });
    x.store(team, a.y, row, vectors_in_row);
  }
}

// Any width and any alignment: a block reads the row again for each pass.
template <class Norm, class T, bool kAdd>
__global__ void norm_forward_any_kernel(const NormForward a) {
  RowTeam<false> team;
  const float inverse_width = 1.0f / static_cast<float>(a.width);
  const T *weight = static_cast<const T*>(a.weight), *bias = static_cast<const T*>(a.bias);
  for (int64_t row = team.first_row(); row < a.rows; row += team.row_step()) {
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

#ifndef STRATA_MAX_WARP_VECTORS
#define STRATA_MAX_WARP_VECTORS 4
#endif
inline constexpr int kMaxWarpVectors = STRATA_MAX_WARP_VECTORS;
inline constexpr int64_t kMaxForwardBlocks = int64_t{1} << 30;

template <class Norm>
cudaError_t launch_norm_forward(const NormForward& a, cudaStream_t stream) {
  if (a.rows == 0) return cudaSuccess;
  const bool aligned = are_aligned(a.y, a.sum, a.x, a.branch, a.weight, a.bias);
  const RowPlan plan = plan_rows(a.type, a.width, aligned, tune_vectors > 0 ? tune_vectors : 4, kMaxWarpVectors, 8);
  return visit_type(a.type, [&]<class T>(T) {
    const auto launch = [&](auto* kernel) {
      int64_t blocks = std::min(ceil_divide(a.rows, plan.teams()), kMaxForwardBlocks);
      if (tune_blocks > 0) blocks = std::min<int64_t>(blocks, tune_blocks * kMultiprocessors);
      kernel<<<static_cast<unsigned>(blocks), plan.threads, 0, stream>>>(a);
      return cudaGetLastError();
    };
    const bool adds = a.branch != nullptr;
    if (plan.vectors_per_thread == 0) {
      return launch(adds ? norm_forward_any_kernel<Norm, T, true> : norm_forward_any_kernel<Norm, T, false>);
    }
    return visit_plan<8>(plan, [&]<int kVectors, bool kWarpTeam>() {
      return launch(adds ? norm_forward_kernel<Norm, T, kVectors, kWarpTeam, true>
                         : norm_forward_kernel<Norm, T, kVectors, kWarpTeam, false>);
    });
  });
}

}  // namespace strata::kernels

// SPDX-License-Identifier: MIT
// The backward of the norms: one read of x and grad_y; sums over rows stay in registers until a block has no more rows.
//   g = grad_y * weight (grad_y first taken through the activation)
//   grad_x = rstd * (g - mean(g) - normalized * mean(g * normalized)) + grad_sum, without mean(g) where not centered
//   grad_weight = sum over rows of grad_y * normalized, grad_bias = sum over rows of grad_y
#pragma once

#include "kernels/norm_rows.cuh"

namespace strata::kernels {

#ifndef STRATA_BACKWARD_PREFETCH
#define STRATA_BACKWARD_PREFETCH 1
#endif

// grad_y taken through the activation, where there is one.
template <class Norm, class T>
__device__ float grad_affine(float grad_y, float normalized, float weight, float bias) {
  if constexpr (Norm::kActivation == Activation::none) {
    return grad_y;
  } else {
    return grad_y * activate_derivative<Norm::kActivation, T>(fmaf(normalized, weight, bias));
  }
}

// The sums of one team's rows for one weight, in registers.
template <int kVectors, int N>
struct ColumnSums {
  float values[kVectors][N] = {};

  // Adds up the teams of a block in their order, in `shared` [width], and writes the block's sums.
  template <class Team>
  __device__ void write(const Team& team, float* shared, float* partial, int vectors_in_row) const {
    for (int turn = 0; turn < team.count(); ++turn) {
      if (turn == team.index()) {
        float* target = turn + 1 == team.count() ? partial : shared;
#pragma unroll
        for (int v = 0; v < kVectors; ++v) {
          const int i = team.lane() + v * team.size();
          if (i >= vectors_in_row) continue;
          for (int k = 0; k < N; ++k) target[i * N + k] = values[v][k] + (turn == 0 ? 0.0f : shared[i * N + k]);
        }
      }
      __syncthreads();
    }
  }
};

template <class Norm, class T, int kVectors, bool kWarpTeam, bool kAdd>
__global__ void __launch_bounds__(kMaxRowThreads) norm_backward_kernel(const NormBackward a) {
  extern __shared__ float shared[];
  using Part = RowPart<T, kVectors>;
  constexpr int N = Part::kWidth;
  constexpr int kSums = Norm::kCentered ? 2 : 1;
  const auto streaming = [](const uint4* pointer) { return __ldcs(pointer); };
  const auto cached = [](const uint4* pointer) { return *pointer; };
  RowTeam<kWarpTeam> team;
  const int vectors_in_row = static_cast<int>(a.width / N);
  const float inverse_width = 1.0f / static_cast<float>(a.width);
  Part weight, bias = {};
  weight.load(team, a.weight, 0, vectors_in_row, cached);
  if constexpr (Norm::kActivation != Activation::none) {
    if (a.bias != nullptr) bias.load(team, a.bias, 0, vectors_in_row, cached);
  }
  ColumnSums<kVectors, N> weight_sums, bias_sums;
#if STRATA_BACKWARD_PREFETCH
  Part next_x, next_grad, next_sum = {};
  if (team.first_row() < a.rows) {
    next_x.load(team, a.x, team.first_row(), vectors_in_row, streaming);
    next_grad.load(team, a.grad_y, team.first_row(), vectors_in_row, streaming);
    if constexpr (kAdd) next_sum.load(team, a.grad_sum, team.first_row(), vectors_in_row, streaming);
  }
#endif
  for (int64_t row = team.first_row(); row < a.rows; row += team.row_step()) {
    Part x, grad, grad_sum = {};
#if STRATA_BACKWARD_PREFETCH
    x = next_x;
    grad = next_grad;
    grad_sum = next_sum;
    if (row + team.row_step() < a.rows) {
      next_x.load(team, a.x, row + team.row_step(), vectors_in_row, streaming);
      next_grad.load(team, a.grad_y, row + team.row_step(), vectors_in_row, streaming);
      if constexpr (kAdd) next_sum.load(team, a.grad_sum, row + team.row_step(), vectors_in_row, streaming);
    }
#else
    x.load(team, a.x, row, vectors_in_row, streaming);
    grad.load(team, a.grad_y, row, vectors_in_row, streaming);
    if constexpr (kAdd) grad_sum.load(team, a.grad_sum, row, vectors_in_row, streaming);
#endif
    const float mean = Norm::kCentered ? a.mean[row] : 0.0f, rstd = a.rstd[row];
    float sums[kSums] = {};
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
#pragma unroll
      for (int k = 0; k < N; ++k) {
        const float normalized = (x.at(v, k) - mean) * rstd;
        const float gradient = grad_affine<Norm, T>(grad.at(v, k), normalized, weight.at(v, k), bias.at(v, k));
        const float weighted = gradient * weight.at(v, k);  // 0 beyond the row, where weight is
        sums[0] = fmaf(weighted, normalized, sums[0]);
        if constexpr (Norm::kCentered) {
          sums[1] += weighted;
          bias_sums.values[v][k] += gradient;
        }
        weight_sums.values[v][k] = fmaf(gradient, normalized, weight_sums.values[v][k]);
      }
    }
    team.sum(sums);
    const float along = sums[0] * inverse_width, mean_gradient = Norm::kCentered ? sums[kSums - 1] * inverse_width : 0;
    x.stay_packed();
    grad.stay_packed();
    weight.stay_packed();
    grad.fill([&](int v, int k) {
      const float normalized = (x.at(v, k) - mean) * rstd;
      const float gradient = grad_affine<Norm, T>(grad.at(v, k), normalized, weight.at(v, k), bias.at(v, k));
      const float result = rstd * (gradient * weight.at(v, k) - mean_gradient - normalized * along);
      return kAdd ? result + grad_sum.at(v, k) : result;
    });
    grad.store(team, a.grad_x, row, vectors_in_row);
  }
  weight_sums.write(team, shared, a.weight_partials + blockIdx.x * a.width, vectors_in_row);
  if constexpr (Norm::kCentered) {
    bias_sums.write(team, shared, a.bias_partials + blockIdx.x * a.width, vectors_in_row);
  }
}

// Any width and any alignment: a block reads the row twice, and keeps its sums in its row of the workspace, where each
// thread meets its own columns only.
template <class Norm, class T, bool kAdd>
__global__ void norm_backward_any_kernel(const NormBackward a) {
  constexpr int kSums = Norm::kCentered ? 2 : 1;
  RowTeam<false> team;
  const float inverse_width = 1.0f / static_cast<float>(a.width);
  const T *weight = static_cast<const T*>(a.weight), *bias = static_cast<const T*>(a.bias);
  float* weight_sums = a.weight_partials + blockIdx.x * a.width;
  float* bias_sums = a.bias_partials + blockIdx.x * a.width;
  for (int64_t row = team.first_row(); row < a.rows; row += team.row_step()) {
    const bool first = row == team.first_row();
    const T* x = static_cast<const T*>(a.x) + row * a.width;
    const T* grad_y = static_cast<const T*>(a.grad_y) + row * a.width;
    const float mean = Norm::kCentered ? a.mean[row] : 0.0f, rstd = a.rstd[row];
    const auto gradient_at = [&](int64_t i, float normalized) {
      const float shift = bias == nullptr ? 0.0f : to_float(bias[i]);
      return grad_affine<Norm, T>(to_float(grad_y[i]), normalized, to_float(weight[i]), shift);
    };
    float sums[kSums] = {};
    for (int64_t i = team.lane(); i < a.width; i += team.size()) {
      const float normalized = (to_float(x[i]) - mean) * rstd;
      const float gradient = gradient_at(i, normalized), weighted = gradient * to_float(weight[i]);
      sums[0] = fmaf(weighted, normalized, sums[0]);
      if constexpr (Norm::kCentered) {
        sums[1] += weighted;
        bias_sums[i] = (first ? 0.0f : bias_sums[i]) + gradient;
      }
      weight_sums[i] = (first ? 0.0f : weight_sums[i]) + gradient * normalized;
    }
    team.sum(sums);
    const float along = sums[0] * inverse_width, mean_gradient = Norm::kCentered ? sums[kSums - 1] * inverse_width : 0;
    T* grad_x = static_cast<T*>(a.grad_x) + row * a.width;
    for (int64_t i = team.lane(); i < a.width; i += team.size()) {
      const float normalized = (to_float(x[i]) - mean) * rstd;
      float result = rstd * (gradient_at(i, normalized) * to_float(weight[i]) - mean_gradient - normalized * along);
      if constexpr (kAdd) result += to_float(static_cast<const T*>(a.grad_sum)[row * a.width + i]);
      grad_x[i] = from_float<T>(result);
    }
  }
}

// A block sums 32 columns: warp w the partials w, w + 32, ...; then the warps' sums in their order.
template <class T>
__global__ void sum_partials_kernel(T* gradient, bool add, const float* partials, int64_t count, int64_t width) {
  __shared__ float sums[kWarp][kWarp + 1];
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  const int64_t column = static_cast<int64_t>(blockIdx.x) * kWarp + lane;
  float sum = 0.0f;
  if (column < width) {
    for (int64_t i = warp; i < count; i += kWarp) sum += partials[i * width + column];
  }
  sums[lane][warp] = sum;
  __syncthreads();
  sum = warp_sum(sums[warp][lane]);
  const int64_t own = static_cast<int64_t>(blockIdx.x) * kWarp + warp;
  if (lane == 0 && own < width) gradient[own] = from_float<T>((add ? to_float(gradient[own]) : 0.0f) + sum);
}

inline cudaError_t sum_partials(const NormWeightGradient& gradient, const float* partials, int64_t count, int64_t width,
                                cudaStream_t stream) {
  if (gradient.data == nullptr) return cudaSuccess;
  return visit_type(gradient.type, [&]<class T>(T) {
    sum_partials_kernel<T><<<static_cast<unsigned>(ceil_divide<int64_t>(width, kWarp)), kWarp * kWarp, 0, stream>>>(
        static_cast<T*>(gradient.data), gradient.add, partials, count, width);
    return cudaGetLastError();
  });
}

// One block of 512 threads, or as many smaller ones, on each multiprocessor.
inline int64_t backward_blocks(const RowPlan& plan, int64_t rows) {
  const int64_t per_multiprocessor = tune_blocks > 0 ? tune_blocks : std::max(kMaxRowThreads / plan.threads, 1);
  return std::min(ceil_divide(rows, plan.teams()), kMultiprocessors * per_multiprocessor);
}

template <class Norm>
cudaError_t launch_norm_backward(const NormBackward& a, cudaStream_t stream) {
  const bool aligned = are_aligned(a.grad_x, a.grad_y, a.grad_sum, a.x, a.weight, a.bias);
  const RowPlan plan = plan_rows(a.type, a.width, aligned, tune_vectors > 0 ? tune_vectors : 2, 2, 4);
  const int64_t blocks = backward_blocks(plan, a.rows);
  if (a.rows > 0) {
    const cudaError_t status = visit_type(a.type, [&]<class T>(T) {
      const auto launch = [&](auto* kernel) {
        const size_t shared_bytes = plan.teams() > 1 ? a.width * sizeof(float) : 0;
        kernel<<<static_cast<unsigned>(blocks), plan.threads, shared_bytes, stream>>>(a);
        return cudaGetLastError();
      };
      const bool adds = a.grad_sum != nullptr;
      if (plan.vectors_per_thread == 0) {
        return launch(adds ? norm_backward_any_kernel<Norm, T, true> : norm_backward_any_kernel<Norm, T, false>);
      }
      return visit_plan<4>(plan, [&]<int kVectors, bool kWarpTeam>() {
        return launch(adds ? norm_backward_kernel<Norm, T, kVectors, kWarpTeam, true>
                           : norm_backward_kernel<Norm, T, kVectors, kWarpTeam, false>);
      });
    });
    if (status != cudaSuccess) return status;
  }
  const cudaError_t status = sum_partials(a.weight_gradient, a.weight_partials, blocks, a.width, stream);
  if (status != cudaSuccess || !Norm::kCentered) return status;
  return sum_partials(a.bias_gradient, a.bias_partials, blocks, a.width, stream);
}

}  // namespace strata::kernels

// SPDX-License-Identifier: MIT
// The backward of the norms: one read of x and grad_y; sums over rows stay in registers until a block has no more rows.
//   g = grad_y * weight (grad_y first taken through the activation)
//   grad_x = rstd * (g - mean(g) - normalized * mean(g * normalized)) + grad_sum, without mean(g) where not centered
//   grad_weight = sum over rows of grad_y * normalized, grad_bias = sum over rows of grad_y
#pragma once

#include "kernels/norm_rows.cuh"

namespace strata::kernels {

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

  // Lays them down in row `team.index()` of `shared` [teams, width].
  __device__ void store(const RowTeam& team, float* shared, int vectors_in_row) const {
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      const int i = team.lane() + v * team.size();
      if (i >= vectors_in_row) continue;
      float* target = shared + (static_cast<int64_t>(team.index()) * vectors_in_row + i) * N;
#pragma unroll
      for (int k = 0; k < N; ++k) target[k] = values[v][k];
    }
  }
};

// The block's sums: those of its teams in their order. By all threads of the block.
__device__ inline void add_teams(const float* shared, int teams, int64_t width, float* partial) {
  __syncthreads();
  for (int64_t i = threadIdx.x; i < width; i += blockDim.x) {
    float sum = 0.0f;
    for (int team = 0; team < teams; ++team) sum += shared[team * width + i];
    partial[i] = sum;
  }
  __syncthreads();
}

template <bool kAdd>
__device__ auto ring_of(RingBarriers<kMaxStages>& barriers, uint4* memory, const RowPlan& plan, const RowRange& range,
                        int vectors_in_row, const NormBackward& a) {
  if constexpr (kAdd) {
    return RowRing<3>(barriers, memory, plan, range, vectors_in_row, {a.x, a.grad_y, a.grad_sum});
  } else {
    return RowRing<2>(barriers, memory, plan, range, vectors_in_row, {a.x, a.grad_y});
  }
}

template <class Norm, class T, int kVectors, bool kAdd>
__global__ void __launch_bounds__(kRowThreads) norm_backward_kernel(const NormBackward a, const RowPlan plan) {
  extern __shared__ uint4 shared[];  // weight, bias, the ring; in the end the sums of the teams
  __shared__ RingBarriers<kMaxStages> barriers;
  constexpr int N = kVectorWidth<T>, kSums = Norm::kCentered ? 2 : 1;
  constexpr bool kActivated = Norm::kActivation != Activation::none;
  const int vectors_in_row = static_cast<int>(a.width / N);
  const bool has_bias = kActivated && a.bias != nullptr;
  uint4 *weights = shared, *biases = shared + vectors_in_row;
  for (int i = threadIdx.x; i < vectors_in_row; i += blockDim.x) {
    weights[i] = static_cast<const uint4*>(a.weight)[i];
    if constexpr (kActivated) biases[i] = has_bias ? static_cast<const uint4*>(a.bias)[i] : uint4{};
  }
  const RowRange range = rows_of_block(a.rows);
  RowTeam team(plan.team_warps);
  auto ring = ring_of<kAdd>(barriers, shared + (kActivated ? 2 : 1) * vectors_in_row, plan, range, vectors_in_row, a);
  const float inverse_width = 1.0f / static_cast<float>(a.width);
  // One row ahead, like everything else.
  const auto mean_of = [&](int64_t row) { return Norm::kCentered && row < range.end ? a.mean[row] : 0.0f; };
  const auto rstd_of = [&](int64_t row) { return row < range.end ? a.rstd[row] : 0.0f; };
  int64_t row = range.begin + team.index();
  float next_mean = mean_of(row), next_rstd = rstd_of(row);
  ColumnSums<kVectors, N> weight_sums, bias_sums;
  const auto visit_vectors = [&](auto visit) {
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      const int i = team.lane() + v * team.size();
      if (i < vectors_in_row) visit(v, i);
    }
  };
  for (; row - team.index() < range.end; row += plan.teams) {
    const float mean = next_mean, rstd = next_rstd;
    next_mean = mean_of(row + plan.teams);
    next_rstd = rstd_of(row + plan.teams);
    const uint4 *x = ring.wait(team), *grad_y = x + ring.tensor_vectors(), *grad_sum = grad_y + ring.tensor_vectors();
    if (row < range.end) {
      // Both passes read the row in shared memory: the registers are for the sums over rows.
      float sums[kSums] = {};
      visit_vectors([&](int v, int i) {
        const Packed<T> values{x[i]}, gradients{grad_y[i]}, weight{weights[i]};
        Packed<T> bias;
        if constexpr (kActivated) bias.words = biases[i];
#pragma unroll
        for (int k = 0; k < N; ++k) {
          const float normalized = (values.at(k) - mean) * rstd;
          const float gradient = grad_affine<Norm, T>(gradients.at(k), normalized, weight.at(k), bias.at(k));
          const float weighted = gradient * weight.at(k);
          sums[0] = fmaf(weighted, normalized, sums[0]);
          if constexpr (Norm::kCentered) {
            sums[1] += weighted;
            bias_sums.values[v][k] += gradient;
          }
          weight_sums.values[v][k] = fmaf(gradient, normalized, weight_sums.values[v][k]);
        }
      });
      team.sum(sums);
      const float along = sums[0] * inverse_width;
      const float mean_gradient = Norm::kCentered ? sums[kSums - 1] * inverse_width : 0.0f;
      asm volatile("" ::: "memory");
      visit_vectors([&](int, int i) {
        const Packed<T> values{x[i]}, gradients{grad_y[i]}, weight{weights[i]};
        Packed<T> bias, added, result;
        if constexpr (kActivated) bias.words = biases[i];
        if constexpr (kAdd) added.words = grad_sum[i];
        result.fill([&](int k) {
          const float normalized = (values.at(k) - mean) * rstd;
          const float gradient = grad_affine<Norm, T>(gradients.at(k), normalized, weight.at(k), bias.at(k));
          const float grad_x = rstd * (gradient * weight.at(k) - mean_gradient - normalized * along);
          return kAdd ? grad_x + added.at(k) : grad_x;
        });
        __stcs(static_cast<uint4*>(a.grad_x) + row * vectors_in_row + i, result.words);
      });
    }
    ring.release();
  }
  __syncthreads();  // everything has left the ring
  float* sums_of_teams = reinterpret_cast<float*>(shared);
  weight_sums.store(team, sums_of_teams, vectors_in_row);
  add_teams(sums_of_teams, plan.teams, a.width, a.weight_partials + blockIdx.x * a.width);
  if constexpr (Norm::kCentered) {
    bias_sums.store(team, sums_of_teams, vectors_in_row);
    add_teams(sums_of_teams, plan.teams, a.width, a.bias_partials + blockIdx.x * a.width);
  }
}

// Any width and any alignment: a block reads the row twice, and keeps its sums in its row of the workspace, where each
// thread meets its own columns only.
template <class Norm, class T, bool kAdd>
__global__ void norm_backward_any_kernel(const NormBackward a) {
  constexpr int kSums = Norm::kCentered ? 2 : 1;
  RowTeam team(kRowWarps);
  const float inverse_width = 1.0f / static_cast<float>(a.width);
  const T *weight = static_cast<const T*>(a.weight), *bias = static_cast<const T*>(a.bias);
  float* weight_sums = a.weight_partials + blockIdx.x * a.width;
  float* bias_sums = a.bias_partials + blockIdx.x * a.width;
  for (int64_t row = blockIdx.x; row < a.rows; row += gridDim.x) {
    const bool first = row == blockIdx.x;
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

// The sums of one weight's partials and where they go.
struct PartialSums {
  void* gradient;
  bool add;
  const float* partials;  // [count, width]
};

// A block sums 32 columns of sums[blockIdx.y]: warp w the partials w, w + 32, ...; then the warps' sums in their order.
template <class T>
__global__ void sum_partials_kernel(PartialSums weight, PartialSums bias, int64_t count, int64_t width) {
  asm volatile("griddepcontrol.wait;" ::: "memory");
  const auto [gradient, add, partials] = blockIdx.y == 0 ? weight : bias;
  __shared__ float sums[kWarp][kWarp + 1];
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  const int64_t column = static_cast<int64_t>(blockIdx.x) * kWarp + lane;
  float sum = 0.0f;
  if (column < width) {
#pragma unroll 8
    for (int64_t i = warp; i < count; i += kWarp) sum += partials[i * width + column];
  }
  sums[lane][warp] = sum;
  __syncthreads();
  sum = warp_sum(sums[warp][lane]);
  const int64_t own = static_cast<int64_t>(blockIdx.x) * kWarp + warp;
  if (lane != 0 || own >= width) return;
  T* result = static_cast<T*>(gradient) + own;
  *result = from_float<T>((add ? to_float(*result) : 0.0f) + sum);
}

#ifndef STRATA_PDL
#define STRATA_PDL 1
#endif
inline cudaError_t sum_partials(CudaType type, const PartialSums& weight, const PartialSums& bias, int sets,
                                int64_t count, int64_t width, cudaStream_t stream) {
  return visit_type(type, [&]<class T>(T) {
    cudaLaunchAttribute attribute;
    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(static_cast<unsigned>(ceil_divide<int64_t>(width, kWarp)), sets);
    config.blockDim = dim3(kWarp * kWarp);
    config.stream = stream;
    config.attrs = &attribute;
    config.numAttrs = STRATA_PDL ? 1 : 0;
    return cudaLaunchKernelEx(&config, sum_partials_kernel<T>, weight, bias, count, width);
  });
}

template <class Norm>
cudaError_t launch_norm_backward(const NormBackward& a, cudaStream_t stream) {
  const bool aligned = are_aligned(a.grad_x, a.grad_y, a.grad_sum, a.x, a.weight, a.bias), adds = a.grad_sum != nullptr;
  const RowPlan plan =
      plan_rows(a.type, a.width, aligned, /*warp_vectors=*/4, /*team_vectors=*/2, /*max_vectors=*/4,
                /*tensors=*/adds ? 3 : 2, /*rows_beside=*/Norm::kActivation != Activation::none ? 2 : 1);
  const int64_t blocks = a.rows == 0 ? 0 : ring_blocks(plan, a.rows);
  if (a.rows > 0) {
    const cudaError_t status = visit_type(a.type, [&]<class T>(T) {
      if (plan.vectors_per_thread == 0) {
        auto* kernel = adds ? norm_backward_any_kernel<Norm, T, true> : norm_backward_any_kernel<Norm, T, false>;
        kernel<<<static_cast<unsigned>(blocks), kRowWarps * kWarp, 0, stream>>>(a);
        return cudaGetLastError();
      }
      return visit_plan<4>(plan, [&]<int kVectors>() {
        auto* kernel =
            adds ? norm_backward_kernel<Norm, T, kVectors, true> : norm_backward_kernel<Norm, T, kVectors, false>;
        return launch_with_ring(kernel, a, plan, a.rows, stream);
      });
    });
    if (status != cudaSuccess) return status;
  }
  const NormWeightGradient &weight = a.weight_gradient, &bias = a.bias_gradient;
  const PartialSums weight_sums = {weight.data, weight.add, a.weight_partials};
  const PartialSums bias_sums = {bias.data, bias.add, a.bias_partials};
  const bool together = weight.data != nullptr && bias.data != nullptr && weight.type == bias.type;
  if (weight.data != nullptr) {
    const cudaError_t status =
        sum_partials(weight.type, weight_sums, bias_sums, together ? 2 : 1, blocks, a.width, stream);
    if (status != cudaSuccess) return status;
  }
  if (bias.data == nullptr || together) return cudaSuccess;
  return sum_partials(bias.type, bias_sums, {}, 1, blocks, a.width, stream);
}

}  // namespace strata::kernels

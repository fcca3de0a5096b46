// SPDX-License-Identifier: MIT
// The backward of the norms. It reads x and grad_y once; sums over rows stay in registers until a block has no more
// rows.
//   g = grad_y * weight, where grad_y is first multiplied by the derivative of the activation if there is one
//   grad_x = rstd * (g - mean(g) - normalized * mean(g * normalized)) + grad_sum, without mean(g) if not centered
//   grad_weight = sum over rows of grad_y * normalized, grad_bias = sum over rows of grad_y
#pragma once

#include "kernels/cuda/sum_partials.cuh"
#include "kernels/norms/norm_rows.cuh"

namespace strata::kernels {

// Multiplies grad_y by the derivative of the activation, if there is one.
template <class Norm, class T>
__device__ float grad_affine(float grad_y, float normalized, float weight, float bias) {
  if constexpr (Norm::kActivation == Activation::none) {
    return grad_y;
  } else {
    return grad_y * activate_derivative<Norm::kActivation, T>(fmaf(normalized, weight, bias));
  }
}

// One team's sums over its rows for one weight, in registers.
template <int kVectors, int N>
struct ColumnSums {
  float values[kVectors][N] = {};

  // Stores the sums in row `team.index()` of `shared` [teams, width].
  template <class Team>
  __device__ void store(const Team& team, float* shared, int vectors_in_row) const {
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

// Adds the sums of the block's teams in order of the teams. Called by all threads of the block.
__device__ inline void add_teams(const float* shared, int teams, int64_t width, float* partial) {
  __syncthreads();
  for (int64_t i = threadIdx.x; i < width; i += blockDim.x) {
    float sum = 0.0f;
    for (int team = 0; team < teams; ++team) sum += shared[team * width + i];
    partial[i] = sum;
  }
  __syncthreads();
}

template <Code kCode, int kTensors>
using Ring = std::conditional_t<kCode == Code::hopper, RowRing<kTensors>, CopyRing<kTensors>>;

template <Code kCode, bool kAdd, class Team>
__device__ auto ring_of(const void* memory, const RowPlan& plan, const RowRange& range, int vectors_in_row,
                        const Team& team, const NormBackward& a) {
  if constexpr (kAdd) {
    return Ring<kCode, 3>(memory, plan, range, vectors_in_row, team, {a.x, a.grad_y, a.grad_sum});
  } else {
    return Ring<kCode, 2>(memory, plan, range, vectors_in_row, team, {a.x, a.grad_y});
  }
}

template <class Norm, class T, int kVectors, bool kAdd>
__global__ void __launch_bounds__(kRowThreads) norm_backward_kernel(const NormBackward a, const RowPlan plan) {
  // Holds the weight, the bias (with an activation) and the ring; at the end it holds the sums of the teams.
  extern __shared__ __align__(kRingAlignment) uint4 shared[];
  using Part = RowPart<T, kVectors>;
  constexpr int N = kVectorWidth<T>, kSums = Norm::kCentered ? 2 : 1;
  constexpr bool kActivated = Norm::kActivation != Activation::none;
  const int vectors_in_row = static_cast<int>(a.width / N);
  const RowRange range(a.rows, plan.teams, static_cast<int>(gridDim.x), static_cast<int>(blockIdx.x), a.waves);
  RowTeam</*kWholeBlock=*/false> team(plan.team_warps);
  wait_for_kernel_before<Norm::kCode>();
  auto ring =
      ring_of<Norm::kCode, kAdd>(shared + (kActivated ? 2 : 1) * vectors_in_row, plan, range, vectors_in_row, team, a);
  keep_row(shared, a.weight, vectors_in_row);
  if constexpr (kActivated) keep_row(shared + vectors_in_row, a.bias, vectors_in_row);
  __syncthreads();
  const unsigned weights = kept(shared_address(shared) + team.lane() * sizeof(uint4));
  const unsigned biases = weights + vectors_in_row * sizeof(uint4);
  const float inverse_width = 1.0f / static_cast<float>(a.width);
  // Statistics are loaded one row ahead, as all other inputs are.
  const auto mean_of = [&](int64_t row) { return Norm::kCentered && row < range.end ? a.mean[row] : 0.0f; };
  const auto rstd_of = [&](int64_t row) { return row < range.end ? a.rstd[row] : 0.0f; };
  int64_t row = range.begin + team.index();
  float next_mean = mean_of(row), next_rstd = rstd_of(row);
  ColumnSums<kVectors, N> weight_sums, bias_sums;
  for (; row - team.index() < range.end; row += range.step) {
    const float mean = next_mean, rstd = next_rstd;
    next_mean = mean_of(row + range.step);
    next_rstd = rstd_of(row + range.step);
    const unsigned x = ring.wait(team), grad_y = x + ring.tensor_bytes(), grad_sum = grad_y + ring.tensor_bytes();
    // Both passes read the row from shared memory, because the registers hold the sums over rows.
    float sums[kSums] = {};
    if (row < range.end) {
      Part::visit(team, vectors_in_row, [&](int v, int step) {
        const auto bytes = static_cast<unsigned>(step * sizeof(uint4));
        const Packed<T> values{load_shared(x + bytes)}, gradients{load_shared(grad_y + bytes)};
        const Packed<T> weight{load_shared(weights + bytes)};
        Packed<T> bias;
        if constexpr (kActivated) bias.words = load_shared(biases + bytes);
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
    }
    // Teams without a row take part too, because racecheck loses track of the block's barriers once only some warps
    // have met at a numbered one.
    team.sum(sums);
    if (row < range.end) {
      const float along = sums[0] * inverse_width;
      const float mean_gradient = Norm::kCentered ? sums[kSums - 1] * inverse_width : 0.0f;
      uint4* grad_x = static_cast<uint4*>(a.grad_x) + row * vectors_in_row + team.lane();
      Part::visit(team, vectors_in_row, [&](int, int step) {
        const auto bytes = static_cast<unsigned>(step * sizeof(uint4));
        const Packed<T> values{load_shared(x + bytes)}, gradients{load_shared(grad_y + bytes)};
        const Packed<T> weight{load_shared(weights + bytes)};
        Packed<T> bias, added, result;
        if constexpr (kActivated) bias.words = load_shared(biases + bytes);
        if constexpr (kAdd) added.words = load_shared(grad_sum + bytes);
        result.fill([&](int k) {
          const float normalized = (values.at(k) - mean) * rstd;
          const float gradient = grad_affine<Norm, T>(gradients.at(k), normalized, weight.at(k), bias.at(k));
          const float own = rstd * (gradient * weight.at(k) - mean_gradient - normalized * along);
          return kAdd ? own + added.at(k) : own;
        });
        __stcs(grad_x + step, result.words);
      });
    }
    ring.release(team);
  }
  __syncthreads();  // all warps have left the ring
  float* sums_of_teams = reinterpret_cast<float*>(shared);
  weight_sums.store(team, sums_of_teams, vectors_in_row);
  add_teams(sums_of_teams, plan.teams, a.width, a.weight_partials + blockIdx.x * a.width);
  if constexpr (Norm::kCentered) {
    bias_sums.store(team, sums_of_teams, vectors_in_row);
    add_teams(sums_of_teams, plan.teams, a.width, a.bias_partials + blockIdx.x * a.width);
  }
}

// For any width and alignment: a block reads the row twice and keeps its sums in its row of the workspace, where each
// thread uses its own columns only.
template <class Norm, class T, bool kAdd>
__global__ void norm_backward_any_kernel(const NormBackward a) {
  constexpr int kSums = Norm::kCentered ? 2 : 1;
  RowTeam</*kWholeBlock=*/true> team(kRowWarps);
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

template <Code kCode>
cudaError_t finish_weight_gradients(const NormBackward& a, int64_t count, cudaStream_t stream) {
  return sum_partials<kCode>({a.weight_gradient, a.weight_partials, count}, {a.bias_gradient, a.bias_partials, count},
                             a.width, stream);
}

template <class Norm>
cudaError_t launch_norm_backward(const NormBackward& a, cudaStream_t stream) {
  if (a.rows == 0) return finish_weight_gradients<Norm::kCode>(a, 0, stream);
  const bool adds = a.grad_sum != nullptr;
  const int64_t vectors =
      vectors_in_row_of(a.type, a.width, are_aligned(a.grad_x, a.grad_y, a.grad_sum, a.x, a.weight, a.bias));
  // Rows of more than 128 vectors get a team of several warps. These choices were fastest. With sums for two weights:
  // four vectors per thread (layer_norm 32768 x 1600: 3.4 TB/s, with two 3.0), but two with a third tensor to read
  // (add_layer_norm 8192 x 1600: 37.7 instead of 44.5 us). With one weight: two. With a third tensor too: four, and
  // half as many warps (add_rms_norm 8192 x 8192: 3.9 instead of 3.8 TB/s).
  const bool narrow = vectors <= 4 * kWarp, three_tensors = adds && !Norm::kCentered && !narrow;
  const RowPlan plan = plan_rows<Norm::kCode>(vectors, {.team_vectors = narrow || Norm::kCentered != adds ? 4 : 2,
                                                        .max_vectors = 4,
                                                        .tensors = adds ? 3 : 2,
                                                        .rows_beside = Norm::kActivation != Activation::none ? 2 : 1,
                                                        .warps = three_tensors ? kRowWarps / 2 : kRowWarps,
                                                        .stages = Norm::kCentered || adds ? 3 : 4});
  int64_t blocks = 0;
  const cudaError_t status = visit_type(a.type, [&]<class T>(T) {
    if (plan.vectors_per_thread == 0) {
      auto* kernel = adds ? norm_backward_any_kernel<Norm, T, kMayAdd<Norm>> : norm_backward_any_kernel<Norm, T, false>;
      blocks = std::min<int64_t>(a.rows, a.multiprocessors);
      kernel<<<static_cast<unsigned>(blocks), kRowThreads, 0, stream>>>(a);
      return cudaGetLastError();
    }
    blocks = ring_blocks(plan, a.rows, a.waves, a.multiprocessors);
    return visit_count<Norm::kCode, 4>(plan.vectors_per_thread, [&]<int kVectors>() {
      auto* kernel = adds ? norm_backward_kernel<Norm, T, kVectors, kMayAdd<Norm>>
                          : norm_backward_kernel<Norm, T, kVectors, false>;
      return launch_with_ring<Norm::kCode>(kernel, a, plan, stream);
    });
  });
  if (status != cudaSuccess) return status;
  return finish_weight_gradients<Norm::kCode>(a, blocks, stream);
}

}  // namespace strata::kernels

// SPDX-License-Identifier: MIT
// The forward of the norms. Rows that fit are read once and stay in registers; longer ones are read again for each
// pass.
#pragma once

#include "kernels/norms/norm_rows.cuh"

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

// Number of independent partial sums, so that an addition does not wait for the previous one.
inline constexpr int kChains = 4;

__device__ inline float add_up(const float (&sums)[kChains]) { return (sums[0] + sums[1]) + (sums[2] + sums[3]); }

struct Statistics {
  float mean, rstd;
};

// Computes the statistics of the row that a team holds in registers. The team's first thread stores them.
template <class Norm, class T, int kVectors, class Team>
__device__ Statistics statistics(const NormForward& a, Team& team, const RowPart<T, kVectors>& x, int64_t row,
                                 int vectors_in_row) {
  constexpr int N = kVectorWidth<T>;
  const float inverse_width = 1.0f / static_cast<float>(a.width);
  float mean = 0.0f;
  if constexpr (Norm::kCentered) {
    float sums[kChains] = {};
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
#pragma unroll
      for (int k = 0; k < N; ++k) sums[k % kChains] += x.at(v, k);
    }
    mean = team.sum(add_up(sums)) * inverse_width;
  }
  float squares[kChains] = {};
  RowPart<T, kVectors>::visit(team, vectors_in_row, [&](int v, int) {
#pragma unroll
    for (int k = 0; k < N; ++k) {
      const float centered = x.at(v, k) - mean;
      squares[k % kChains] = fmaf(centered, centered, squares[k % kChains]);
    }
  });
  const float rstd = rsqrtf(team.sum(add_up(squares)) * inverse_width + a.eps);
  if (team.lane() == 0) {
    if constexpr (Norm::kCentered) a.mean[row] = mean;
    a.rstd[row] = rstd;
  }
  return {mean, rstd};
}

// Replaces x by x + branch and stores the sum.
template <class T, int kVectors, class Team>
__device__ void add_branch(const NormForward& a, const Team& team, RowPart<T, kVectors>& x,
                           const RowPart<T, kVectors>& branch, int64_t row, int vectors_in_row) {
  x.fill([&](int v, int k) { return x.at(v, k) + branch.at(v, k); });
  x.store(team, a.sum, row, vectors_in_row);
}

// Writes y. weight_of and bias_of return the thread's vector v, which is `step` vectors after its first one.
template <class Norm, class T, int kVectors, class Team, class WeightOf, class BiasOf>
__device__ void write_normed(const NormForward& a, const Team& team, const RowPart<T, kVectors>& x, int64_t row,
                             int vectors_in_row, const Statistics& found, WeightOf weight_of, BiasOf bias_of) {
  uint4* y = static_cast<uint4*>(a.y) + row * vectors_in_row + team.lane();
  RowPart<T, kVectors>::visit(team, vectors_in_row, [&](int v, int step) {
    const Packed<T> weight{weight_of(v, step)}, bias{bias_of(v, step)};
    Packed<T> result;
    result.fill(
        [&](int k) { return normed<Norm, T>((x.at(v, k) - found.mean) * found.rstd, weight.at(k), bias.at(k)); });
    __stcs(y + step, result.words);
  });
}

// Normalizes one row, of which each thread of the team holds kVectors vectors.
template <class Norm, class T, int kVectors, bool kAdd, class Team>
__device__ void norm_row(const NormForward& a, Team team, int64_t row, int vectors_in_row) {
  const auto part_of = [&](const void* tensor, int64_t row) {
    return static_cast<const uint4*>(tensor) + row * vectors_in_row + team.lane();
  };
  RowPart<T, kVectors> x, branch;
  x.load(team, vectors_in_row, [first = part_of(a.x, row)](int step) { return __ldcs(first + step); });
  if constexpr (kAdd) {
    branch.load(team, vectors_in_row, [first = part_of(a.branch, row)](int step) { return __ldcs(first + step); });
    add_branch(a, team, x, branch, row, vectors_in_row);
  }
  // Loads the weight while the team waits for its sums, if there are enough registers.
  constexpr bool kEarly = !Norm::kCentered && kVectors <= 4;
  RowPart<T, kEarly ? kVectors : 1> weight;
  if constexpr (kEarly) {
    weight.load(team, vectors_in_row, [first = part_of(a.weight, 0)](int step) { return first[step]; });
  }
  const Statistics found = statistics<Norm>(a, team, x, row, vectors_in_row);
  x.stay_packed();
  if constexpr (kEarly) weight.stay_packed();
  const bool has_bias = Norm::kCentered && a.bias != nullptr;
  write_normed<Norm>(
      a, team, x, row, vectors_in_row, found,
      [&, first = part_of(a.weight, 0)]([[maybe_unused]] int v, [[maybe_unused]] int step) {
        if constexpr (kEarly) {
          return weight.vectors[v].words;
        } else {
          return first[step];
        }
      },
      [first = part_of(a.bias, 0), has_bias](int, int step) { return has_bias ? first[step] : uint4{}; });
}

// For wide rows: one block per row.
template <class Norm, class T, int kVectors, bool kAdd>
__global__ void __launch_bounds__(kRowThreads, kVectors <= 4 ? 2 : 1) norm_forward_wide_kernel(const NormForward a) {
  RowTeam</*kWholeBlock=*/true> team(static_cast<int>(blockDim.x) / kWarp);
  let_next_kernel_start();
  wait_for_kernel_before<Norm::kCode>();
  norm_row<Norm, T, kVectors, kAdd>(a, team, blockIdx.x, static_cast<int>(a.width / kVectorWidth<T>));
}

// A team of one warp.
struct RowWarp {
  __device__ static constexpr int size() { return kWarp; }
  __device__ static int lane() { return static_cast<int>(threadIdx.x) % kWarp; }
  __device__ static float sum(float value) { return warp_sum(value); }
};

inline constexpr int kNarrowThreads = 4 * kWarp;  // per block

// For narrow rows: one warp per row and no barrier (layer_norm 65536 x 768: 3.87 TB/s, 32768 x 1600: 3.73). A ring as
// in the backward has 3.55 and 3.53 TB/s, and several rows per warp are slower too.
template <class Norm, class T, int kVectors, bool kAdd>
__global__ void __launch_bounds__(kNarrowThreads, kVectors <= 4 ? 8 : 4)
    norm_forward_narrow_kernel(const NormForward a) {
  const int vectors_in_row = static_cast<int>(a.width / kVectorWidth<T>);
  const int64_t row = static_cast<int64_t>(blockIdx.x) * (kNarrowThreads / kWarp) + threadIdx.x / kWarp;
  let_next_kernel_start();
  wait_for_kernel_before<Norm::kCode>();
  if (row >= a.rows) return;
  norm_row<Norm, T, kVectors, kAdd>(a, RowWarp(), row, vectors_in_row);
}

// For any width and alignment: one block per row, which reads the row again for each pass.
template <class Norm, class T, bool kAdd>
__global__ void norm_forward_any_kernel(const NormForward a) {
  RowTeam</*kWholeBlock=*/true> team(kRowWarps);
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
      x = total;  // a thread reads only elements that it wrote itself
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

template <class Norm>
cudaError_t launch_norm_forward(const NormForward& a, cudaStream_t stream) {
  if (a.rows == 0) return cudaSuccess;
  const bool adds = a.branch != nullptr;
  const int64_t vectors = vectors_in_row_of(a.type, a.width, are_aligned(a.y, a.sum, a.x, a.branch, a.weight, a.bias));
  const auto blocks = static_cast<unsigned>(std::min<int64_t>(a.rows, (int64_t{1} << 31) - 1));
  return visit_type(a.type, [&]<class T>(T) {
    if (vectors == 0 || vectors > 8 * kRowThreads || blocks < a.rows) {
      auto* kernel = adds ? norm_forward_any_kernel<Norm, T, kMayAdd<Norm>> : norm_forward_any_kernel<Norm, T, false>;
      kernel<<<blocks, kRowThreads, 0, stream>>>(a);
      return cudaGetLastError();
    }
    if (vectors <= 8 * kWarp) {
      return visit_count<Norm::kCode, 8>(ceil_divide<int64_t>(vectors, kWarp), [&]<int kVectors>() {
        auto* kernel = adds ? norm_forward_narrow_kernel<Norm, T, kVectors, kMayAdd<Norm>>
                            : norm_forward_narrow_kernel<Norm, T, kVectors, false>;
        const auto narrow_blocks = static_cast<unsigned>(ceil_divide<int64_t>(a.rows, kNarrowThreads / kWarp));
        return launch_overlapped<Norm::kCode>(kernel, narrow_blocks, kNarrowThreads, 0, stream, a);
      });
    }
    const auto launch = [&]<int kVectors>() {
      auto* kernel = adds ? norm_forward_wide_kernel<Norm, T, kVectors, kMayAdd<Norm>>
                          : norm_forward_wide_kernel<Norm, T, kVectors, false>;
      const int warps = static_cast<int>(ceil_divide<int64_t>(vectors, kVectors * kWarp));
      return launch_overlapped<Norm::kCode>(kernel, blocks, warps * kWarp, 0, stream, a);
    };
    // Blocks have 3 to 16 warps. rms_norm 16384 x 4096 has 3.89 TB/s with two vectors per thread and 3.80 with four,
    // 8192 x 8192 3.80 and 3.82. With a branch, whose vectors are in registers too, four are never slower.
    if constexpr (!Norm::kCentered) {
      if (!adds && vectors <= 16 * kWarp) return launch.template operator()<2>();
    }
    return vectors <= 4 * kRowThreads ? launch.template operator()<4>() : launch.template operator()<8>();
  });
}

}  // namespace strata::kernels

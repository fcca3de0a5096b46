// SPDX-License-Identifier: MIT
// What forward and backward of the norms share: the norms themselves, and how rows are spread over threads.
#pragma once

#include <algorithm>

#include "kernels/activation_math.cuh"
#include "kernels/norm_rows.h"
#include "kernels/row_team.cuh"

namespace strata::kernels {

// y = activation(normalized * weight + bias), normalized = (x - mean) * rstd; without kCentered mean is 0.
template <bool kCenteredValue, Activation kActivationValue = Activation::none>
struct Norm {
  static constexpr bool kCentered = kCenteredValue;
  static constexpr Activation kActivation = kActivationValue;
};

// How rows are spread over threads. Thread i of a team holds the vectors i, i + size, i + 2 size, ... of its row.
struct RowPlan {
  int vectors_per_thread;  // 0: the row is read again for every pass, element by element
  bool warp_team;
  int threads;  // of a block

  int64_t teams() const { return warp_team ? threads / kWarp : 1; }
};

inline constexpr int kMaxRowThreads = 512;
#ifdef STRATA_TUNE
extern int tune_vectors, tune_threads, tune_blocks;
#else
constexpr int tune_vectors = 0, tune_threads = 0, tune_blocks = 0;
#endif

// `vectors_per_thread` is doubled where a block would have more than kMaxRowThreads threads. Rows that fit a warp with
// `warp_vectors` a thread are a warp's.
inline RowPlan plan_rows(CudaType type, int64_t width, bool aligned, int vectors_per_thread, int warp_vectors,
                         int max_vectors_per_thread) {
  const int64_t per_vector = type == CudaType::float32 ? 4 : 8;
  const int64_t vectors = width / per_vector;
  if (!aligned || width % per_vector != 0 || vectors > kMaxRowThreads * max_vectors_per_thread) {
    return {0, false, kMaxRowThreads};
  }
  if (vectors <= warp_vectors * kWarp) {
    int per_thread = 1;
    while (vectors > per_thread * kWarp) per_thread *= 2;
    return {per_thread, true, tune_threads > 0 ? tune_threads : 128};
  }
  while (vectors > kMaxRowThreads * vectors_per_thread) vectors_per_thread *= 2;
  return {vectors_per_thread, false,
          static_cast<int>(ceil_divide<int64_t>(vectors, vectors_per_thread * kWarp)) * kWarp};
}

// Calls visit.operator()<kVectors, kWarpTeam>() for a plan with rows in registers of at most kMaxVectors a thread.
template <int kMaxVectors, class Visit>
cudaError_t visit_plan(const RowPlan& plan, Visit visit) {
  const auto with_vectors = [&]<bool kWarpTeam>() {
    if (plan.vectors_per_thread == 1) return visit.template operator()<1, kWarpTeam>();
    if (plan.vectors_per_thread == 2) return visit.template operator()<2, kWarpTeam>();
    if (plan.vectors_per_thread == 4) return visit.template operator()<4, kWarpTeam>();
    return visit.template operator()<kMaxVectors, kWarpTeam>();
  };
  return plan.warp_team ? with_vectors.template operator()<true>() : with_vectors.template operator()<false>();
}

// One thread's vectors of a row, packed: 16-bit elements lie two in a register.
template <class T, int kVectors>
struct RowPart {
  static constexpr int kWidth = kVectorWidth<T>;
  Packed<T> vectors[kVectors];

  // Vectors beyond the end of the row are zeros.
  template <class Team, class Load>
  __device__ void load(const Team& team, const void* base, int64_t row, int vectors_in_row, Load load_one) {
    const auto* source = static_cast<const uint4*>(base) + row * vectors_in_row;
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      const int i = team.lane() + v * team.size();
      vectors[v].words = i < vectors_in_row ? load_one(source + i) : uint4{};
    }
  }

  template <class Team>
  __device__ void store(const Team& team, void* base, int64_t row, int vectors_in_row) const {
    auto* target = static_cast<uint4*>(base) + row * vectors_in_row;
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      const int i = team.lane() + v * team.size();
      if (i < vectors_in_row) __stcs(target + i, vectors[v].words);
    }
  }

  // From here on the compiler does not know these values: it unpacks them again where they are used next, instead of
  // keeping fp32 copies in twice the registers across a reduction.
  __device__ void stay_packed() {
#pragma unroll
    for (int v = 0; v < kVectors; ++v) vectors[v].stay_packed();
  }

  __device__ float at(int v, int k) const { return vectors[v].at(k); }

  // Element k of vector v becomes value(v, k), for all of them.
  template <class Value>
  __device__ void fill(Value value) {
#pragma unroll
    for (int v = 0; v < kVectors; ++v) vectors[v].fill([&](int k) { return value(v, k); });
  }
};

}  // namespace strata::kernels

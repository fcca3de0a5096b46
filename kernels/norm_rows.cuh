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
  int vectors_per_thread;  // 1, 2, 4 or 8; 0: the row is read again for every pass, element by element
  int team_warps;
  int threads;  // of a block
};

inline constexpr int kMaxRowThreads = 512;
#ifdef STRATA_TUNE
extern int tune_vectors, tune_threads, tune_blocks;
#else
constexpr int tune_vectors = 0, tune_threads = 0, tune_blocks = 0;
#endif

inline RowPlan plan_rows(CudaType type, int64_t width, bool aligned, int max_vectors_per_thread) {
  const int64_t per_vector = type == CudaType::float32 ? 4 : 8;
  const int64_t vectors = width / per_vector;
  if (!aligned || width % per_vector != 0 || vectors > kMaxRowThreads * max_vectors_per_thread) {
    return {0, kMaxRowThreads / kWarp, kMaxRowThreads};
  }
  int per_thread = tune_vectors > 0 ? tune_vectors : 1;
  while (vectors > kMaxRowThreads * per_thread) per_thread *= 2;
  const int team_warps = static_cast<int>(ceil_divide<int64_t>(vectors, per_thread * kWarp));
  const int teams = std::clamp((tune_threads > 0 ? tune_threads : 256) / (team_warps * kWarp), 1, kMaxTeams);
  return {per_thread, team_warps, teams * team_warps * kWarp};
}

// Calls visit.operator()<kVectors>() for a plan with rows in registers, which has at most kMaxVectors.
template <int kMaxVectors, class Visit>
cudaError_t visit_plan(const RowPlan& plan, Visit visit) {
  if (plan.vectors_per_thread == 1) return visit.template operator()<1>();
  if (plan.vectors_per_thread == 2) return visit.template operator()<2>();
  if (plan.vectors_per_thread == 4) return visit.template operator()<4>();
  return visit.template operator()<kMaxVectors>();
}

// One thread's vectors of a row, packed: 16-bit elements lie two in a register.
template <class T, int kVectors>
struct RowPart {
  static constexpr int kWidth = kVectorWidth<T>;
  Packed<T> vectors[kVectors];

  // Vectors beyond the end of the row are zeros.
  template <class Load>
  __device__ void load(const RowTeam& team, const void* base, int64_t row, int vectors_in_row, Load load_one) {
    const auto* source = static_cast<const uint4*>(base) + row * vectors_in_row;
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      const int i = team.lane() + v * team.size();
      vectors[v].words = i < vectors_in_row ? load_one(source + i) : uint4{};
    }
  }

  __device__ void store(const RowTeam& team, void* base, int64_t row, int vectors_in_row) const {
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

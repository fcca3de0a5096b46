// SPDX-License-Identifier: MIT
// What forward and backward of the norms share: the norms themselves, and a thread's part of a row.
#pragma once

#include "kernels/activation/activation_math.cuh"
#include "kernels/cuda/row_ring.cuh"
#include "kernels/norms/norm_rows.h"

namespace strata::kernels {

// y = activation(normalized * weight + bias), normalized = (x - mean) * rstd; without kCentered mean is 0.
template <bool kCenteredValue, Activation kActivationValue = Activation::none>
struct Norm {
  static constexpr bool kCentered = kCenteredValue;
  static constexpr Activation kActivation = kActivationValue;
};

// Whether kernels are there for a norm with the residual added; no op has that and an activation.
template <class Norm>
inline constexpr bool kMayAdd = Norm::kActivation == Activation::none;

// 0 where rows cannot be read in vectors of 16 bytes.
inline int64_t vectors_in_row_of(CudaType type, int64_t width, bool aligned) {
  const int64_t per_vector = type == CudaType::float32 ? 4 : 8;
  return aligned && width % per_vector == 0 ? width / per_vector : 0;
}

// One thread's vectors of a row, packed: 16-bit elements lie two in a register.
template <class T, int kVectors>
struct RowPart {
  static constexpr int kWidth = kVectorWidth<T>;
  Packed<T> vectors[kVectors];

  // Vector v becomes load(v * team.size()), counted from the thread's first; zeros beyond the end of the row.
  template <class Team, class Load>
  __device__ void load(const Team& team, int vectors_in_row, Load load_one) {
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      const int step = v * team.size();
      vectors[v].words = team.lane() + step < vectors_in_row ? load_one(step) : uint4{};
    }
  }

  // visit(v, v * team.size()) for the vectors within the row.
  template <class Team, class Visit>
  __device__ static void visit(const Team& team, int vectors_in_row, Visit visit_one) {
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      const int step = v * team.size();
      if (team.lane() + step < vectors_in_row) visit_one(v, step);
    }
  }

  template <class Team>
  __device__ void store(const Team& team, void* base, int64_t row, int vectors_in_row) const {
    uint4* first = static_cast<uint4*>(base) + row * vectors_in_row + team.lane();
    visit(team, vectors_in_row, [&](int v, int step) { __stcs(first + step, vectors[v].words); });
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

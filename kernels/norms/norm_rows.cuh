// SPDX-License-Identifier: MIT
// Norm and RowPart: the norms as types, and a thread's part of a row. Forward and backward use both.
#pragma once

#include "kernels/activation/activation_math.cuh"
#include "kernels/cuda/copy_ring.cuh"
#include "kernels/norms/norm_rows.h"

namespace strata::kernels {

// y = activation(normalized * weight + bias) with normalized = (x - mean) * rstd. Without kCentered the mean is 0.
template <Code kCodeValue, bool kCenteredValue, Activation kActivationValue = Activation::none>
struct Norm {
  static constexpr Code kCode = kCodeValue;
  static constexpr bool kCentered = kCenteredValue;
  static constexpr Activation kActivation = kActivationValue;
};

// True if there are kernels for this norm with the residual added first. No op has both a residual and an activation.
template <class Norm>
inline constexpr bool kMayAdd = Norm::kActivation == Activation::none;

// Returns the number of 16-byte vectors in a row, or 0 if rows cannot be read as such vectors.
inline int64_t vectors_in_row_of(CudaType type, int64_t width, bool aligned) {
  const int64_t per_vector = type == CudaType::float32 ? 4 : 8;
  return aligned && width % per_vector == 0 ? width / per_vector : 0;
}

// One thread's vectors of a row. 16-bit elements are packed, two per register.
template <class T, int kVectors>
struct RowPart {
  static constexpr int kWidth = kVectorWidth<T>;
  Packed<T> vectors[kVectors];

  // Sets vector v to load_one(v * team.size()), an offset from the thread's first vector. Vectors past the end of the
  // row become zeros.
  template <class Team, class Load>
  __device__ void load(const Team& team, int vectors_in_row, Load load_one) {
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      const int step = v * team.size();
      vectors[v].words = team.lane() + step < vectors_in_row ? load_one(step) : uint4{};
    }
  }

  // Calls visit_one(v, v * team.size()) for the vectors inside the row.
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

  // Hides the values from the compiler. It then unpacks them again at their next use instead of keeping fp32 copies,
  // which take twice the registers, during a reduction.
  __device__ void stay_packed() {
#pragma unroll
    for (int v = 0; v < kVectors; ++v) vectors[v].stay_packed();
  }

  __device__ float at(int v, int k) const { return vectors[v].at(k); }

  // Sets every element k of vector v to value(v, k).
  template <class Value>
  __device__ void fill(Value value) {
#pragma unroll
    for (int v = 0; v < kVectors; ++v) vectors[v].fill([&](int k) { return value(v, k); });
  }
};

}  // namespace strata::kernels

// SPDX-License-Identifier: MIT
// What forward and backward of the norms share: the norms themselves, and how rows are spread over threads.
#pragma once

#include <algorithm>

#include "kernels/activation_math.cuh"
#include "kernels/bulk_ring.cuh"
#include "kernels/norm_rows.h"
#include "kernels/row_team.cuh"

namespace strata::kernels {

// y = activation(normalized * weight + bias), normalized = (x - mean) * rstd; without kCentered mean is 0.
template <bool kCenteredValue, Activation kActivationValue = Activation::none>
struct Norm {
  static constexpr bool kCentered = kCenteredValue;
  static constexpr Activation kActivation = kActivationValue;
};

// How the rows of a block are spread over its threads. Each of `teams` teams has one row at a time; thread i of a team
// holds the vectors i, i + size, i + 2 size, ... of it. A stage of the ring has a row for every team.
struct RowPlan {
  int vectors_per_thread;  // 0: no ring, one team; the row is read again for every pass, element by element
  int team_warps, teams, stages;
  int shared_bytes;

  __host__ __device__ int readers() const { return team_warps * teams; }  // warps
};

#ifndef STRATA_ROW_WARPS
#define STRATA_ROW_WARPS 16
#endif
inline constexpr int kRowWarps = STRATA_ROW_WARPS;
inline constexpr int kRowThreads = kRowWarps * kWarp;
inline constexpr int kMaxStages = 16;
inline constexpr int64_t kSharedBytes = 226 * 1024;  // a block may have 227 KB; barriers and sums take some
#ifdef STRATA_TUNE
extern int tune_vectors, tune_warps, tune_blocks, tune_kilobytes, tune_team;
#else
constexpr int tune_vectors = 0, tune_warps = 0, tune_blocks = 0, tune_kilobytes = 0, tune_team = 0;
#endif

// A team is one warp where a row fits it with `warp_vectors` a thread; otherwise `team_vectors` a thread, and
// max_vectors where that were too many warps. `tensors` go through the ring, `rows_beside` rows lie beside it.
inline RowPlan plan_rows(CudaType type, int64_t width, bool aligned, int warp_vectors, int team_vectors,
                         int max_vectors, int tensors, int rows_beside) {
  const int64_t per_vector = type == CudaType::float32 ? 4 : 8;
  const int64_t vectors = width / per_vector, row_bytes = vectors * 16;
  if (tune_vectors > 0) warp_vectors = team_vectors = tune_vectors;
  const auto warps_for = [&](int per_thread) {
    return static_cast<int>(ceil_divide<int64_t>(vectors, per_thread * kWarp));
  };
  if (!aligned || width % per_vector != 0 || vectors > max_vectors * kRowWarps * kWarp) {
    return {0, kRowWarps, 1, 0, 0};
  }
  int per_thread = vectors <= warp_vectors * kWarp ? warps_for(1) : team_vectors;
  if (per_thread > 4) per_thread = 8;
  if (warps_for(per_thread) > kRowWarps) per_thread = max_vectors;
  const int team_warps = warps_for(per_thread);
  const int64_t free_bytes = (tune_kilobytes > 0 ? tune_kilobytes * 1024 : kSharedBytes) - rows_beside * row_bytes;
  const int64_t most_teams = std::max<int64_t>(free_bytes / (2 * tensors * row_bytes), 1);
  const int teams =
      static_cast<int>(std::min<int64_t>((tune_warps > 0 ? tune_warps : kRowWarps) / team_warps, most_teams));
  const int64_t stage_bytes = teams * tensors * row_bytes;
  const int stages = static_cast<int>(std::min<int64_t>(free_bytes / stage_bytes, kMaxStages));
  if (stages == 0) return {0, kRowWarps, 1, 0, 0};
  return {per_thread, team_warps, teams, stages, static_cast<int>(rows_beside * row_bytes + stages * stage_bytes)};
}

// Calls visit.operator()<kVectors>() for a plan with a ring.
template <int kMaxVectors, class Visit>
cudaError_t visit_plan(const RowPlan& plan, Visit visit) {
  if (plan.vectors_per_thread == 1) return visit.template operator()<1>();
  if (plan.vectors_per_thread == 2) return visit.template operator()<2>();
  if (plan.vectors_per_thread == 3) return visit.template operator()<3>();
  if (plan.vectors_per_thread == 4) return visit.template operator()<4>();
  return visit.template operator()<kMaxVectors>();
}

// The rows of this block: neighbors, so that no block has a row more than another has.
struct RowRange {
  int64_t begin, end;
};

__device__ inline RowRange rows_of_block(int64_t rows) {
  return {rows * blockIdx.x / gridDim.x, rows * (blockIdx.x + 1) / gridDim.x};
}

// The rows of a block on their way through shared memory. Thread 0 sends them: the first stages at once, then, one
// stage behind the readers, another for each that all warps have left. A warp that did nothing else would cost
// registers: 17 warps have 96 for each thread, 16 have 128.
template <int kTensors>
class RowRing {
 public:
  __device__ RowRing(RingBarriers<kMaxStages>& barriers, uint4* memory, const RowPlan& plan, const RowRange& range,
                     int vectors_in_row, const void* const (&tensors)[kTensors])
      : barriers_(barriers),
        memory_(memory),
        plan_(plan),
        range_(range),
        vectors_in_row_(vectors_in_row),
        next_row_(range.begin) {
    for (int i = 0; i < kTensors; ++i) tensors_[i] = static_cast<const uint4*>(tensors[i]);
    barriers_.init(plan.stages, plan.readers());
    for (int i = 0; i < plan.stages; ++i) send();
  }

  // The row of this team in the first tensor, when it has come.
  __device__ const uint4* wait(const RowTeam& team) const {
    barriers_.full[at_.stage].wait(at_.turn);
    return memory_ + at_.stage * kTensors * tensor_vectors() + team.index() * vectors_in_row_;
  }

  // From the row of one tensor to that of the next.
  __device__ int tensor_vectors() const { return plan_.teams * vectors_in_row_; }

  // By every warp, when it has its part of the row in registers.
  __device__ void release() {
    barriers_.release(at_.stage);
    if (behind_) send();
    behind_ = true;
    at_.advance(plan_.stages);
  }

 private:
  __device__ void send() {
    if (threadIdx.x != 0 || next_row_ >= range_.end) return;
    const int64_t rows = min(static_cast<int64_t>(plan_.teams), range_.end - next_row_);
    const int bytes = static_cast<int>(rows) * vectors_in_row_ * static_cast<int>(sizeof(uint4));
    SharedBarrier& full = barriers_.full[sent_.stage];
    barriers_.empty[sent_.stage].wait(sent_.turn ^ 1);
    full.arrive_expecting(kTensors * bytes);
#pragma unroll
    for (int i = 0; i < kTensors; ++i) {
      copy_bulk(memory_ + (sent_.stage * kTensors + i) * tensor_vectors(), tensors_[i] + next_row_ * vectors_in_row_,
                bytes, full);
    }
    sent_.advance(plan_.stages);
    next_row_ += plan_.teams;
  }

  RingBarriers<kMaxStages>& barriers_;
  uint4* memory_;
  const RowPlan& plan_;
  const RowRange& range_;
  int vectors_in_row_;
  const uint4* tensors_[kTensors];
  RingPosition at_, sent_;
  int64_t next_row_;
  bool behind_ = false;  // a stage lies between readers and sender
};

// A block on each multiprocessor, or fewer where there are too few rows: then all run at a time.
inline int64_t ring_blocks(const RowPlan& plan, int64_t rows) {
  return std::min<int64_t>(ceil_divide<int64_t>(rows, plan.teams),
                           kMultiprocessors * (tune_blocks > 0 ? tune_blocks : 1));
}

template <class Arguments>
cudaError_t launch_with_ring(void (*kernel)(Arguments, RowPlan), const Arguments& arguments, const RowPlan& plan,
                             int64_t rows, cudaStream_t stream) {
  const cudaError_t status =
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, plan.shared_bytes);
  if (status != cudaSuccess) return status;
  const auto blocks = static_cast<unsigned>(ring_blocks(plan, rows));
  kernel<<<blocks, plan.readers() * kWarp, plan.shared_bytes, stream>>>(arguments, plan);
  return cudaGetLastError();
}

// One thread's vectors of a row, packed: 16-bit elements lie two in a register.
template <class T, int kVectors>
struct RowPart {
  static constexpr int kWidth = kVectorWidth<T>;
  Packed<T> vectors[kVectors];

  // Vectors beyond the end of the row are zeros.
  __device__ void load(const RowTeam& team, const uint4* row, int vectors_in_row) {
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      const int i = team.lane() + v * team.size();
      vectors[v].words = i < vectors_in_row ? row[i] : uint4{};
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

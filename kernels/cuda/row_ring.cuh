// SPDX-License-Identifier: MIT
// RowPlan and RowRing: the rows of a block pass through a ring in shared memory and are distributed over its threads.
#pragma once

#include <algorithm>

#include "kernels/cuda/launch_overlapped.cuh"
#include "kernels/cuda/row_range.cuh"
#include "kernels/cuda/row_team.cuh"

namespace strata::kernels {

inline constexpr int kRowWarps = 16;
inline constexpr int kRowThreads = kRowWarps * kWarp;
// At most 4 stages: rows that are still in the ring after the last load are processed while the memory only writes.
// rms_norm 16384 x 4096, backward: 3.8 TB/s with 4 stages, 3.4 with 6.
inline constexpr int kMaxStages = 4;
// A block may use 227 KB on Hopper, and 99 KB on GPUs of 8.6, 8.9 and 12.0. Barriers and sums need some of it.
template <Code kCode>
inline constexpr int64_t kSharedBytes = (kCode == Code::hopper ? 226 : 98) * 1024;

// Alignment in bytes of a ring's shared memory. With the ring 64 bytes off, rms_norm 8192 x 8192, backward, had 3.68
// TB/s instead of 3.84.
inline constexpr int kRingAlignment = 128;

// The distribution of rows over a block. Each of `teams` teams works on one row at a time; thread i of a team holds the
// vectors i, i + size, i + 2 size, ... of it. A stage of the ring has one row for every team.
struct RowPlan {
  int vectors_per_thread;  // 0: rows do not fit
  int team_warps, teams, stages;
  int shared_bytes;

  __host__ __device__ int warps() const { return team_warps * teams; }
};

// The requirements of a kernel.
struct RowDemand {
  int team_vectors, max_vectors;  // per thread; max_vectors if team_vectors would need too many warps
  int tensors;                    // number of tensors that pass through the ring
  int rows_beside;                // rows in shared memory beside the ring
  int warps;                      // warps of a block, unless one team needs more
  int stages;
};

// Returns a plan with at most `shared_bytes` and at least `fewest_stages`.
inline RowPlan plan_rows(int64_t vectors_in_row, const RowDemand& demand, int64_t shared_bytes, int fewest_stages) {
  const auto warps_for = [&](int per_thread) {
    return static_cast<int>(ceil_divide<int64_t>(vectors_in_row, per_thread * kWarp));
  };
  const int64_t row_bytes = vectors_in_row * 16, free_bytes = shared_bytes - demand.rows_beside * row_bytes;
  const int64_t fewest_bytes = fewest_stages * demand.tensors * row_bytes;
  if (vectors_in_row == 0 || vectors_in_row > demand.max_vectors * kRowThreads || free_bytes < fewest_bytes) return {};
  const bool narrow = vectors_in_row <= demand.team_vectors * kWarp;
  int per_thread = narrow ? warps_for(1) : demand.team_vectors;
  if (warps_for(per_thread) > kRowWarps) per_thread = demand.max_vectors;
  const int team_warps = warps_for(per_thread);
  const int teams =
      static_cast<int>(std::min<int64_t>(std::max(demand.warps / team_warps, 1), free_bytes / fewest_bytes));
  const int64_t stage_bytes = teams * demand.tensors * row_bytes;
  const int stages = static_cast<int>(std::min<int64_t>(free_bytes / stage_bytes, demand.stages));
  return {per_thread, team_warps, teams, stages,
          static_cast<int>(demand.rows_beside * row_bytes + stages * stage_bytes)};
}

template <Code kCode>
RowPlan plan_rows(int64_t vectors_in_row, RowDemand demand) {
  // A RowRing of one stage would deadlock, because its next row is sent one stage after the readers.
  if constexpr (kCode == Code::hopper) return plan_rows(vectors_in_row, demand, kSharedBytes<kCode>, 2);
  // Two blocks per multiprocessor if their rows fit, so that blocks of two waves run at once. Sums over rows depend on
  // this, because a block adds the sums of its teams.
  const int most_warps = kRowWarps / 2;
  demand.warps = std::min(demand.warps, most_warps);
  RowPlan plan = plan_rows(vectors_in_row, demand, 48 * 1024, 2);
  if (plan.vectors_per_thread > 0 && plan.warps() <= most_warps) return plan;
  plan = plan_rows(vectors_in_row, demand, kSharedBytes<kCode>, 2);
  return plan.vectors_per_thread > 0 ? plan : plan_rows(vectors_in_row, demand, kSharedBytes<kCode>, 1);
}

// Calls visit.operator()<count>() for a count from 1 to kMost. Portable code has powers of two alone, the next one
// after `count`: the driver compiles all kernels of a file, so there are few.
template <Code kCode, int kMost, class Visit>
cudaError_t visit_count(int64_t count, Visit visit) {
  if constexpr (kMost > 1) {
    constexpr int kLess = kCode == Code::hopper ? kMost - 1 : kMost / 2;
    if (count <= kLess) return visit_count<kCode, kLess>(count, visit);
  }
  return visit.template operator()<kMost>();
}

// One block per multiprocessor in each wave, or fewer if there is one wave with too few rows. All blocks of a wave run
// at the same time.
inline int64_t ring_blocks(const RowPlan& plan, int64_t rows, int waves, int multiprocessors) {
  if (waves > 1) return int64_t{waves} * multiprocessors;
  return std::min<int64_t>(ceil_divide<int64_t>(rows, plan.teams), multiprocessors);
}

template <Code kCode, class Arguments>
cudaError_t launch_with_ring(void (*kernel)(Arguments, RowPlan), const Arguments& arguments, const RowPlan& plan,
                             cudaStream_t stream) {
  // The limit is the same for all widths, so that a thread does not lower it before another one's launch.
  const cudaError_t status =
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(kSharedBytes<kCode>));
  if (status != cudaSuccess) return status;
  const auto blocks =
      static_cast<unsigned>(ring_blocks(plan, arguments.rows, arguments.waves, arguments.multiprocessors));
  return launch_overlapped<kCode>(kernel, blocks, plan.warps() * kWarp, plan.shared_bytes, stream, arguments, plan);
}

// A ring that thread 0 fills: first all stages, then, one stage after the readers, a new one for each stage that all
// warps have released. A separate warp for the copies would cost registers: 17 warps have 96 registers per thread, 16
// warps 128.
template <int kTensors>
class RowRing {
 public:
  using Team = RowTeam</*kWholeBlock=*/false>;

  __device__ RowRing(const void* memory, const RowPlan& plan, const RowRange& range, int vectors_in_row, const Team&,
                     const void* const (&tensors)[kTensors])
      : barriers_(plan.stages, plan.warps()),
        memory_(shared_address(memory)),
        row_bytes_(vectors_in_row * static_cast<int>(sizeof(uint4))),
        tensor_bytes_(plan.teams * row_bytes_),
        plan_(plan),
        range_(range),
        next_row_(range.begin) {
    for (int i = 0; i < kTensors; ++i) tensors_[i] = tensors[i];
    for (int i = 0; i < plan.stages; ++i) send();
  }

  // Waits for the next stage. Returns the address of this thread's first vector in the first tensor's row.
  __device__ unsigned wait(const Team& team) const {
    barriers_.full(at_.stage).wait(at_.turn);
    return memory_ + at_.stage * kTensors * tensor_bytes_ + team.index() * row_bytes_ + team.lane() * sizeof(uint4);
  }

  // The distance in bytes from the row of one tensor to the row of the next.
  __device__ int tensor_bytes() const { return tensor_bytes_; }

  // Called by every warp when it needs nothing more of the stage.
  __device__ void release(const Team& team) {
    barriers_.release(at_.stage, team.warp_lane() == 0);
    if (behind_) send();
    behind_ = true;
    at_.advance(plan_.stages);
  }

 private:
  __device__ void send() {
    if (threadIdx.x != 0 || next_row_ >= range_.end) return;
    const int bytes = static_cast<int>(min(static_cast<int64_t>(plan_.teams), range_.end - next_row_)) * row_bytes_;
    const SharedBarrier full = barriers_.full(sent_.stage);
    barriers_.empty(sent_.stage).wait(sent_.turn ^ 1);
    full.arrive_expecting(kTensors * bytes);
#pragma unroll
    for (int i = 0; i < kTensors; ++i) {
      copy_bulk(memory_ + (sent_.stage * kTensors + i) * tensor_bytes_,
                static_cast<const char*>(tensors_[i]) + next_row_ * row_bytes_, bytes, full);
    }
    sent_.advance(plan_.stages);
    next_row_ += range_.step;
  }

  RingBarriers<kMaxStages> barriers_;
  unsigned memory_;
  int row_bytes_, tensor_bytes_;
  const RowPlan& plan_;
  const RowRange& range_;
  const void* tensors_[kTensors];
  RingPosition at_, sent_;
  int64_t next_row_;
  bool behind_ = false;  // true once the sender is one stage after the readers
};

// Copies a row to shared memory, or zeros if it is null. Called by all threads of the block.
__device__ inline void keep_row(uint4* shared, const void* row, int vectors_in_row) {
  for (int i = threadIdx.x; i < vectors_in_row; i += blockDim.x) {
    shared[i] = row == nullptr ? uint4{} : static_cast<const uint4*>(row)[i];
  }
}

}  // namespace strata::kernels

// SPDX-License-Identifier: MIT
// A ring of stages in shared memory, which one thread fills by bulk copies ahead of the warps that read it.
//
// An H200 delivers 4.2 TB/s with a latency of 0.7 us and more: every multiprocessor must have 25 KB under way all the
// time. Loads into registers stop whenever a block waits for its own sums; bulk copies go on.
#pragma once

#include "kernels/device_utils.cuh"

namespace strata::kernels {

__device__ inline unsigned shared_address(const void* pointer) {
  return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}

// An mbarrier: a phase ends when all arrivals and all announced bytes have come; phases have the parities 0, 1, 0, ...
struct SharedBarrier {
  uint64_t state;

  __device__ void init(int arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(this)), "r"(arrivals) : "memory");
  }
  __device__ void arrive() {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(this)) : "memory");
  }
  __device__ void arrive_expecting(int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(this)), "r"(bytes)
                 : "memory");
  }
  // Returns when the phase of this parity has ended; at once for parity 1 on a new barrier.
  __device__ void wait(int parity) {
    unsigned ended;
    do {
      asm volatile(
          "{\n.reg .pred ended;\nmbarrier.try_wait.parity.shared::cta.b64 ended, [%1], %2;\n"
          "selp.u32 %0, 1, 0, ended;\n}"
          : "=r"(ended)
          : "r"(shared_address(this)), "r"(parity)
          : "memory");
    } while (ended == 0);
  }
  // The same for bytes that come from other blocks of a cluster.
  __device__ void wait_for_cluster(int parity) {
    unsigned ended;
    do {
      asm volatile(
          "{\n.reg .pred ended;\nmbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 ended, [%1], %2;\n"
          "selp.u32 %0, 1, 0, ended;\n}"
          : "=r"(ended)
          : "r"(shared_address(this)), "r"(parity)
          : "memory");
    } while (ended == 0);
  }
};

// Of a cluster: how many blocks it has, and a barrier for all their threads.
__device__ inline int cluster_blocks() {
  unsigned blocks;
  asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(blocks));
  return static_cast<int>(blocks);
}

__device__ inline void meet_cluster() { asm volatile("barrier.cluster.arrive;\nbarrier.cluster.wait;" ::: "memory"); }

// Barriers that were initialized are visible to copies, and to the other blocks of a cluster once they have met.
__device__ inline void fence_initialized_barriers() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

// `bytes` and both pointers are multiples of 16; the barrier gets the bytes when they have come.
__device__ inline void copy_bulk(void* shared, const void* global, int bytes, SharedBarrier& barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                   shared_address(shared)),
               "l"(global), "r"(bytes), "r"(shared_address(&barrier))
               : "memory");
}

template <int kMaxStages>
struct RingBarriers {
  SharedBarrier full[kMaxStages], empty[kMaxStages];

  // By all threads of the block, of which `readers` warps read the ring.
  __device__ void init(int stages, int readers) {
    if (threadIdx.x == 0) {
      for (int i = 0; i < stages; ++i) {
        full[i].init(1);
        empty[i].init(readers);
      }
      fence_initialized_barriers();
    }
    __syncthreads();
  }

  // By a whole warp that has what it needs of a stage in registers.
  __device__ void release(int stage) {
    __syncwarp();
    if (threadIdx.x % kWarp == 0) empty[stage].arrive();
  }
};

// Where in the ring a reader or the writer is: the stage, and the parity of the turns around the ring.
struct RingPosition {
  int stage = 0, turn = 0;

  __device__ void advance(int stages) {
    if (++stage == stages) {
      stage = 0;
      turn ^= 1;
    }
  }
};

}  // namespace strata::kernels

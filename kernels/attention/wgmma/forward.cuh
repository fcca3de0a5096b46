// SPDX-License-Identifier: MIT
// The forward of attention on Hopper after FlashAttention-3 (Shah et al. 2024): warps of one warpgroup plan and copy
// tiles, and the others multiply 64 queries each. Scores and probabilities stay in registers. While the tensor cores
// compute the scores of a step and add the values of the step before, the exponentials of another warpgroup run.
#pragma once

#include "kernels/attention/wgmma/forward_load.cuh"
#include "kernels/attention/wgmma/forward_softmax.cuh"
#include "kernels/attention/wgmma/word_bits.cuh"

namespace strata::kernels {

template <int kBarrier>
__device__ inline void meet_at(int which, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(kBarrier + which), "r"(threads) : "memory");
}
template <int kBarrier>
__device__ inline void arrive_for(int which, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(kBarrier + which), "r"(threads) : "memory");
}

// The same number in all lanes, as the compiler knows then.
__device__ inline unsigned uniform(unsigned number) { return __shfl_sync(0xffffffff, number, 0); }

// A descriptor of wgmma whose lower half counts in 16 bytes. Only this half depends on the place, so places are added
// in 32 bits.
struct PlaceDescriptor {
  unsigned low, high;

  __device__ explicit PlaceDescriptor(uint64_t descriptor)
      : low(uniform(static_cast<unsigned>(descriptor))), high(static_cast<unsigned>(descriptor >> 32)) {}
  __device__ uint64_t behind(unsigned bytes) const { return uint64_t{high} << 32 | (low + bytes / 16); }
};

template <class K>
__device__ void attend(const ForwardMaps& maps, const ForwardWork& work, const ForwardPlaces<K>& places) {
  using T = typename K::Element;
  constexpr int kWidth = K::kWidth, kKeys = K::kKeys;
  constexpr float kLog2E = 1.4426950408889634f, kLn2 = 0.6931471805599453f;
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32 % 4;
  const int warpgroup = static_cast<int>(threadIdx.x) / 128;
  const int next_group = warpgroup + 1 == K::kWarpgroups ? 0 : warpgroup + 1;
  const auto arrive = [&](SharedBarrier barrier) {
    if (lane == 0) barrier.arrive();
  };
  const auto wait_for_turn = [&] {
    if constexpr (K::kTurns) meet_at<1>(warpgroup, 256);
  };
  const auto pass_turn = [&] {
    if constexpr (K::kTurns) arrive_for<1>(next_group, 256);
  };
  if (K::kTurns && warpgroup + 1 == K::kWarpgroups) arrive_for<1>(0, 256);
  RingTurn<K::kStages> turn;
  RingTurn<K::kItems> item;
  int stored = -1;  // the place whose results may still be read
  const auto free_results = [&] {
    if (stored < 0) return;
    if (lane == 0) {
      wait_for_stores();
      places.query_empty(stored).arrive();
    }
    stored = -1;
  };
  while (true) {
    places.query_full(item.place).wait(item.parity);
    if (load_shared_int(places.item(item.place)) < 0) break;
    // Read again where they are needed, because registers are few.
    const auto own_row = [&] {
      return load_shared_int(places.item(item.place)) + warpgroup * 64 + warp * 16 + lane / 4;
    };
    const auto item_sequence = [&] {
      return Sequence{load_shared_int(places.item(item.place) + 4), load_shared_int(places.item(item.place) + 8)};
    };
    const auto head = [&] { return load_shared_int(places.item(item.place) + 12); };
    float output[kWidth / 2];
#pragma unroll
    for (int i = 0; i < kWidth / 2; ++i) output[i] = 0;
    const float sink = work.sinks == nullptr ? -INFINITY : work.sinks[head()] * kLog2E;
    const float weight = work.sinks != nullptr && lane % 4 == 0 ? 1 : 0;
    RowState state = {{sink, sink}, {weight, weight}};
    float scores[kKeys / 2];
    unsigned words[kKeys / 4];
    unsigned seen[K::kParts];
    int tile = 0;
    unsigned flags = 0, own = 0;
    const auto multiply_scores = [&](const PlaceDescriptor& query, const PlaceDescriptor& key) {
#pragma unroll
      for (int k = 0; k < kWidth / 16; ++k) {
        multiply<T>(scores, query.behind(k / 4 * 64 * 128 + k % 4 * 32), key.behind(k / 4 * K::kKeyBox + k % 4 * 32),
                    k > 0);
      }
    };
    const auto add_values = [&](const PlaceDescriptor& value) {
#pragma unroll
      for (int k = 0; k < kKeys / 16; ++k) {
        multiply<T, OperandLayout::transposed>(output, words[4 * k], words[4 * k + 1], words[4 * k + 2],
                                               words[4 * k + 3], value.behind(k * 2048), 1);
      }
    };
    const auto find_bits = [&](int tile, unsigned own) {
#pragma unroll
      for (int part = 0; part < K::kParts; ++part) {
        const PartShare share = K::Flags::share(own, part);
        seen[part] = share == PartShare::none ? 0 : ~0u;
        if (share == PartShare::some) {
          const ThreadPairs<true> pairs = {work.pattern.first_query + own_row(),
                                           tile * kKeys + part * kPart + lane % 4 * 2};
          const int* const documents =
              work.pattern.documents + static_cast<int64_t>(item_sequence().batch) * work.pattern.keys;
          seen[part] = (work.words.bits & TileWords::program) == 0
                           ? bits_of_words(work.words, work.pattern, pairs, documents)
                           : pairs.bits(work.pattern, places.program(), documents,
                                        places.memory + K::kStackAt + threadIdx.x * 4, K::kStackStep);
        }
      }
    };
    const auto hide = [&] {
#pragma unroll
      for (int part = 0; part < K::kParts; ++part) {
        if (K::Flags::share(own, part) == PartShare::all) continue;
#pragma unroll
        for (int i = 0; i < 32; ++i) {
          if ((seen[part] >> (i / 2 % 2 * 16 + i / 4 * 2 + i % 2) & 1) == 0) scores[32 * part + i] = -INFINITY;
        }
      }
    };
    const auto pack = [&] {
#pragma unroll
      for (int i = 0; i < kKeys / 4; ++i) words[i] = packed<T>(scores[2 * i], scores[2 * i + 1]);
    };
    float decay[2];
    const auto rescale = [&] {
#pragma unroll
      for (int i = 0; i < kWidth / 2; ++i) output[i] *= decay[i / 2 % 2];
    };
    // In each step, because sums that the compiler keeps from step to step take registers.
    const auto own_queries = [&] { return PlaceDescriptor(matrix_descriptor(places.query(item.place, warpgroup))); };
    const auto keys_of = [&](int stage) { return PlaceDescriptor(matrix_descriptor(places.key(stage))); };
    const auto values_of = [&](int stage) {
      return PlaceDescriptor(transposed_descriptor(places.value(stage), K::kKeyBox));
    };
    const auto find_step = [&] {
      places.key_full(turn.place).wait(turn.parity);
      tile = load_shared_int(places.word(turn.place));
      flags = static_cast<unsigned>(load_shared_int(places.word(turn.place) + 4));
      own = typename K::Flags{flags}.of(warpgroup);
    };
    const auto soften = [&] {
      state.raise(scores, work.power_scale, decay);
      state.exponentiate(scores, work.power_scale, decay);
      // Never so. The branch keeps the compiler from moving exponentials behind the next wait for products.
      if (state.weights[0] + state.weights[1] < 0) asm volatile("trap;");
    };
    const auto end_scores = [&] { arrive(places.key_empty(turn.place)); };
    bool ended = false;
    while (!ended) {
      find_step();
      if (own == 0) {
        wait_for_turn();
        pass_turn();
        __syncwarp();  // all lanes have read the step
        end_scores();
        places.value_full(turn.place).wait(turn.parity);
        arrive(places.value_empty(turn.place));
        turn.next();
        ended = (flags & K::Flags::kLast) != 0;
        continue;
      }
      const PlaceDescriptor queries = own_queries(), first_keys = keys_of(turn.place);
      wait_for_turn();
      begin_products();
      multiply_scores(queries, first_keys);
      commit_products();
      pass_turn();
      free_results();
      if (own != K::Flags::kWhole) find_bits(tile, own);
      wait_products<0>();
      hold(scores);
      end_scores();
      if (own != K::Flags::kWhole) hide();
      soften();
      pack();
      rescale();
      turn.next();
      ended = (flags & K::Flags::kLast) != 0;
      while (!ended) {
        find_step();
        if (own == 0) break;
        const PlaceDescriptor queries = own_queries(), keys = keys_of(turn.place),
                              values = values_of(turn.before().place);
        wait_for_turn();
        begin_products();
        multiply_scores(queries, keys);
        commit_products();
        places.value_full(turn.before().place).wait(turn.before().parity);
        begin_products();
        add_values(values);
        commit_products();
        pass_turn();
        if (own != K::Flags::kWhole) find_bits(tile, own);
        wait_products<1>();
        hold(scores);
        end_scores();
        if (own != K::Flags::kWhole) hide();
        soften();
        wait_products<0>();
        hold(output);
        hold(words);
        arrive(places.value_empty(turn.before().place));
        pack();
        rescale();
        turn.next();
        ended = (flags & K::Flags::kLast) != 0;
      }
      const RingTurn<K::kStages> before = turn.before();
      places.value_full(before.place).wait(before.parity);
      const PlaceDescriptor last_values = values_of(before.place);
      begin_products();
      add_values(last_values);
      commit_products();
      wait_products<0>();
      hold(output);
      arrive(places.value_empty(before.place));
    }
    free_results();
    const Sequence sequence = item_sequence();
    const int own_head = head(), first_own = own_row();
    const int row_end = work.queries_per_row / work.residues;
    float inverse[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      float& sum = state.weights[i];
      sum += __shfl_xor_sync(0xffffffff, sum, 1);
      sum += __shfl_xor_sync(0xffffffff, sum, 2);
      const int row = first_own + 8 * i;
      if (lane % 4 == 0 && row < row_end) {
        work.logsumexp[(static_cast<int64_t>(sequence.batch) * work.heads + own_head) * work.queries_per_row +
                       sequence.residue + static_cast<int64_t>(work.residues) * row] =
            (state.shift(i) + log2f(sum)) * kLn2;
      }
      inverse[i] = sum == 0 ? 0 : 1 / sum;
    }
    meet_at<4>(warpgroup, 128);  // all warps have read the queries
    const unsigned result = places.query(item.place, warpgroup) + warp * 16 * 128;
    const int row = lane % 16;
#pragma unroll
    for (int k = 0; k < kWidth / 16; ++k) {
      unsigned four[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        four[i] = packed<T>(output[8 * k + 2 * i] * inverse[i % 2], output[8 * k + 2 * i + 1] * inverse[i % 2]);
      }
      store_matrices(result + k / 4 * 64 * 128 + row * 128 + ((k % 4 * 2 + lane / 16) ^ (row % 8)) * 16, four[0],
                     four[1], four[2], four[3]);
    }
    show_to_copies();
    __syncwarp();
    if (lane == 0) {
      for (int i = 0; i < K::kBoxes; ++i) {
        store_rows(maps.y, own_head * kWidth + i * 64, first_own, sequence, result + i * 64 * 128);
      }
      commit_stores();
    }
    stored = item.place;
    item.next();
  }
  if (lane == 0) wait_for_stores();
}

template <class K>
__global__ void __launch_bounds__(K::kThreads, 1)
    attention_forward_kernel(const __grid_constant__ ForwardMaps maps, const __grid_constant__ ForwardWork work) {
  extern __shared__ __align__(1024) char shared[];
  const ForwardPlaces<K> places = {shared_address(shared)};
  if (places.memory % 1024 != 0) __trap();  // the copy engine swizzles by addresses
  if (threadIdx.x == 0) places.init();
  int* const program = reinterpret_cast<int*>(shared + K::kProgramAt);
  if (threadIdx.x < 3 * work.pattern.instructions) program[threadIdx.x] = work.pattern.program[threadIdx.x];
  __syncthreads();
  if (threadIdx.x < K::kWarpgroups * 128) {
    take_registers<K::kConsumerRegisters>();
    attend<K>(maps, work, places);
  } else {
    give_registers<K::kProducerRegisters>();
    if (threadIdx.x < K::kWarpgroups * 128 + 32) {
      if (threadIdx.x % 32 == 0) load_steps<K>(maps, places);
    } else if (threadIdx.x < K::kWarpgroups * 128 + 64) {
      plan_items<K>(work, places);
    }
  }
}

}  // namespace strata::kernels

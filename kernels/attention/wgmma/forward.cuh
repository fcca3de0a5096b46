// SPDX-License-Identifier: MIT
// The forward of attention on Hopper after FlashAttention-3 (Shah et al. 2024): one warp loads tiles by the copy
// engine, and warpgroups multiply 64 queries each. Scores and probabilities stay in registers. While the tensor cores
// compute the scores of a step and the product of the probabilities of the step before, the exponentials of another
// warpgroup run.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "kernels/attention/wgmma/forward_work.cuh"
#include "kernels/cuda/wgmma.cuh"

namespace strata::kernels {

// Boxes of 64 columns: of 64 queries, of a tile of keys, and of 16 rows of y.
struct ForwardMaps {
  CUtensorMap query, key, value, y;
};

// kTakeTurns: warpgroups start their products one after the other. kLazy: sums are rescaled only if the largest score
// of a row has grown by 2^8.
template <class T, int kHead, int kGroups, int kTile, int kStageCount, bool kTakeTurns, bool kLazyScale>
struct ForwardKernel {
  using Element = T;
  static constexpr int kWidth = kHead, kWarpgroups = kGroups, kKeys = kTile, kStages = kStageCount;
  static constexpr bool kTurns = kTakeTurns, kLazy = kLazyScale;
  static constexpr int kParts = kKeys / kPart, kBoxes = kWidth / 64, kWarps = 4 * kWarpgroups;
  static constexpr int kThreads = 128 * (kWarpgroups + 1);
  static constexpr int kBlock = kBoxes * 64 * 128;                          // queries of a warpgroup
  static constexpr int kKeyBox = kKeys * 128, kKeyTile = kBoxes * kKeyBox;  // keys of a step, or values
  using Flags = StepFlags<kWarpgroups, kParts>;

  // Offsets in shared memory.
  static constexpr int kItems = 2, kPlanned = 16;  // places for queries, which become results, and for planned steps
  static constexpr int kKeysAt = kItems * kWarpgroups * kBlock, kValuesAt = kKeysAt + kStages * kKeyTile;
  static constexpr int kProgramAt = kValuesAt + kStages * kKeyTile;
  static constexpr int kStackAt = kProgramAt + kMostProgramWords * 4;
  static constexpr int kStackStep = kWarpgroups * 128 * 4;
  static constexpr int kBarriersAt = kStackAt + kProgramStack * kStackStep;
  static constexpr int kBarriers = 4 * kStages + 2 * kItems + 2 * kPlanned;
  static constexpr int kPlanAt = kBarriersAt + kBarriers * 8;
  static constexpr int kItemsAt = kPlanAt + kPlanned * 16, kWordsAt = kItemsAt + kItems * 16;
  static constexpr int kShared = kWordsAt + kStages * 8;
  static_assert(kShared <= 227 * 1024);

  // Consumers have what the block's 64 K registers leave them.
  static constexpr int kConsumerRegisters = kWarpgroups == 3 ? 160 : 232;
  static constexpr int kProducerRegisters = kWarpgroups == 3 ? 32 : 40;
};

template <class K>
struct ForwardPlaces {
  unsigned memory;

  __device__ unsigned query(int item, int warpgroup) const {
    return memory + (item * K::kWarpgroups + warpgroup) * K::kBlock;
  }
  __device__ unsigned key(int stage) const { return memory + K::kKeysAt + stage * K::kKeyTile; }
  __device__ unsigned value(int stage) const { return memory + K::kValuesAt + stage * K::kKeyTile; }
  __device__ unsigned program() const { return memory + K::kProgramAt; }
  __device__ SharedBarrier barrier(int i) const { return {memory + K::kBarriersAt + i * 8}; }
  __device__ SharedBarrier key_full(int stage) const { return barrier(stage); }
  __device__ SharedBarrier key_empty(int stage) const { return barrier(K::kStages + stage); }
  __device__ SharedBarrier value_full(int stage) const { return barrier(2 * K::kStages + stage); }
  __device__ SharedBarrier value_empty(int stage) const { return barrier(3 * K::kStages + stage); }
  __device__ SharedBarrier query_full(int item) const { return barrier(4 * K::kStages + item); }
  __device__ SharedBarrier query_empty(int item) const { return barrier(4 * K::kStages + K::kItems + item); }
  __device__ SharedBarrier planned(int i) const { return barrier(4 * K::kStages + 2 * K::kItems + i); }
  __device__ SharedBarrier plan_read(int i) const { return planned(K::kPlanned + i); }
  __device__ unsigned plan(int i) const { return memory + K::kPlanAt + i * 16; }
  __device__ unsigned item(int i) const { return memory + K::kItemsAt + i * 16; }
  __device__ unsigned word(int stage) const { return memory + K::kWordsAt + stage * 8; }

  __device__ void init() const {
    for (int i = 0; i < K::kStages; ++i) {
      key_full(i).init(1), value_full(i).init(1);
      key_empty(i).init(K::kWarps), value_empty(i).init(K::kWarps);
    }
    for (int i = 0; i < K::kItems; ++i) query_full(i).init(1), query_empty(i).init(K::kWarps);
    for (int i = 0; i < K::kPlanned; ++i) planned(i).init(1), plan_read(i).init(1);
    fence_initialized_barriers();
  }
};

__device__ inline void load_rows(unsigned to, const CUtensorMap& map, int column, int row, int residue, int batch,
                                 SharedBarrier barrier) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6}], "
      "[%2];" ::"r"(to),
      "l"(&map), "r"(barrier.address), "r"(column), "r"(row), "r"(residue), "r"(batch)
      : "memory");
}
__device__ inline void store_rows(const CUtensorMap& map, int column, int row, int residue, int batch, unsigned from) {
  asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.bulk_group [%0, {%2, %3, %4, %5}], [%1];" ::"l"(&map),
               "r"(from), "r"(column), "r"(row), "r"(residue), "r"(batch)
               : "memory");
}
__device__ inline void commit_stores() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }

__device__ inline float power_of_two(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

template <class T>
__device__ inline unsigned packed(float low, float high) {
  if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
    return *reinterpret_cast<const unsigned*>(&pair);
  } else {
    const __half2 pair = __floats2half2_rn(low, high);
    return *reinterpret_cast<const unsigned*>(&pair);
  }
}

template <int kBarrier>
__device__ inline void meet_at(int which, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(kBarrier + which), "r"(threads) : "memory");
}
template <int kBarrier>
__device__ inline void arrive_for(int which, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(kBarrier + which), "r"(threads) : "memory");
}

// One warp takes items and plans their steps ahead of the copies.
template <class K>
__device__ void plan_items(const ForwardWork& work, unsigned* counters, const ForwardPlaces<K>& places) {
  const bool sends = threadIdx.x % 32 == 0;
  RingTurn<K::kPlanned> turn;
  const auto take = [&] {
    int number = 0;
    if (sends) number = static_cast<int>(work.counter.take(counters));
    return number;
  };
  const auto send = [&](int tile, unsigned flags, int row, int place) {
    if (sends) {
      places.plan_read(turn.place).wait(turn.parity ^ 1);
      store_words(places.plan(turn.place), tile, static_cast<int>(flags));
      store_words(places.plan(turn.place) + 8, row, place);
      places.planned(turn.place).arrive();
    }
    turn.next();
  };
  int number = __shfl_sync(0xffffffff, take(), 0);
  while (number < work.items()) {
    const int next = take();
    const ForwardItem item = find_item(work, number);
    const int first_row = item.tile * K::kWarpgroups * 64, place = item.sequence * work.heads + item.head;
    visit_steps<K::kWarpgroups, K::kParts>(work, item, places.program(), [&](int tile, unsigned flags, bool is_first) {
      send(tile, flags, is_first ? first_row : -1, place);
    });
    number = __shfl_sync(0xffffffff, next, 0);
  }
  send(-1, 0, 0, 0);
}

// One thread copies what is planned.
template <class K>
__device__ void load_steps(const ForwardMaps& maps, const ForwardWork& work, const ForwardPlaces<K>& places) {
  RingTurn<K::kPlanned> plan;
  RingTurn<K::kStages> turn, before;
  RingTurn<K::kItems> item;
  int residue = 0, batch = 0, key_column = 0, tile_before = -1;
  const auto load_values = [&](const RingTurn<K::kStages>& at, int tile) {
    places.value_empty(at.place).wait(at.parity ^ 1);
    places.value_full(at.place).arrive_expecting(K::kKeyTile);
#pragma unroll
    for (int i = 0; i < K::kBoxes; ++i) {
      load_rows(places.value(at.place) + i * K::kKeyBox, maps.value, key_column + i * 64, tile * K::kKeys, residue,
                batch, places.value_full(at.place));
    }
  };
  while (true) {
    places.planned(plan.place).wait(plan.parity);
    const uint4 step = load_shared(places.plan(plan.place));
    places.plan_read(plan.place).arrive();
    plan.next();
    const int tile = static_cast<int>(step.x), row = static_cast<int>(step.z), place = static_cast<int>(step.w);
    if (tile < 0) break;
    if (row >= 0) {
      const int sequence = place / work.heads, head = place % work.heads;
      batch = sequence / work.residues;
      residue = sequence % work.residues;
      key_column = head / work.shared_by * K::kWidth;
      places.query_empty(item.place).wait(item.parity ^ 1);
      store_words(places.item(item.place), row, sequence);
      store_words(places.item(item.place) + 8, head, 0);
      places.query_full(item.place).arrive_expecting(K::kWarpgroups * K::kBlock);
#pragma unroll 1
      for (int i = 0; i < K::kWarpgroups * K::kBoxes; ++i) {
        load_rows(places.query(item.place, 0) + i * 64 * 128, maps.query, head * K::kWidth + i % K::kBoxes * 64,
                  row + i / K::kBoxes * 64, residue, batch, places.query_full(item.place));
      }
      item.next();
    }
    places.key_empty(turn.place).wait(turn.parity ^ 1);
    store_words(places.word(turn.place), tile, static_cast<int>(step.y));
    places.key_full(turn.place).arrive_expecting(K::kKeyTile);
#pragma unroll
    for (int i = 0; i < K::kBoxes; ++i) {
      load_rows(places.key(turn.place) + i * K::kKeyBox, maps.key, key_column + i * 64, tile * K::kKeys, residue, batch,
                places.key_full(turn.place));
    }
    // The values of a step are needed after the keys of the next one.
    if (tile_before >= 0) load_values(before, tile_before);
    tile_before = tile;
    before = turn;
    turn.next();
    if ((step.y & K::Flags::kLast) != 0) {
      load_values(before, tile_before);
      tile_before = -1;
    }
  }
  places.query_empty(item.place).wait(item.parity ^ 1);
  store_words(places.item(item.place), -1, 0);
  places.query_full(item.place).arrive();
}

// ThreadPairs::bits for a pattern in the form of TileWords.
__device__ inline unsigned bits_of_words(const TileWords& words, const PairPattern& pattern,
                                         const ThreadPairs<true>& pairs, const int* documents) {
  const auto both = [&](int operation, int first, int second) {
    return pairs.row_bits(operation, first, second, documents, pattern.keys, pairs.row) |
           pairs.row_bits(operation, first, second, documents, pattern.keys, pairs.row + 8) << 16;
  };
  const unsigned inside = interval(0, pattern.keys - pairs.column);
  unsigned seen = both(kBand, words.lowest, words.highest) & (inside | inside << 16);
  if ((words.bits & TileWords::kAnyOf) != 0) {
    unsigned any = 0;
    if ((words.bits & TileWords::near) != 0) any |= both(kBand, words.near_lowest, words.near_highest);
    if ((words.bits & TileWords::stride) != 0) any |= both(kStride, words.step, words.span);
    if ((words.bits & TileWords::prefix) != 0) any |= both(kPrefix, words.first_keys, 0);
    if ((words.bits & TileWords::global) != 0) any |= both(kGlobal, words.border, 0);
    if ((words.bits & TileWords::blocks) != 0) any |= both(kBlocks, words.hash_key, words.threshold);
    seen &= any;
  }
  if ((words.bits & TileWords::documents) != 0) seen &= both(kDocuments, 0, 0);
  return seen;
}

// The softmax of the two rows of a thread, over the steps so far.
struct RowState {
  float largest[2], shift[2], weights[2];  // weights are those of this thread's columns

  // Takes the scores of a step, turns them into probabilities, and returns whether sums must be multiplied by `decay`.
  template <int kCount, bool kLazy>
  __device__ bool take(float (&scores)[kCount], float scale, float (&decay)[2]) {
    constexpr float kGrowth = 8;
    float top[2] = {scores[0], scores[2]};
#pragma unroll
    for (int j = 0; j < kCount / 4; ++j) {
      top[0] = fmaxf(top[0], fmaxf(scores[4 * j], scores[4 * j + 1]));
      top[1] = fmaxf(top[1], fmaxf(scores[4 * j + 2], scores[4 * j + 3]));
    }
    bool grows = false;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      top[i] = fmaxf(top[i], __shfl_xor_sync(0xffffffff, top[i], 1));
      top[i] = fmaxf(top[i], __shfl_xor_sync(0xffffffff, top[i], 2));
      const float found = fmaxf(largest[i], top[i] * scale);
      decay[i] = 1;
      if (!kLazy || found > largest[i] + kGrowth) {
        const float next = found == -INFINITY ? 0 : found;
        decay[i] = power_of_two(largest[i] - next);
        largest[i] = found;
        shift[i] = next;
        grows = true;
      }
    }
    float sum[2] = {0, 0};
#pragma unroll
    for (int j = 0; j < kCount / 4; ++j) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        scores[4 * j + i] = power_of_two(fmaf(scores[4 * j + i], scale, -shift[i / 2]));
        sum[i / 2] += scores[4 * j + i];
      }
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) weights[i] = fmaf(weights[i], decay[i], sum[i]);
    return kLazy ? __any_sync(0xffffffff, grows) : true;
  }
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
    const int tile_row = shared_number(places.item(item.place)), sequence = shared_number(places.item(item.place) + 4);
    const int head = shared_number(places.item(item.place) + 8);
    if (tile_row < 0) break;
    const uint64_t query = matrix_descriptor(places.query(item.place, warpgroup));
    const int first_row = tile_row + warpgroup * 64, own_row = first_row + warp * 16 + lane / 4;
    float output[kWidth / 2];
#pragma unroll
    for (int i = 0; i < kWidth / 2; ++i) output[i] = 0;
    const float sink = work.sinks == nullptr ? -INFINITY : work.sinks[head] * kLog2E;
    const float weight = work.sinks != nullptr && lane % 4 == 0 ? 1 : 0;
    RowState state = {
        {sink, sink}, {work.sinks == nullptr ? 0 : sink, work.sinks == nullptr ? 0 : sink}, {weight, weight}};
    float scores[kKeys / 2];
    unsigned words[kKeys / 4];
    unsigned seen[K::kParts];
    int tile = 0;
    unsigned flags = 0, own = 0;
    const auto multiply_scores = [&](int stage) {
      const uint64_t key = matrix_descriptor(places.key(stage));
#pragma unroll
      for (int k = 0; k < kWidth / 16; ++k) {
        multiply<T>(scores, query + (k / 4 * 64 * 128 + k % 4 * 32) / 16, key + (k / 4 * K::kKeyBox + k % 4 * 32) / 16,
                    k > 0);
      }
    };
    const auto add_values = [&](int stage) {
      const uint64_t value = transposed_descriptor(places.value(stage), K::kKeyBox);
#pragma unroll
      for (int k = 0; k < kKeys / 16; ++k) {
        multiply<T, Layout::transposed>(output, words[4 * k], words[4 * k + 1], words[4 * k + 2], words[4 * k + 3],
                                        value + k * (2048 / 16), 1);
      }
    };
    const auto find_bits = [&](int tile, unsigned own) {
#pragma unroll
      for (int part = 0; part < K::kParts; ++part) {
        const PartShare share = K::Flags::share(own, part);
        seen[part] = share == PartShare::none ? 0 : ~0u;
        if (share == PartShare::some) {
          const ThreadPairs<true> pairs = {work.pattern.first_query + own_row,
                                           tile * kKeys + part * kPart + lane % 4 * 2};
          const int* const documents = work.pattern.documents + static_cast<int64_t>(sequence) * work.pattern.keys;
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
    const auto rescale = [&](bool grows, const float(&decay)[2]) {
      if (!grows) return;
#pragma unroll
      for (int i = 0; i < kWidth / 2; ++i) output[i] *= decay[i / 2 % 2];
    };
    const auto find_step = [&] {
      places.key_full(turn.place).wait(turn.parity);
      tile = shared_number(places.word(turn.place));
      flags = static_cast<unsigned>(shared_number(places.word(turn.place) + 4));
      own = typename K::Flags{flags}.of(warpgroup);
    };
    const auto end_scores = [&] { arrive(places.key_empty(turn.place)); };
    float decay[2];
    bool ended = false;
    while (!ended) {
      find_step();
      if (own == 0) {
        wait_for_turn();
        pass_turn();
        end_scores();
        places.value_full(turn.place).wait(turn.parity);
        arrive(places.value_empty(turn.place));
        turn.next();
        ended = (flags & K::Flags::kLast) != 0;
        continue;
      }
      wait_for_turn();
      begin_products();
      multiply_scores(turn.place);
      commit_products();
      pass_turn();
      free_results();
      if (own != K::Flags::kWhole) find_bits(tile, own);
      wait_products<0>();
      hold(scores);
      end_scores();
      if (own != K::Flags::kWhole) hide();
      bool grows = state.template take<kKeys / 2, K::kLazy>(scores, work.scale, decay);
      pack();
      rescale(grows, decay);
      RingTurn<K::kStages> before = turn;
      turn.next();
      ended = (flags & K::Flags::kLast) != 0;
      while (!ended) {
        find_step();
        if (own == 0) break;
        wait_for_turn();
        begin_products();
        multiply_scores(turn.place);
        commit_products();
        places.value_full(before.place).wait(before.parity);
        begin_products();
        add_values(before.place);
        commit_products();
        pass_turn();
        if (own != K::Flags::kWhole) find_bits(tile, own);
        wait_products<1>();
        hold(scores);
        end_scores();
        if (own != K::Flags::kWhole) hide();
        grows = state.template take<kKeys / 2, K::kLazy>(scores, work.scale, decay);
        if (state.weights[0] + state.weights[1] < 0) asm volatile("trap;");
        wait_products<0>();
        hold(output);
        hold(words);
        arrive(places.value_empty(before.place));
        pack();
        rescale(grows, decay);
        before = turn;
        turn.next();
        ended = (flags & K::Flags::kLast) != 0;
      }
      places.value_full(before.place).wait(before.parity);
      begin_products();
      add_values(before.place);
      commit_products();
      wait_products<0>();
      hold(output);
      arrive(places.value_empty(before.place));
    }
    free_results();
    const int batch = sequence / work.residues, residue = sequence % work.residues;
    const int row_end = (work.queries - residue + work.residues - 1) / work.residues;
    float inverse[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      float& sum = state.weights[i];
      sum += __shfl_xor_sync(0xffffffff, sum, 1);
      sum += __shfl_xor_sync(0xffffffff, sum, 2);
      const int row = own_row + 8 * i;
      if (lane % 4 == 0 && row < row_end) {
        work.logsumexp[(static_cast<int64_t>(batch) * work.heads + head) * work.queries + residue +
                       static_cast<int64_t>(work.residues) * row] = (state.shift[i] + log2f(sum)) * kLn2;
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
        store_rows(maps.y, head * kWidth + i * 64, first_row + warp * 16, residue, batch, result + i * 64 * 128);
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
    attention_forward_kernel(const __grid_constant__ ForwardMaps maps, const __grid_constant__ ForwardWork work,
                             unsigned* counters) {
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
      if (threadIdx.x % 32 == 0) load_steps<K>(maps, work, places);
    } else if (threadIdx.x < K::kWarpgroups * 128 + 64) {
      plan_items<K>(work, counters, places);
    }
  }
}

}  // namespace strata::kernels

// SPDX-License-Identifier: MIT
// What the warps of a forward kernel do that do not multiply: one plans steps, and one thread of another copies tiles.
#pragma once

#include "kernels/attention/wgmma/forward_memory.cuh"

namespace strata::kernels {

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

}  // namespace strata::kernels

// SPDX-License-Identifier: MIT
// What the warps of a forward kernel do that do not multiply: one plans steps, and one thread of another copies tiles.
#pragma once

#include "kernels/attention/wgmma/forward_memory.cuh"

namespace strata::kernels {

namespace {

__device__ unsigned forward_counters[kWorkCounters];

}  // namespace

// One warp takes items and plans their steps ahead of the copies.
template <class K>
__device__ void plan_items(const ForwardWork& work, const ForwardPlaces<K>& places) {
  const int lane = static_cast<int>(threadIdx.x) % 32, items = work.items();
  RingTurn<K::kPlanned> turn;
  const auto number_after = [&](int number) {
    if (lane == 0 && number < items) number = static_cast<int>(gridDim.x + work.counter.take(forward_counters));
    return number;
  };
  const auto first_word = [&](const ForwardItem& item) {
    return item.first_step + lane < item.end_step ? work.steps[item.first_step + lane] : 0;
  };
  int number = static_cast<int>(blockIdx.x), next = number_after(number);
  ForwardItem item = {};
  if (number < items) item = find_item(work, number);
  int word = first_word(item);
  while (number < items) {
    number = __shfl_sync(0xffffffff, next, 0);
    next = number_after(number);
    ForwardItem next_item = {};
    if (number < items) next_item = find_item(work, number);
    const int key_column = item.query_head / work.shared_by * K::kWidth;
    visit_steps<K::kWarpgroups, K::kParts>(
        work, item, places.program(), word, [&](int tile, unsigned flags, bool is_first) {
          if (lane == 0) {
            const unsigned place = places.plan(turn.place);
            places.plan_read(turn.place).wait(turn.parity ^ 1);
            store_words(place, tile, static_cast<int>(flags));
            store_words(place + 8, is_first, key_column);
            if (is_first) {
              store_words(place + 16, item.query_tile * K::kWarpgroups * 64, item.batch_row);
              store_words(place + 24, item.residue, item.query_head);
            }
            places.planned(turn.place).arrive();
          }
          turn.next();
        });
    item = next_item;
    word = first_word(item);
  }
  if (lane == 0) {
    places.plan_read(turn.place).wait(turn.parity ^ 1);
    store_words(places.plan(turn.place), -1, 0);
    places.planned(turn.place).arrive();
  }
}

// One thread copies what is planned.
template <class K>
__device__ void load_steps(const ForwardMaps& maps, const ForwardPlaces<K>& places) {
  RingTurn<K::kPlanned> plan;
  RingTurn<K::kStages> turn;
  RingTurn<K::kItems> item;
  Sequence sequence = {};
  int tile_before = -1, column = 0;
  const auto load_keys = [&](const CUtensorMap& map, unsigned to, int tile, SharedBarrier full) {
#pragma unroll
    for (int i = 0; i < K::kBoxes; ++i) {
      load_rows(to + i * K::kKeyBox, map, column + i * 64, tile * K::kKeys, sequence, full);
    }
  };
  const auto load_values = [&](const RingTurn<K::kStages>& at, int tile) {
    places.value_empty(at.place).wait(at.parity ^ 1);
    places.value_full(at.place).arrive_expecting(K::kKeyTile);
    load_keys(maps.value, places.value(at.place), tile, places.value_full(at.place));
  };
  while (true) {
    places.planned(plan.place).wait(plan.parity);
    const uint4 step = load_shared(places.plan(plan.place));
    const bool is_first = step.z != 0;
    const uint4 item_words = is_first ? load_shared(places.plan(plan.place) + 16) : uint4{};
    places.plan_read(plan.place).arrive();
    plan.next();
    const int tile = static_cast<int>(step.x);
    if (tile < 0) break;
    column = static_cast<int>(step.w);
    if (is_first) {
      const int row = static_cast<int>(item_words.x), head = static_cast<int>(item_words.w);
      sequence = {static_cast<int>(item_words.y), static_cast<int>(item_words.z)};
      const SharedBarrier full = places.query_full(item.place);
      places.query_empty(item.place).wait(item.parity ^ 1);
      store_words(places.item(item.place), row, sequence.batch);
      store_words(places.item(item.place) + 8, sequence.residue, head);
      full.arrive_expecting(K::kWarpgroups * K::kBlock);
#pragma unroll 1
      for (int i = 0; i < K::kWarpgroups * K::kBoxes; ++i) {
        load_rows(places.query(item.place, 0) + i * kBoxBytes, maps.query, head * K::kWidth + i % K::kBoxes * 64,
                  row + i / K::kBoxes * 64, sequence, full);
      }
      item.next();
    }
    places.key_empty(turn.place).wait(turn.parity ^ 1);
    store_words(places.word(turn.place), tile, static_cast<int>(step.y));
    places.key_full(turn.place).arrive_expecting(K::kKeyTile);
    load_keys(maps.key, places.key(turn.place), tile, places.key_full(turn.place));
    // The values of a step are needed after the keys of the next one.
    if (tile_before >= 0) load_values(turn.before(), tile_before);
    tile_before = tile;
    if ((step.y & K::Flags::kLast) != 0) {
      load_values(turn, tile);
      tile_before = -1;
    }
    turn.next();
  }
  places.query_empty(item.place).wait(item.parity ^ 1);
  store_words(places.item(item.place), -1, 0);
  places.query_full(item.place).arrive();
}

}  // namespace strata::kernels

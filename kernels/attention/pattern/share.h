// SPDX-License-Identifier: MIT
// Share: whether none, some or all pairs of a rectangle of queries and keys are seen, found from its borders only.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/attention/pattern/program.h"

namespace strata::kernels {

struct Rectangle {
  int64_t first_query, end_query, first_key, end_key;  // never empty

  int64_t pairs() const { return (end_query - first_query) * (end_key - first_key); }
};

// The set of what is possible. An instruction's share is always known. That of an expression may not be: the pairs of
// two parts that both see some may be disjoint, or may be all pairs together.
class Share {
 public:
  constexpr Share() = default;
  static constexpr Share none() { return Share(kNone); }
  static constexpr Share some() { return Share(kSome); }
  static constexpr Share all() { return Share(kAll); }

  constexpr bool operator==(const Share&) const = default;
  constexpr bool may_be_none() const { return (possible_ & kNone) != 0; }
  // Two bits.
  constexpr uint32_t code() const { return *this == none() ? 0 : *this == all() ? 1 : 2; }

  friend constexpr Share operator&(Share a, Share b) {
    const uint8_t either = a.possible_ | b.possible_, common = a.possible_ & b.possible_;
    const bool some = ((either & kSome) != 0) && a.possible_ != kNone && b.possible_ != kNone;
    return Share((either & kNone) | (common & kAll) | (some ? kSome : 0) | ((common & kSome) != 0 ? kNone : 0));
  }
  friend constexpr Share operator|(Share a, Share b) { return (a.inverse() & b.inverse()).inverse(); }

 private:
  enum : uint8_t { kNone = 1, kSome = 2, kAll = 4 };

  explicit constexpr Share(int possible) : possible_(static_cast<uint8_t>(possible)) {}
  // The share of the pairs that are not seen.
  constexpr Share inverse() const {
    return Share((possible_ & kSome) | ((possible_ & kNone) != 0 ? kAll : 0) | ((possible_ & kAll) != 0 ? kNone : 0));
  }

  uint8_t possible_ = 0;
};

// Returns the share of one operation that pushes a value. The ids in `document_of` must not descend.
Share share_of(const Instruction& instruction, const Rectangle& rectangle, std::span<const int32_t> document_of);

}  // namespace strata::kernels

// SPDX-License-Identifier: MIT
// Divides the bits of an MPI tag into the number of a group of ranks and the kind of a message.
#pragma once

#include <algorithm>
#include <bit>

namespace strata::sharding {

// `highest_tag` is what MPI allows (MPI_TAG_UB): 2^31 - 1 in Open MPI's own transports, 2^23 - 1 in UCX, and 32767 at
// least. Groups get 11 bits, unless kinds would then have fewer than 8. More than 20 bits for kinds are not used.
class TagLayout {
 public:
  static constexpr int kLeastHighestTag = 32767;

  explicit TagLayout(int highest_tag)
      : highest_tag_(highest_tag),
        bits_(std::bit_width(static_cast<unsigned>(highest_tag) + 1) - 1),
        kind_bits_(std::clamp(bits_ - 11, 8, 20)) {}

  int highest_tag() const { return highest_tag_; }
  int groups() const { return 1 << (bits_ - kind_bits_); }
  // Kinds are in [0, kinds()). Tag 0 of group 0 belongs to the watchdogs, so kind 0 is tag 1 of its group.
  unsigned kinds() const { return (1u << kind_bits_) - 1; }
  int tag(int group, unsigned kind) const { return group << kind_bits_ | static_cast<int>(kind + 1); }

 private:
  int highest_tag_, bits_, kind_bits_;
};

}  // namespace strata::sharding

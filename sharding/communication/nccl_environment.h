// SPDX-License-Identifier: MIT
// What the environment tells NCCL, checked before NCCL reads it: its own errors for these come late and name no cause.
#pragma once

#include <string>
#include <vector>

namespace strata::sharding {

// Network interfaces of this host that have an address.
std::vector<std::string> network_interfaces();

// Why NCCL_SOCKET_IFNAME leaves none of `interfaces`; empty: some are left. Its forms: `eth,ib` (prefixes), `=eth0`
// (whole names), either after `^` for all others.
std::string why_no_interface(const std::string& socket_ifname, const std::vector<std::string>& interfaces);

// Sets what is not set: NCCL_NVLS_ENABLE=0, because multicast objects of NVLink are not to be made where others share
// the machine. Returns what is wrong; empty: nothing.
std::string prepare_nccl_environment();

}  // namespace strata::sharding

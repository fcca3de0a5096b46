// SPDX-License-Identifier: MIT
// Checks the environment variables of NCCL before NCCL reads them, because NCCL's own errors come late and name no
// cause.
#pragma once

#include <string>
#include <vector>

namespace strata::sharding {

// Returns the network interfaces of this host that have an address.
std::vector<std::string> network_interfaces();

// Returns why NCCL_SOCKET_IFNAME selects none of `interfaces`, or an empty text if it selects some. Its forms are
// `eth,ib` (prefixes) and `=eth0` (whole names); a `^` in front selects all others.
std::string why_no_interface_matches(const std::string& socket_ifname, const std::vector<std::string>& interfaces);

// Returns a text that is the same on all ranks of a host, as NCCL tells hosts apart: NCCL_HOSTID, or else the name and
// the boot of this host.
std::string nccl_host();

// Sets NCCL_NVLS_ENABLE=0 unless it is set, because NVLink multicast objects must not be created on a machine that is
// shared. Returns the problem with the environment, or an empty text.
std::string prepare_nccl_environment();

}  // namespace strata::sharding

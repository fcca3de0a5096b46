// SPDX-License-Identifier: MIT
#include "sharding/communication/nccl_environment.h"

#include <ifaddrs.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "base/text/joined.h"

namespace strata::sharding {

std::vector<std::string> network_interfaces() {
  std::vector<std::string> names;
  ifaddrs* first = nullptr;
  if (getifaddrs(&first) != 0) return names;
  for (const ifaddrs* one = first; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr) continue;
    if (std::find(names.begin(), names.end(), one->ifa_name) == names.end()) names.emplace_back(one->ifa_name);
  }
  freeifaddrs(first);
  return names;
}

std::string why_no_interface_matches(const std::string& socket_ifname, const std::vector<std::string>& interfaces) {
  std::string list = socket_ifname;
  const bool is_excluded = list.starts_with('^');
  if (is_excluded) list.erase(0, 1);
  const bool is_exact = list.starts_with('=');
  if (is_exact) list.erase(0, 1);
  std::vector<std::string> names;
  std::istringstream stream(list);
  for (std::string name; std::getline(stream, name, ',');) names.push_back(name);
  const auto is_left = [&](const std::string& interface) {
    const bool named = std::any_of(names.begin(), names.end(), [&](const std::string& name) {
      return is_exact ? interface == name : !name.empty() && interface.starts_with(name);
    });
    return named != is_excluded;
  };
  if (std::any_of(interfaces.begin(), interfaces.end(), is_left)) return "";
  return "NCCL_SOCKET_IFNAME is '" + socket_ifname + "', and no interface here fits; there " +
         (interfaces.empty() ? "are none" : "are: " + joined(interfaces, ", "));
}

std::string nccl_host() {
  const char* chosen = std::getenv("NCCL_HOSTID");
  if (chosen != nullptr && *chosen != '\0') return chosen;
  char name[256] = {};
  gethostname(name, sizeof(name) - 1);
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  return name + (" " + boot);
}

std::string prepare_nccl_environment() {
  setenv("NCCL_NVLS_ENABLE", "0", /*overwrite=*/0);
  const char* socket_ifname = std::getenv("NCCL_SOCKET_IFNAME");
  if (socket_ifname == nullptr || *socket_ifname == '\0') return "";
  return why_no_interface_matches(socket_ifname, network_interfaces());
}

}  // namespace strata::sharding

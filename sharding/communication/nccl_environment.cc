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

std::string why_no_interface(const std::string& socket_ifname, const std::vector<std::string>& interfaces) {
  std::string rest = socket_ifname;
  const bool others = rest.starts_with('^');
  if (others) rest.erase(0, 1);
  const bool whole = rest.starts_with('=');
  if (whole) rest.erase(0, 1);
  std::vector<std::string> wanted;
  std::istringstream stream(rest);
  for (std::string name; std::getline(stream, name, ',');) wanted.push_back(name);
  const auto is_left = [&](const std::string& interface) {
    const bool named = std::any_of(wanted.begin(), wanted.end(), [&](const std::string& name) {
      return whole ? interface == name : !name.empty() && interface.starts_with(name);
    });
    return named != others;
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
  return why_no_interface(socket_ifname, network_interfaces());
}

}  // namespace strata::sharding

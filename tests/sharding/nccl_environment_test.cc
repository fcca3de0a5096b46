// SPDX-License-Identifier: MIT
// Checks NCCL_SOCKET_IFNAME in all its forms against the interfaces of a host.
#include "sharding/communication/nccl_environment.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace strata::sharding {
namespace {

const std::vector<std::string> kInterfaces = {"lo", "eth0", "ib0", "ib1"};

TEST(NcclEnvironment, FormsThatLeaveAnInterface) {
  for (const char* value : {"eth", "eth0", "=eth0", "bond,ib", "=bond0,ib1", "^lo", "^=lo,eth0", "^docker"}) {
    EXPECT_EQ(why_no_interface_matches(value, kInterfaces), "") << value;
  }
}

TEST(NcclEnvironment, FormsThatLeaveNone) {
  for (const char* value : {"bond0", "=eth", "=ib", "eth1,en", "^lo,eth,ib", "^=lo,eth0,ib0,ib1"}) {
    EXPECT_EQ(why_no_interface_matches(value, kInterfaces),
              "NCCL_SOCKET_IFNAME is '" + std::string(value) +
                  "', and no interface here fits; there are: lo, eth0, ib0, ib1");
  }
  EXPECT_EQ(why_no_interface_matches("eth0", {}),
            "NCCL_SOCKET_IFNAME is 'eth0', and no interface here fits; there are none");
}

TEST(NcclEnvironment, HostsAreThoseOfNccl) {
  unsetenv("NCCL_HOSTID");
  const std::string here = nccl_host();
  EXPECT_GT(here.size(), 36u) << "a name and the id of a boot: " << here;
  EXPECT_EQ(nccl_host(), here);
  setenv("NCCL_HOSTID", "another", 1);
  EXPECT_EQ(nccl_host(), "another");
  unsetenv("NCCL_HOSTID");
}

TEST(NcclEnvironment, IsRefused) {
  ASSERT_FALSE(network_interfaces().empty());
  setenv("NCCL_SOCKET_IFNAME", "=nosuchinterface0", 1);
  const std::string wrong = prepare_nccl_environment();
  EXPECT_EQ(wrong.find("NCCL_SOCKET_IFNAME is '=nosuchinterface0', and no interface here fits"), 0u) << wrong;
  setenv("NCCL_SOCKET_IFNAME", ("=" + network_interfaces()[0]).c_str(), 1);
  EXPECT_EQ(prepare_nccl_environment(), "");
}

TEST(NcclEnvironment, MulticastIsOffUnlessSomebodySaysOtherwise) {
  unsetenv("NCCL_SOCKET_IFNAME");
  unsetenv("NCCL_NVLS_ENABLE");
  prepare_nccl_environment();
  EXPECT_STREQ(std::getenv("NCCL_NVLS_ENABLE"), "0");
  setenv("NCCL_NVLS_ENABLE", "1", 1);
  prepare_nccl_environment();
  EXPECT_STREQ(std::getenv("NCCL_NVLS_ENABLE"), "1");
}

}  // namespace
}  // namespace strata::sharding

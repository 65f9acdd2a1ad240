// What the environment says: HCCL_* as the vendor names them, ANYCEND_* of our own (docs/env.yaml). Read at every use, which is
// rare (initialisation), so that a program may set them late. What it is not: HcclCommConfig (communicator.h).
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace softnpu::hccl {

using Clock = std::chrono::steady_clock;
using Deadline = Clock::time_point;

struct Settings {
  std::chrono::seconds connect_timeout{120};  // HCCL_CONNECT_TIMEOUT; docs/env.yaml's default, as in the plugin
  std::chrono::seconds exec_timeout{1836};    // HCCL_EXEC_TIMEOUT; 0 waits for ever
  std::chrono::seconds host_timeout{10};      // ANYCEND_HOST_TIMEOUT: a host that is silent for so long is lost
  uint16_t base_port = 60000;                 // HCCL_IF_BASE_PORT: the first of 16
  bool base_port_named = false;               // the user chose it: a taken port is an error, not a reason to move on
  std::optional<std::string> interface_ip;    // HCCL_IF_IP
  std::string interface_names;  // HCCL_SOCKET_IFNAME: "eth0,eth1" prefixes, "=eth0" exact, "^docker" excluded
  bool whitelist = false;       // HCCL_WHITELIST_DISABLE=0
  std::string whitelist_file;   // HCCL_WHITELIST_FILE
  std::string secret;           // ANYCEND_HCCL_SECRET, or what the file ANYCEND_HCCL_SECRET_FILE holds
  bool strict = false;          // ANYCEND_STRICT: refuse what the chosen SoC refuses
};

Settings settings();

// The address that the sockets of this process bind to and others reach it at (numeric). Throws if the user named what is not there.
std::string own_address(const Settings& s);

// The interface that has this address ("eth0"), empty if none has.
std::string interface_of(const std::string& address);

// Names this host: the boot and the network namespace, or ANYCEND_HOST_ID.
std::string host_identity();

}  // namespace softnpu::hccl

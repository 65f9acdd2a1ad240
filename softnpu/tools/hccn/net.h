// What the kernel knows about the host's interfaces, and echoes to other addresses. What it is not: configuration (conf.h).
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace softnpu::hccn {

bool is_address(const std::string& text);  // four numbers
bool is_netmask(const std::string& text);  // ones, then zeros

// The interface that has an address; empty when none has.
std::string interface_with(const std::string& address);
bool is_up(const std::string& interface);
std::string mac_of(const std::string& interface);
uint64_t statistic(const std::string& interface, const char* name);

enum class Echo { kSuccess, kSocketFail, kTimeout, kUnreachable, kTimeExceeded };
struct Answer {
  Echo echo;
  double milliseconds;
};
// One echo request, from `source` when that is not empty. Where ICMP is not allowed, a TCP handshake: refused is an answer, too.
Answer ping(const std::string& source, const std::string& address, uint16_t sequence, std::chrono::milliseconds limit);

}  // namespace softnpu::hccn

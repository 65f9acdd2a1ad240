// The address that a device has for data between hosts: what hccn_tool or the rank table gave it, else the host's own.
#pragma once

#include <string>

namespace softnpu::hccl {

// `table`: device_ip of the rank table, empty without one. The file that ANYCEND_HCCN_CONF names is taken at its word; an address
// from /etc/hccn.conf or a rank table counts only where an interface has it: it may be that of a real NPU's own card.
std::string device_address(int device, const std::string& table, const std::string& host);

}  // namespace softnpu::hccl

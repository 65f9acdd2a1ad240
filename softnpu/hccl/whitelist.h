// HCCL_WHITELIST_DISABLE=0 with HCCL_WHITELIST_FILE: the addresses that may take part. Off by default, as in the vendor's.
#pragma once

#include <set>
#include <string>

#include "softnpu/hccl/settings.h"

namespace softnpu::hccl {

class Whitelist {
 public:
  explicit Whitelist(const Settings& s);  // throws when the list is wanted and cannot be read
  bool allows(const std::string& address) const { return !on_ || addresses_.count(address) > 0; }
  void require(const std::string& address, const char* whose = "root") const;  // throws HCCL_E_TCP_CONNECT
  std::string reason() const { return "not in the white list " + file_ + " (HCCL_WHITELIST_FILE)"; }

 private:
  bool on_;
  std::string file_;
  std::set<std::string> addresses_;
};

}  // namespace softnpu::hccl

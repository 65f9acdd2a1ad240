// Keeps strangers from listening sockets that a library opened and does not guard: the kernel takes packets for them only from the
// addresses of the job's members (a socket filter, which needs no rights). Somebody on a member's host still gets through.
// Who calls it: carrier_ucx.cpp.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "softnpu/hccl/network/carrier.h"

namespace softnpu::hccl {

class Gate {
 public:
  using Ports = std::set<int>;
  static Ports ports();             // this process's listening TCP sockets
  void close(const Ports& before);  // those that are new take nothing
  void open(const Addresses& addresses);

 private:
  void set() const;
  std::vector<int> sockets_;
  std::set<std::string> from_;
};

}  // namespace softnpu::hccl

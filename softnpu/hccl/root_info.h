// What HcclRootInfo's 4,108 bytes hold: where the root listens and the key that only this communicator's ranks know.
#pragma once

#include <string>

#include "hccl/types.h"
#include "softnpu/hccl/member.h"

namespace softnpu::hccl {

struct RootInfo {
  std::string address;
  uint16_t port;
  Key key;
};

void encode(const RootInfo& info, HcclRootInfo* out);
RootInfo decode(const HcclRootInfo& bytes);  // throws HCCL_E_PARA when they are not ours

}  // namespace softnpu::hccl

// The ways to a communicator. Each throws, and none returns before all ranks are linked.
#pragma once

#include "softnpu/hccl/communicator.h"
#include "softnpu/hccl/root_info.h"

namespace softnpu::hccl {

Options default_options();
Options options_of(const HcclCommConfig* config);  // checks the head that HcclCommConfigInit writes

RootInfo make_root_info();
CommunicatorPtr init_from_root(RootInfo root, uint32_t ranks, uint32_t rank, const Options& options);
CommunicatorPtr init_from_table(const char* file, uint32_t rank, const Options& options);
std::vector<CommunicatorPtr> init_all(uint32_t ranks, const int32_t* devices);
CommunicatorPtr init_sub(Communicator& parent, const std::vector<uint32_t>& ranks, uint64_t id, uint32_t rank,
                         const Options& options);

}  // namespace softnpu::hccl

// libucp's functions that this room calls. The library is loaded when a communicator first spans hosts that have
// RDMA cards; other jobs need neither it nor its package. Who calls it: carrier_ucx.cpp, worker.cpp.
// What it is not: a transport (wire.h).
#pragma once

#include <ucp/api/ucp.h>

namespace softnpu::hccl {

#define HCCL_UCP_FUNCTIONS(X)   \
  X(config_read)                \
  X(config_modify)              \
  X(config_release)             \
  X(init_version)               \
  X(worker_create)              \
  X(worker_query)               \
  X(worker_release_address)     \
  X(worker_get_efd)             \
  X(worker_arm)                 \
  X(worker_progress)            \
  X(worker_flush_nbx)           \
  X(ep_create)                  \
  X(ep_close_nbx)               \
  X(worker_set_am_recv_handler) \
  X(am_send_nbx)                \
  X(am_recv_data_nbx)           \
  X(request_check_status)       \
  X(request_free)

struct Ucx {
#define HCCL_UCP_MEMBER(name) decltype(&::ucp_##name) name;
  HCCL_UCP_FUNCTIONS(HCCL_UCP_MEMBER)
#undef HCCL_UCP_MEMBER
  const char* (*status_string)(ucs_status_t);
};

// Throws HCCL_E_UNAVAIL naming the package when the library is not there.
const Ucx& ucx();

bool rdma_devices();  // of this host
// There are some, or the user named a transport (UCX_TLS).
bool ucx_wanted();

}  // namespace softnpu::hccl

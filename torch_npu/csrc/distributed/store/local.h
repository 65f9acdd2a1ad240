// Local sockets of this host's processes: abstract names, nothing of which lies in the file system. A connection through one costs
// the kernel a fraction of TCP's. They belong to the network namespace, as ports do.
#pragma once

#include <netdb.h>

#include <cstdint>
#include <string>

namespace npu::distributed::store {

// Of the proxy in process `pid`, and of the server at `port`.
std::string proxy_name(int64_t pid);
std::string server_name(uint16_t port);

// A connected socket that does not block, or -1 and errno.
int connect_local(const std::string& name);
// Whether the other end is run by this user: abstract names are anybody's.
bool same_user(int fd);
// Whether the address is one of this host's and namespace's.
bool is_here(const addrinfo& address);

}  // namespace npu::distributed::store

// See bootstrap_connection.h.
#include "softnpu/hccl/bootstrap_connection.h"

#include <sys/socket.h>

#include <cerrno>

namespace softnpu::hccl {

void Connection::send(uint32_t type, const void* data, size_t size) noexcept {
  waiting += frame_bytes(type, data, size);
  flush();
}

void Connection::flush() noexcept {
  while (!waiting.empty()) {
    const ssize_t sent = ::send(socket.get(), waiting.data(), waiting.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && errno == EAGAIN) return;
    if (sent <= 0) return waiting.clear();  // whoever hung up needs no reason: its end is read
    waiting.erase(0, static_cast<size_t>(sent));
  }
}

}  // namespace softnpu::hccl

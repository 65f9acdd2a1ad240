// Somebody at the root's port, from accept on. Nothing here ever waits: what has not come is read later, what the other side does
// not take is kept and sent later. Until it has proved that it knows a session's key (handshake.h) it is a stranger: it may say
// little, and not for long. Who calls it: bootstrap_server.cpp, on the control thread.
#pragma once

#include <memory>
#include <optional>

#include "softnpu/hccl/handshake.h"
#include "softnpu/hccl/socket.h"

namespace softnpu::hccl {

struct Connection {
  explicit Connection(Fd s) : socket(std::move(s)), deadline(Clock::now() + kStrangersTime) {}
  // A rank says hello as soon as it is connected. One that was stopped for longer than this tries again (bootstrap.cpp).
  static constexpr std::chrono::seconds kStrangersTime{10};
  static constexpr size_t kStrangersFrame = 1024, kRanksFrame = 64 << 10;

  std::optional<Frame> read() { return reader.read(socket.get(), joined ? kRanksFrame : kStrangersFrame); }
  void send(uint32_t type, const void* data, size_t size) noexcept;
  void flush() noexcept;  // what the socket takes now

  Fd socket;
  FrameReader reader;
  std::string waiting;  // to be sent
  const Deadline deadline;
  std::optional<std::pair<Hello, Challenge>> asked;
  bool joined = false, linked = false;
  uint32_t rank = 0;
};
using ConnectionPtr = std::shared_ptr<Connection>;

}  // namespace softnpu::hccl

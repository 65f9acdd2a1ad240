// A TCP connection that the control thread keeps for as long as a communicator lives: frames both ways without ever blocking it, and
// a beat five times a second. Silence ends it: a connection outlives its process where a child holds the socket, and its host.
// What it is not: what the frames mean (control.h).
#pragma once

#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "softnpu/hccl/socket.h"

namespace softnpu::hccl {

// How a process that is gone went: it said goodbye, it hung up without, or nothing is heard of it any more.
enum class Farewell : uint32_t { kSaid, kMissing, kSilence };

class Line {
 public:
  explicit Line(Fd socket);
  int fd() const { return socket_.get(); }

  // From any thread. What the kernel does not take at once goes out with the next ticks.
  void say(uint32_t type, const void* data, size_t size) noexcept;
  // At exit: gives what was said a moment to get out.
  void flush() noexcept;

  // The next three on the control thread only. Reads what is there; false at the connection's end.
  bool read(const std::function<void(uint32_t type, const std::vector<std::byte>& bytes)>& hear);
  // About ten times a second; false when it is over.
  bool tick();
  // Once it is over.
  Farewell how() const { return how_; }

 private:
  bool push() noexcept;  // mutex_ held

  Fd socket_;
  std::mutex mutex_;  // guards the next two
  std::string unsent_;
  bool over_ = false;
  std::string unread_;
  Farewell how_ = Farewell::kMissing;
  const std::chrono::nanoseconds limit_;
  std::chrono::nanoseconds silence_{};  // in which this process ran: one that was stopped has missed nothing
  Deadline last_tick_, next_beat_{};
};

// The frame that says nothing but that its sender lives.
constexpr uint32_t kBeat = 0;

}  // namespace softnpu::hccl

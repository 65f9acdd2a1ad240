// Between hosts, each rank keeps one TCP connection to the root's process for as long as its communicator lives: what the local
// sockets of peers.h are inside a host. The root passes on to all what one says: an error, a farewell, a question who is missing;
// and it says who hung up without a goodbye, or fell silent (line.h).
// What it is not: a way of data (wire.h). All of it runs on the control thread; send() may be called from any.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "softnpu/hccl/member.h"
#include "softnpu/hccl/network/line.h"

namespace softnpu::hccl {

enum class Say : uint32_t { kAbort = 32, kLeft, kAsk, kPresent, kGone, kBye };

// What is said; plain bytes, and more bytes after them for kAbort (the text) and kPresent (the ranks that have come). `key` is the board's of the communicator (kLeft: its own, whatever the board; kGone: the process).
struct Saying {
  Key key;
  uint32_t rank;      // who says it; kGone: nobody
  uint32_t sequence;  // kLeft: operations it took part in; kAsk, kPresent: the operation asked about
  uint32_t code;      // kAbort: HcclResult; kPresent: the rank that asked; kGone: the process's number
  uint32_t how;       // kLeft: Left; kGone: Farewell
};

// A rank's side.
class ControlLink : public std::enable_shared_from_this<ControlLink> {
 public:
  // Takes over the connection that the bootstrap made; `root`: the process at its other end.
  static std::shared_ptr<ControlLink> open(Fd socket, const Key& root);
  ~ControlLink();
  const Key& root() const { return root_; }
  void say(Say what, const Saying& saying, const void* more = nullptr, size_t size = 0) noexcept;
  // At the orderly end of the process.
  void bye() noexcept;

 private:
  ControlLink(Fd socket, const Key& root) : line_(std::move(socket)), root_(root) {}
  void readable();
  void end(Farewell how);
  Line line_;
  const Key root_;
  bool over_ = false;  // control thread only
};
using ControlLinkPtr = std::shared_ptr<ControlLink>;

// What is heard, told to the process's communicators (listen.cpp).
struct Heard {
  Say what;
  Saying saying;
  std::vector<std::byte> more;
};
void hear(const Heard& heard, ControlLink* from);
void root_lost(const Key& process, Farewell how);
void say_farewells();  // of the process that ends in order

// The root's side: the connections of all members, kept until the last one hangs up.
void serve_control(std::vector<std::pair<Fd, Member>> connections);

}  // namespace softnpu::hccl

// Messages between processes on different hosts: a thread of its own owns the carrier (TCP, or UCX where there is RDMA), takes orders
// from a queue, and sleeps on the carrier's event descriptor. Data goes from and to blocks that the wire holds until it is done with them. A lent
// block is somebody's own memory: whoever gives up waiting takes it back, so that nothing is read or written later.
// What it is not: the meaning of a message (a 64-bit tag is all it knows), nor who is alive (control.h).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "softnpu/hccl/board.h"
#include "softnpu/hccl/member.h"

namespace softnpu::hccl {

// Memory that is sent or received into: from a pool, or lent.
class Block {
 public:
  explicit Block(size_t bytes);
  Block(const std::byte* lent, size_t bytes) : data_(const_cast<std::byte*>(lent)), size_(bytes), lent_(true) {}
  ~Block();
  Block(const Block&) = delete;
  std::byte* data() const { return data_; }
  size_t size() const { return size_; }
  bool lent() const { return lent_; }

 private:
  std::byte* data_;
  size_t size_;
  const bool lent_ = false;
};
using BlockPtr = std::shared_ptr<Block>;

// Whom to wake when a parcel is through: the rank's bell on its board.
struct Bell {
  std::shared_ptr<Board> board;
  uint32_t rank;
  void ring() const noexcept;
};

// A message on its way.
struct Parcel {
  enum State : int { kMoving, kThrough, kLost };
  std::atomic<int> state{kMoving};
  std::atomic<bool> dropped{false};  // nobody waits for it any more
  uint64_t tag = 0;
  size_t bytes = 0;
  BlockPtr block;
  Bell bell;
  Key to{};  // of a send
  bool out = false;
  bool sending = false;  // the wire's own
  std::string error;     // once lost
  bool done() const { return state.load(std::memory_order_acquire) != kMoving; }
  void end(State how, const std::string& why = {});
};
using ParcelPtr = std::shared_ptr<Parcel>;

class Wire {
 public:
  // Opens it at first use, on the interface that has `address`. Throws HCCL_E_UNAVAIL where UCX is wanted and not there, HCCL_E_TCP_CONNECT otherwise.
  static Wire& get(const std::string& address);

  // How others reach this process. They may call it once they are admitted (from an address, knowing a communicator's key), and
  // are called once that communicator stands and they, too, have admitted all.
  const std::string& name() const;
  void admit(const Key& process, const std::string& from, const Key& communicator);
  void learn(const Key& process, const std::string& name, const Key& communicator);

  ParcelPtr send(const Key& process, uint64_t tag, BlockPtr block, size_t bytes, Bell bell);
  ParcelPtr receive(uint64_t tag, BlockPtr block, Bell bell);
  // Nobody waits for it any more: the wire ends it soon. Until then a lent block is still the wire's.
  void drop(const ParcelPtr& parcel);
  bool closed() const;  // the process ends: the wire touches nothing any more

 private:
  explicit Wire(const std::string& address);
  struct Worker;
  Worker* worker_;  // leaked: its thread lives as long as the process
};

// Everything that makes a message this one and no other, in 64 bits. Two of the messages under way to a process get the same number
// with a probability of about 2^-64 for each pair, given that the key is random.
enum class Mail : uint32_t { kPosts, kPartial, kResult, kMove, kMessage };
uint64_t tag_of(const Key& key, Mail kind, uint32_t from, uint32_t to, uint32_t sequence, uint32_t index);

}  // namespace softnpu::hccl

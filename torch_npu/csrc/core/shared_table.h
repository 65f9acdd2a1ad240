// Which messages about shared memory are still needed: a table in a memfd of the sender, one slot a message. A slot is on its way
// until the message was received, and held while a process has locked its byte: a POSIX lock, which the kernel takes back when
// the process dies, however it does. So the sender always knows, and no process leaves anything behind.
// What it is not: the memory (sharing.h). Who calls it: sharing.cpp. All of it is safe for threads.
#pragma once

#include <cstdint>

namespace npu {

// Names a slot of a process's table. Plain data: it travels in messages.
struct SharedTicket {
  uint64_t table = 0;  // a random number: a process id may be used again
  int32_t pid = 0;     // whose table it is
  int32_t fd = -1;     // the table's descriptor there, opened through /proc: same user, same host, same container
  uint32_t slot = 0;
  uint32_t generation = 0;  // of the slot: it changes when the slot is free again
};

// --- the sender's side: this process's own table, made at the first message ---

SharedTicket issue_ticket();
bool is_own(const SharedTicket& ticket) noexcept;
// The message is under way still: nobody has received it.
bool is_on_its_way(uint32_t slot) noexcept;
// Nobody will receive the message any more.
void give_up(uint32_t slot) noexcept;
// Frees the slot if its message was received and no other process holds it. Cost: one fcntl.
bool try_retire(uint32_t slot) noexcept;

// --- the receiver's side ---

// Holds the slot in another process's table while it lives. Throws c10::Error when that process has ended or has retired the slot.
class SharedHold {
 public:
  explicit SharedHold(const SharedTicket& ticket);
  ~SharedHold();
  SharedHold(const SharedHold&) = delete;
  SharedHold& operator=(const SharedHold&) = delete;

 private:
  SharedTicket ticket_;
};

// Tells the sender, which may be this process or gone, that its message has arrived.
void mark_received(const SharedTicket& ticket) noexcept;
// Closes the tables of processes of which nothing is held.
void close_idle_tables() noexcept;

}  // namespace npu

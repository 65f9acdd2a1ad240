// The race detector (ANYCEND_CHECK=race): what the runtime tells it, and what it answers. It decides by the order of calls alone, not
// by what happened to run when: a program that lacks an edge is found on every run that touches the same memory again.
// An edge is: the order of a stream; the host's submission; an event recorded and waited for; a host that waited, or asked and was told
// "done", unless its allocator asks for itself. Who calls it: softnpu/runtime, where streams, events, copies and memory are.
// Other processes are looked at where memory is shared with them (peers.h).
// What it is not: threads of the host against each other (ThreadSanitizer), units of a core (ANYCEND_CHECK=kernel).
// Thread-safe; its one lock is a leaf. A stream is named by its address and the numbers that users know.
#pragma once

#include <cstddef>
#include <cstdint>

#include "softnpu/race/accesses.h"
#include "softnpu/race/stamp.h"

namespace softnpu::race {

inline bool on() noexcept { return watched(kRaces); }

// For the life of the process. `fails`: a call that completes a race fails (see task).
// `folder`: where processes find each other; none: they do not.
void start(bool fails, const char* folder = "") noexcept;

struct Stream {
  const void* key;
  int device, number;
  uint64_t capture = 0;  // the capture that it is in: what it is given does not run, and is in an order of its own
};

// A task was given to the stream. Returns null, or, where races are errors, the report of one that it completes; it stays.
const char* task(const Stream& stream, const char* name, const Accesses& accesses) noexcept;
// The host itself touches memory, now.
const char* host(const char* name, const Accesses& accesses) noexcept;

// What `host` returned, where no call could fail: the next task does.
void owe(const char* report) noexcept;
// Whether there was no next task so far.
bool owes() noexcept;

void recorded(const void* event, const Stream& stream) noexcept;
// `flag`: it may be recorded later than it is waited for; until then nothing is known of the stream's order.
void waited(const void* event, const Stream& stream, bool flag) noexcept;
// The order of what the stream is given is not known from here on, until the host has waited for it.
void unknown(const Stream& stream) noexcept;
void forget_event(const void* event) noexcept;
// A flag, by the stream: what waits for it later waits for a later record.
void taken_down(const void* event, const Stream& stream) noexcept;

// An event that other processes see: the stamp is theirs, too. `joined`: one more record of it, not ordered with the last.
void recorded(Stamp& stamp, const Stream& stream, bool joined) noexcept;
void waited(const Stamp& stamp, const Stream& stream) noexcept;
void host_saw(const Stamp& stamp) noexcept;
// The stream's tasks so far may let the host know of them without a word to us, and it may tell other processes (`says`); what the stream
// is given from here on may wait for what a host hears (`hears`). Both for other processes alone.
void opens(const Stream& stream, bool says, bool hears) noexcept;
// It was destroyed, and its tasks with it, which the caller has waited for. For other processes alone.
void destroyed(const void* stream) noexcept;
// All is over: the process ends.
void all_over() noexcept;
// The memory is also `bytes` of another file from `offset` on, for other processes. `mine`: this one is the owner.
void shared(const void* address, uint64_t bytes, int file, uint64_t offset, bool mine) noexcept;

void host_waited(const void* stream) noexcept;
void host_saw(const void* event) noexcept;
// Whether the calling thread waits and asks for the client's library (an allocator, a watchdog), not for the program: then neither makes
// order, as it happens or not by chance. Returns what was so before.
bool own_question(bool own) noexcept;
// That library has seen the event itself: for this memory, what was before the event's record is over.
void over(const void* event, const void* address, uint64_t bytes) noexcept;
void capture_over(uint64_t capture) noexcept;

// What reports call the stream; else its number of aclrtStreamGetId.
void numbered(const Stream& stream, int number) noexcept;

// The memory was given back to the device or the host.
void freed(const void* address, uint64_t bytes) noexcept;
// It is not at that address any more, and may be at another one, or in another process.
void unmapped(const void* address, uint64_t bytes) noexcept;
// What `shared` told of as ours was given back, wherever it was mapped.
void given_back(int file, uint64_t offset, uint64_t bytes) noexcept;
// A caching allocator gives it out, to be reused in the order of that stream.
void given(const void* address, uint64_t bytes, const Stream& owner) noexcept;

// Races found so far, each pair of lines once.
uint64_t found() noexcept;
// The text of the n-th, from 0 on; null when there are fewer. It stays.
const char* report(uint64_t n) noexcept;

}  // namespace softnpu::race

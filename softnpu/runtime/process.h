// The process's life as the runtime sees it: running, a forked child of a process that used the NPU, or exiting.
// Who uses it: the guard of every export; device and executor call `mark_started` before the first mapping or thread.
#pragma once

#include <atomic>
#include <cstdint>

namespace softnpu {

enum class Life : uint32_t { kRunning, kForked, kExited };

extern std::atomic<Life> g_life;

inline Life life() noexcept { return g_life.load(std::memory_order_relaxed); }

// From the first call on, a forked child is dead to the NPU and exit drains the streams. Cheap to repeat.
void mark_started() noexcept;

// Drains every stream (for at most a few seconds), stops the threads, refuses later calls. Runs at exit.
void shut_down() noexcept;

// Whether another process runs no more, be it gone or waiting for its parent to take note (a zombie).
bool has_ended(int pid) noexcept;

}  // namespace softnpu

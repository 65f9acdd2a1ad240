// What a forked child of a process that used this library must not do: call it, and hold its descriptors open, which would hide the
// parent's death from the peers. What it is not: exec, which closes all of them (CLOEXEC). Who calls it: hub.cpp, status.h.
#pragma once

namespace softnpu::hccl {

// From the first call on, a forked child is refused. Before, a child may use the library as any process.
void guard_forks();

// In a child of a guarded process.
bool forked() noexcept;

// A child closes it, until it is forgotten (before it is closed here: its number may be somebody else's then).
void close_in_children(int descriptor);
void forget_descriptor(int descriptor);

}  // namespace softnpu::hccl

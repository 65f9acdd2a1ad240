// Locks on stretches of the files in which processes meet. They belong to the open file, not to the process id, so any thread may hold them,
// and a child of fork that closes its copy of the descriptor does not drop them; the kernel lets go of them when their process ends.
// Who uses it: ledger.cpp, and the registries of softnpu/runtime.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cstdint>

namespace softnpu::race {

// What F_OFD_SETLK and F_OFD_GETLK are asked with.
inline struct flock lock_of(short type, int64_t start, int64_t length) noexcept {
  struct flock l = {};
  l.l_type = type;
  l.l_whence = SEEK_SET;
  l.l_start = start;
  l.l_len = length;
  return l;
}

// Does not wait. False: somebody else holds it (EAGAIN or EACCES), or errno says what is wrong.
inline bool set_lock(int fd, short type, int64_t start, int64_t length) noexcept {
  const struct flock l = lock_of(type, start, length);
  return fcntl(fd, F_OFD_SETLK, &l) == 0;
}

}  // namespace softnpu::race

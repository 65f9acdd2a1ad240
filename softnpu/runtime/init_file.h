// The configuration file of aclInit: JSON. What the software NPU can do of it is obeyed, the rest is refused by name, so that
// nobody waits for a dump that never comes.
#pragma once

namespace softnpu {

// Throws Error: 100003 (cannot be read), 100006 (not JSON), 100008 (a value that cannot be), 200006 (not supported).
void apply_init_file(const char* path);

// The device of threads that have chosen none (defaultDevice), or -1.
int default_device() noexcept;

}  // namespace softnpu

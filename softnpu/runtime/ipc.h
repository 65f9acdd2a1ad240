// Device memory of another process of the same user on the same host. Keys name a process and the memfd it holds open; the
// importer opens that through /proc, which the kernel allows to the same user only, and checks the name of what it got.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace softnpu {

// aclrtIpcMem*: a stretch of device memory by a text key.
std::string export_key(const void* pointer, size_t size);
void* import_key(const char* key);
void close_key(const char* key);
// The device is being reset: what was imported on it is unmapped, and its keys may be imported anew.
void release_imports(int device) noexcept;
// Throws unless `key` is one of ours.
void check_key(const char* key);

// aclrtMemExport/ImportShareableHandle: a physical memory handle by a number.
uint64_t export_physical(void* handle);
void* import_physical(uint64_t shareable, int device);

}  // namespace softnpu

#include "softnpu/runtime/ipc.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

#include "softnpu/race/race.h"
#include "softnpu/runtime/arena.h"
#include "softnpu/runtime/config.h"
#include "softnpu/runtime/device.h"
#include "softnpu/runtime/enqueue.h"
#include "softnpu/runtime/error.h"
#include "softnpu/runtime/virtual_memory.h"
#include "softnpu/runtime/watch.h"

namespace softnpu {
namespace {

struct Key {
  int pid, fd, device;
  unsigned long long arena, offset, size;
};

bool parse(const char* text, Key* k) {
  int used = 0;
  return text &&
         sscanf(text, "anycend1:%d:%d:%d:%llx:%llx:%llx%n", &k->pid, &k->fd, &k->device, &k->arena, &k->offset,
                &k->size, &used) == 6 &&
         text[used] == 0;
}

// Opens the descriptor of another process if it is what the name says.
int open_foreign(int pid, int fd, const char* memfd_name) {
  char path[64], link[128], want[96];
  snprintf(path, sizeof path, "/proc/%d/fd/%d", pid, fd);
  ssize_t n = readlink(path, link, sizeof link - 1);
  if (n < 0) fail(ACL_ERROR_RT_IPC_ERROR, "process %d is gone, or belongs to another user or container", pid);
  link[n] = 0;
  snprintf(want, sizeof want, "/memfd:%s", memfd_name);
  if (strncmp(link, want, strlen(want)) != 0)
    fail(ACL_ERROR_RT_IPC_ERROR, "process %d no longer holds that memory", pid);
  int got = open(path, O_RDWR | O_CLOEXEC);
  if (got < 0) fail(ACL_ERROR_RT_IPC_ERROR, "cannot open the memory of process %d: %s", pid, strerror(errno));
  return got;
}

std::string arena_name(int device, unsigned long long arena) {
  return "anycend-npu" + std::to_string(device) + "-" + std::to_string(arena);
}

// The physical id's index here, or -1 where it is not visible: then the memory counts as no device's of ours.
int logical(int physical) {
  auto& v = config().visible;
  for (size_t i = 0; i < v.size(); ++i)
    if (v[i] == physical) return int(i);
  return -1;
}

struct Imports {
  struct Import {
    void* pointer;
    int users;
    int device;
  };
  std::mutex mutex;
  std::map<std::string, Import> by_key;
};
Imports& imports() {
  static Imports& i = *new Imports;
  return i;
}

// What a 64-bit handle stands for: a table in a memfd of the exporter, found among its descriptors by name.
struct Entry {
  uint64_t nonce, offset, size, arena;
  int32_t fd, device;
};
constexpr uint64_t kEntries = 1 << 16;
constexpr const char* kTableName = "anycend-exports";

struct Exports {
  Entry* entries;
  std::atomic<uint64_t> next{1};
  Exports() {
    int fd = memfd_create(kTableName, MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, sizeof(Entry) * kEntries) != 0)
      fail(ACL_ERROR_RT_IPC_ERROR, "cannot make the table of exports: %s", strerror(errno));
    void* p = mmap(nullptr, sizeof(Entry) * kEntries, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED) fail(ACL_ERROR_RT_IPC_ERROR, "cannot map the table of exports: %s", strerror(errno));
    entries = static_cast<Entry*>(p);
  }
};
Exports& exports() {
  static Exports& e = *new Exports;
  return e;
}

int find_table(int pid) {
  char folder[48];
  snprintf(folder, sizeof folder, "/proc/%d/fd", pid);
  DIR* dir = opendir(folder);
  if (dir == nullptr) fail(ACL_ERROR_RT_IPC_ERROR, "process %d is gone, or belongs to another user or container", pid);
  int found = -1;
  while (dirent* d = readdir(dir)) {
    char path[320], link[128];
    snprintf(path, sizeof path, "%s/%s", folder, d->d_name);
    ssize_t n = readlink(path, link, sizeof link - 1);
    if (n < 0) continue;
    link[n] = 0;
    if (strncmp(link, "/memfd:anycend-exports", 22) == 0) {
      found = open(path, O_RDONLY | O_CLOEXEC);
      break;
    }
  }
  closedir(dir);
  if (found < 0) fail(ACL_ERROR_RT_IPC_ERROR, "process %d exports nothing", pid);
  return found;
}

}  // namespace

std::string export_key(const void* pointer, size_t size) {
  need(pointer, "devPtr");
  Device* d = Device::holding(pointer);
  if (d == nullptr) fail(ACL_ERROR_RT_PARAM_INVALID, "%p is not memory of a device of this process", pointer);
  Arena& a = d->arena();
  Arena::Block block = a.find(pointer);
  uint64_t at = a.offset(pointer);
  if (block.taken == 0 || size > block.offset + block.taken - at)
    fail(ACL_ERROR_RT_PARAM_INVALID, "[%p, +%zu) is not inside one live block", pointer, size);
  watch_if_asked();
  if (race::on()) race::shared(pointer, size, a.fd(), at, true);
  // A live block's pages are never punched, and freeing it ends the right to it of all who imported it.
  char text[96];
  snprintf(text, sizeof text, "anycend1:%d:%d:%d:%llx:%llx:%llx", int(getpid()), a.fd(), d->physical(),
           static_cast<unsigned long long>(a.id()), static_cast<unsigned long long>(at),
           static_cast<unsigned long long>(size));
  return text;
}

void check_key(const char* key) {
  Key k;
  if (!parse(key, &k)) fail(ACL_ERROR_RT_IPC_ERROR, "the key was not made by the software NPU");
}

void* import_key(const char* key) {
  watch_if_asked();
  Key k;
  if (!parse(key, &k)) fail(ACL_ERROR_RT_IPC_ERROR, "the key was not made by the software NPU");
  std::lock_guard lock(imports().mutex);
  auto [it, fresh] = imports().by_key.try_emplace(key, Imports::Import{nullptr, 0, logical(k.device)});
  if (fresh) {
    try {
      int fd = open_foreign(k.pid, k.fd, arena_name(k.device, k.arena).c_str());
      it->second.pointer = VirtualMemory::get().map_foreign(it->second.device, fd, k.offset, k.size);
      if (race::on()) race::shared(it->second.pointer, k.size, fd, k.offset, false);
    } catch (...) {
      imports().by_key.erase(it);
      throw;
    }
  }
  ++it->second.users;
  return it->second.pointer;
}

// The exporter may close a key too: there is nothing to do for it.
void close_key(const char* key) {
  Key k;
  if (!parse(key, &k)) fail(ACL_ERROR_RT_IPC_ERROR, "the key was not made by the software NPU");
  std::lock_guard lock(imports().mutex);
  auto it = imports().by_key.find(key);
  if (it == imports().by_key.end()) {
    if (k.pid == getpid()) return;
    fail(ACL_ERROR_RT_IPC_ERROR, "the key is not imported");
  }
  if (--it->second.users > 0) return;
  VirtualMemory::get().unmap_foreign(it->second.pointer);
  imports().by_key.erase(it);
}

void release_imports(int device) noexcept {
  std::lock_guard lock(imports().mutex);
  std::erase_if(imports().by_key, [device](const auto& row) {
    if (row.second.device != device) return false;
    try {
      VirtualMemory::get().unmap_foreign(row.second.pointer);
    } catch (const Error&) {  // the program has unmapped it itself
    }
    return true;
  });
}

uint64_t export_physical(void* handle) {
  Physical& p = slab<Physical>().get(handle);
  if (p.imported) fail(ACL_ERROR_RT_PARAM_INVALID, "the handle was imported: its owner exports it");
  Arena& a = Device::get(p.device).arena();
  a.keep_backed(p.offset, p.size);
  VirtualMemory::get().mark_exported(p);
  uint64_t nonce = exports().next.fetch_add(1) & ((1 << 26) - 1), index = nonce % kEntries;
  exports().entries[index] = {nonce, p.offset, p.size, a.id(), a.fd(), Device::get(p.device).physical()};
  return uint64_t(getpid()) << 42 | index << 26 | nonce;
}

void* import_physical(uint64_t shareable, int device) {
  int pid = int(shareable >> 42);
  uint64_t index = shareable >> 26 & (kEntries - 1), nonce = shareable & ((1 << 26) - 1);
  if (pid <= 0 || nonce == 0)
    fail(ACL_ERROR_RT_IPC_ERROR, "%#llx is not a shareable handle", static_cast<unsigned long long>(shareable));
  need_device(device);
  int table = find_table(pid);
  Entry e{};
  ssize_t n = pread(table, &e, sizeof e, off_t(index * sizeof e));
  close(table);
  if (n != sizeof e || e.nonce != nonce)
    fail(ACL_ERROR_RT_IPC_ERROR, "%#llx is not a shareable handle of process %d",
         static_cast<unsigned long long>(shareable), pid);
  int fd = open_foreign(pid, e.fd, arena_name(e.device, e.arena).c_str());
  return VirtualMemory::get().adopt(device, fd, e.offset, e.size);
}

}  // namespace softnpu

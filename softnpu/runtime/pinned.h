// Host memory the NPU knows: what aclrtMallocHost gave and what aclrtHostRegister named. Copies from it are not staged.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <shared_mutex>

namespace softnpu {

class Pinned {
 public:
  static Pinned& get();

  void* allocate(size_t size);
  void release(void* pointer);
  void add(void* pointer, size_t size);  // the caller's own memory
  void remove(void* pointer);
  // Is all of [pointer, +bytes) pinned?
  bool contains(const void* pointer, size_t bytes);
  bool range_of(const void* pointer, void** base, size_t* size);

 private:
  struct Block {
    size_t size;
    bool ours;
  };
  std::shared_mutex mutex_;
  std::map<uint64_t, Block> blocks_;
};

}  // namespace softnpu

// Reserved address ranges and physical memory mapped into them (expandable segments), and memory of other processes mapped
// here. Physical memory is a block of the device's arena without use of its own address.
// Lock order: mutex_ is a leaf but for the arena's and the slab's. It guards what a physical handle stands for, too: a handle
// is looked up and held, or removed and let go, in one step. A device's reset takes its handles with it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include "softnpu/runtime/enqueue.h"
#include "softnpu/runtime/handle.h"

namespace softnpu {

// A physical memory handle.
struct Physical {
  static constexpr uint8_t kMagic = 0x54;
  static constexpr uint32_t kMaxCount = 1 << 20;
  static constexpr const char* kNoun = "physical memory handle";

  int device = -1;
  uint64_t offset = 0;  // in the file
  uint64_t size = 0;
  int fd = -1;  // the arena's, or for an imported one its own
  bool imported = false, exported = false;
  std::atomic<uint32_t> holds{0};  // the handle itself and each mapping
};

class VirtualMemory {
 public:
  static constexpr int kNotOurs = -1, kUnmapped = -2;

  static VirtualMemory& get();

  void* reserve(size_t size, size_t alignment, void* hint);
  void release(void* address);
  void* create(int device, size_t size);
  void* adopt(int device, int fd, uint64_t offset, uint64_t size);  // an imported one; takes the descriptor
  void destroy(void* handle);
  void mark_exported(Physical& p) noexcept;
  void map(void* address, size_t size, size_t offset, void* handle);
  void unmap(void* address);

  // Maps a stretch of another process's arena at a place of its own; takes the descriptor.
  void* map_foreign(int device, int fd, uint64_t offset, uint64_t size);
  void unmap_foreign(const void* pointer);

  // The device whose memory is mapped over all of [pointer, +bytes); kUnmapped: reserved but not mapped; kNotOurs.
  int device_of(const void* pointer, size_t bytes);
  // How many bytes are mapped from `pointer` on without a gap; none where nothing is reserved.
  std::optional<uint64_t> mapped_from(const void* pointer);
  // The mapping's file range; false if it is not one contiguous stretch.
  bool locate(const void* pointer, size_t bytes, int* fd, uint64_t* offset, int* device);
  // The start and size of the reservation or mapping around a pointer; false if none.
  bool range_of(const void* pointer, void** base, size_t* size);
  void* handle_at(const void* pointer);

  void release_device(int device) noexcept;

 private:
  struct Mapping {
    uint64_t size;
    uint64_t offset;  // in the file
    Physical* physical;
  };

  void unhold(Physical* p) noexcept;
  bool reserved(uint64_t at, uint64_t size) const;

  std::mutex mutex_;
  std::map<uint64_t, uint64_t> reservations_;
  std::map<uint64_t, Mapping> mappings_;
};

}  // namespace softnpu

// Memory of another process that is mapped here: by the key of a block of CANN's, or by the handles of an expandable segment's
// pieces. One mapping for all storages in it. What it is not: who may free it (shared_table.h).
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "csrc/core/region.h"

namespace npu {

// Says where the memory is, to another process. Plain text and numbers.
struct SharedRegion {
  std::string key;               // CANN's, empty for pieces
  std::vector<uint64_t> pieces;  // CANN's shareable handles
  uint64_t bytes = 0;
};

// Of memory of this process's allocator; its device's context is bound.
SharedRegion export_region(const Region& region);

class SharedImport {
 public:
  // The mapping of the region, made or found, for its own device or for `reader`, if one is given. Throws c10::Error when its owner has
  // ended or its device is not visible here.
  static std::shared_ptr<SharedImport> of(const SharedRegion& region, c10::DeviceIndex owners_index,
                                          c10::DeviceIndex reader = -1);
  ~SharedImport();
  SharedImport(const SharedImport&) = delete;
  SharedImport& operator=(const SharedImport&) = delete;

  char* base() const { return base_; }
  c10::DeviceIndex device() const { return device_; }

 private:
  SharedImport(const SharedRegion& region, c10::DeviceIndex owners_index, c10::DeviceIndex reader);
  void map_pieces();
  void close() noexcept;

  SharedRegion region_;
  c10::DeviceIndex device_;
  char* base_ = nullptr;
  std::vector<aclrtDrvMemHandle> handles_;
};

}  // namespace npu

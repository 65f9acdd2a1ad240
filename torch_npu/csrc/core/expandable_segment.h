// One stretch of reserved addresses into which physical memory is mapped piece by piece, so that a segment grows instead of a
// new one being made (PYTORCH_NPU_ALLOC_CONF=expandable_segments:True). What it is not: it knows no blocks (device_cache.h).
// Guarded by the device cache's lock; the context of its device is bound.
#pragma once

#include <c10/core/Device.h>

#include <cstddef>
#include <string>
#include <vector>

#include "acl/types.h"

namespace npu {

class ExpandableSegment {
 public:
  // Reserves addresses for more than the device has: `piece` is the size of what is mapped at a time. Where CANN has none, `refusal` has its
  // reason, and the segment is not reserved.
  ExpandableSegment(c10::DeviceIndex device, size_t piece, size_t device_memory, std::string& refusal);
  ~ExpandableSegment();
  ExpandableSegment(const ExpandableSegment&) = delete;
  ExpandableSegment& operator=(const ExpandableSegment&) = delete;

  static bool supported();

  // Maps the pieces that cover [address, address + size). False and nothing changed when the device is out of memory; CANN's reason is in `refusal` then.
  bool map(char* address, size_t size, std::string& refusal);
  // Unmaps the pieces that lie wholly in the range. The device has finished with them.
  void unmap(char* address, size_t size);

  // The pieces that cover [address, address + size), all of them mapped.
  std::vector<aclrtDrvMemHandle> pieces(const char* address, size_t size) const;

  bool reserved() const { return base_ != nullptr; }
  char* base() const { return base_; }
  size_t size() const { return piece_ * handles_.size(); }
  size_t piece() const { return piece_; }

 private:
  c10::DeviceIndex device_;
  size_t piece_;
  char* base_ = nullptr;
  std::vector<aclrtDrvMemHandle> handles_;  // null: not mapped
};

}  // namespace npu

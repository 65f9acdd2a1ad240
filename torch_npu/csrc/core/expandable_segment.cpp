#include "csrc/core/expandable_segment.h"

#include <c10/util/Exception.h>

#include <memory>

#include "csrc/cann/api.h"
#include "csrc/cann/error.h"
#include "csrc/core/lifecycle.h"

namespace npu {

bool ExpandableSegment::supported() {
  const cann::Api& acl = cann::acl();
  return acl.aclrtReserveMemAddress && acl.aclrtReleaseMemAddress && acl.aclrtMallocPhysical && acl.aclrtFreePhysical &&
         acl.aclrtMapMem && acl.aclrtUnmapMem;
}

ExpandableSegment::ExpandableSegment(c10::DeviceIndex device, size_t piece, size_t device_memory, std::string& refusal)
    : device_(device), piece_(piece) {
  // An eighth more than there is: holes inside the segment are filled again, but not always.
  const size_t pieces = (device_memory + device_memory / 8 + piece - 1) / piece;
  void* base = nullptr;
  const int status = cann::acl().aclrtReserveMemAddress(&base, pieces * piece, 0, nullptr, 1 /* huge pages */);
  if (cann::is_out_of_memory(status)) {
    refusal = cann::recent_message();
    return;
  }
  if (status != 0) cann::throw_status(status, "aclrtReserveMemAddress");
  base_ = static_cast<char*>(base);
  handles_.resize(pieces, nullptr);
}

ExpandableSegment::~ExpandableSegment() {
  if (!alive() || !reserved()) return;
  unmap(base_, size());
  NPU_WARN(cann::acl().aclrtReleaseMemAddress(base_));
}

bool ExpandableSegment::map(char* address, size_t size, std::string& refusal) {
  const cann::Api& acl = cann::acl();
  const size_t first = static_cast<size_t>(address - base_) / piece_;
  const size_t last = (static_cast<size_t>(address - base_) + size + piece_ - 1) / piece_;
  if (last > handles_.size()) return false;
  aclrtPhysicalMemProp property{};
  property.handleType = ACL_MEM_HANDLE_TYPE_NONE;
  property.allocationType = ACL_MEM_ALLOCATION_TYPE_PINNED;
  property.memAttr = ACL_HBM_MEM_HUGE;
  property.location = {static_cast<uint32_t>(device_), ACL_MEM_LOCATION_TYPE_DEVICE};
  for (size_t i = first; i < last; ++i) {
    if (handles_[i]) continue;
    aclrtDrvMemHandle made = nullptr;
    const char* called = "aclrtMallocPhysical";
    int status = acl.aclrtMallocPhysical(&made, piece_, &property, 0);
    std::unique_ptr<void, decltype(acl.aclrtFreePhysical)> handle(status == 0 ? made : nullptr, acl.aclrtFreePhysical);
    if (status == 0) status = acl.aclrtMapMem(base_ + i * piece_, piece_, 0, made, 0), called = "aclrtMapMem";
    if (cann::is_out_of_memory(status)) {
      refusal = cann::recent_message();
      unmap(address, size);
      return false;
    }
    if (status != 0) cann::throw_status(status, called);
    handles_[i] = handle.release();
  }
  return true;
}

void ExpandableSegment::unmap(char* address, size_t size) {
  const cann::Api& acl = cann::acl();
  const size_t begin = static_cast<size_t>(address - base_);
  const size_t first = (begin + piece_ - 1) / piece_;
  const size_t last = (begin + size) / piece_;
  for (size_t i = first; i < last; ++i) {
    if (!handles_[i]) continue;
    NPU_WARN(acl.aclrtUnmapMem(base_ + i * piece_));
    NPU_WARN(acl.aclrtFreePhysical(handles_[i]));
    handles_[i] = nullptr;
  }
}

std::vector<aclrtDrvMemHandle> ExpandableSegment::pieces(const char* address, size_t size) const {
  const size_t begin = static_cast<size_t>(address - base_);
  return {handles_.begin() + static_cast<long>(begin / piece_),
          handles_.begin() + static_cast<long>((begin + size + piece_ - 1) / piece_)};
}

}  // namespace npu

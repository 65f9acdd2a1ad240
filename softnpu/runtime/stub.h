// The body of an exported symbol that the software NPU does not implement. Who includes it: gen/stubs/<library>.cpp.
#pragma once

#define SOFTNPU_STUB __attribute__((visibility("default")))

namespace softnpu {

// Sets the recent message to the symbol's own name and the reason, if its row has one, and logs it. An aclError is the thread's last
// error, too.
SOFTNPU_STUB void report_stub(const char* symbol, const char* library, int acl_error = 0,
                              const char* why = nullptr) noexcept;

}  // namespace softnpu

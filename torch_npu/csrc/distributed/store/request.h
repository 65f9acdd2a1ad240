// Where a request ends that comes in pieces: the fields of each kind, and who finds the last one while looking at each field once,
// however small the pieces are. What the requests mean is the session's business.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "csrc/distributed/store/protocol.h"

namespace npu::distributed::store {

class RequestEnd {
 public:
  // The length of the request that `bytes` begins with, or 0 where its end has not come: it is asked again with the same bytes and
  // more behind them. Throws ProtocolError: no such request, or one beyond the limits.
  size_t find(std::string_view bytes);

 private:
  size_t at_ = 0;               // fields before this have been seen
  const char* fields_ = "";     // of the kind
  const char* next_ = nullptr;  // the field at `at_`
  uint64_t rounds_ = 0;         // times that the fields after the count still come, this one included
};

}  // namespace npu::distributed::store

// What a client calls of the graph engine when it ends: nothing was begun, so nothing is to do.
#include <cstdint>

#include "softnpu/runtime/stub.h"

namespace ge {

class SOFTNPU_STUB Session {
 public:
  ~Session();
};
Session::~Session() = default;

SOFTNPU_STUB uint32_t GEFinalize() { return 0; }

}  // namespace ge

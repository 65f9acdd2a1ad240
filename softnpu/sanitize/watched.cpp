#include "softnpu/sanitize/watched.h"

namespace softnpu::sanitize {

constinit Watchers watchers;

}  // namespace softnpu::sanitize

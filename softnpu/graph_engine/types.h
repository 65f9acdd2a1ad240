// Enumerations that cross the graph engine's C++ border in signatures: CANN's names. Values are numbers here: a DataType is an
// aclDataType, a Format an aclFormat. Who includes it: everything in this room.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "acl/types.h"

#define GE_EXPORT __attribute__((visibility("default")))

namespace ge {
enum DataType : uint32_t {};
enum Format : uint32_t {};
enum Placement : uint32_t { kPlacementHost = 0, kPlacementDevice = 1 };
GE_EXPORT const char* GetFormatName(Format format);
}  // namespace ge

namespace softnpu::graph {

using Dims = std::vector<int64_t>;

// How many bytes an element has; 0 for types that have no whole number of them, and for those that are none.
int64_t bytes_of(aclDataType type) noexcept;
std::string name_of(aclDataType type);
// ge_ir.proto numbers types in its own way. ACL_DT_UNDEFINED for those that are none.
aclDataType type_of_proto(int64_t proto) noexcept;
std::string text_of(const Dims& dims);
// The number of elements, or -1 for a negative dimension or more than 64 bits hold.
int64_t elements_of(const Dims& dims) noexcept;

}  // namespace softnpu::graph

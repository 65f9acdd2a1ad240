// The host side's tiling structs: BEGIN_TILING_DATA_DEF and its fields. The kernel sees the same fields in the same order
// (compiler/tiling.py), so the bytes are those of the struct itself.
#pragma once

#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>

#include "../include/ascendc/cube_fields.h"

namespace ascendc_host {
inline void save(void* to, size_t room, const void* from, size_t bytes, const char* name) {
  if (bytes > room)
    throw std::length_error(std::string(name) + "::SaveToBuffer: the tiling has " + std::to_string(bytes) +
                            " bytes, and the buffer " + std::to_string(room));
  memcpy(to, from, bytes);
}
}  // namespace ascendc_host

#define BEGIN_TILING_DATA_DEF(Name) \
  struct Name {                     \
    using AscendcSelf = Name;       \
    static constexpr const char* GetTilingClassName() { return #Name; }
#define TILING_DATA_FIELD_DEF(Type, name)       \
  Type name = {};                               \
  void set_##name(Type value) { name = value; } \
  Type get_##name() const { return name; }
#define TILING_DATA_FIELD_DEF_ARR(Type, length, name)                        \
  Type name[length] = {};                                                    \
  void set_##name(const Type* values) { memcpy(name, values, sizeof name); } \
  Type* get_##name() { return name; }
#define TILING_DATA_FIELD_DEF_STRUCT(Type, name) Type name = {};
#define END_TILING_DATA_DEF                                                   \
  size_t GetDataSize() const { return sizeof(AscendcSelf); }                  \
  void SaveToBuffer(void* to, size_t room) const {                            \
    ::ascendc_host::save(to, room, this, sizeof *this, GetTilingClassName()); \
  }                                                                           \
  }                                                                           \
  ;
#define REGISTER_TILING_DATA_CLASS(Op, Name)

#define ASCENDC_FIELD(name) TILING_DATA_FIELD_DEF(int32_t, name)

namespace optiling {
// The fields are those of kernel_tiling/kernel_tiling.h.
BEGIN_TILING_DATA_DEF(TCubeTiling)
ASCENDC_CUBE_FIELDS(ASCENDC_FIELD)
END_TILING_DATA_DEF
// As ascendc/unpad.h has it.
BEGIN_TILING_DATA_DEF(UnPadTiling)
TILING_DATA_FIELD_DEF(uint32_t, srcHeight)
TILING_DATA_FIELD_DEF(uint32_t, srcWidth)
END_TILING_DATA_DEF
}  // namespace optiling
#undef ASCENDC_FIELD

// The host side's tiling structs: BEGIN_TILING_DATA_DEF and its fields. The kernel sees the same fields in the same order
// (compiler/tiling.py), so the bytes are those of the struct itself.
#pragma once

#include <cstdint>
#include <cstring>

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
#define END_TILING_DATA_DEF                                                 \
  size_t GetDataSize() const { return sizeof(AscendcSelf); }                \
  void SaveToBuffer(void* to, size_t room) const {                          \
    if (sizeof(AscendcSelf) <= room) memcpy(to, this, sizeof(AscendcSelf)); \
  }                                                                         \
  }                                                                         \
  ;
#define REGISTER_TILING_DATA_CLASS(Op, Name)

// clang-format off
#define ASCENDC_CUBE_FIELDS(F) \
  F(usedCoreNum) F(M) F(N) F(Ka) F(Kb) F(singleCoreM) F(singleCoreN) F(singleCoreK) F(baseM) F(baseN) F(baseK) \
  F(depthA1) F(depthB1) F(stepM) F(stepN) F(isBias) F(transLength) F(iterateOrder) F(shareMode) F(shareL1Size) \
  F(shareL0CSize) F(shareUbSize) F(batchM) F(batchN) F(singleBatchM) F(singleBatchN) F(stepKa) F(stepKb) \
  F(depthAL1CacheUB) F(depthBL1CacheUB) F(dbL0A) F(dbL0B) F(dbL0C) F(ALayoutInfoB) F(ALayoutInfoS) \
  F(ALayoutInfoN) F(ALayoutInfoG) F(ALayoutInfoD) F(BLayoutInfoB) F(BLayoutInfoS) F(BLayoutInfoN) F(BLayoutInfoG) \
  F(BLayoutInfoD) F(CLayoutInfoB) F(CLayoutInfoS1) F(CLayoutInfoN) F(CLayoutInfoG) F(CLayoutInfoS2) F(BatchNum) \
  F(mxTypePara)
// clang-format on
#define ASCENDC_FIELD(name) TILING_DATA_FIELD_DEF(int32_t, name)

namespace optiling {
// As kernel_tiling/kernel_tiling.h has it.
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

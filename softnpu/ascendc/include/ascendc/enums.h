// The API's enumerations, in its spelling. What it is not: parameters (params.h).
#pragma once

#include <cstdint>

enum pipe_t { PIPE_S = 0, PIPE_V, PIPE_M, PIPE_MTE1, PIPE_MTE2, PIPE_MTE3, PIPE_ALL, PIPE_FIX };
enum event_t { EVENT_ID0 = 0, EVENT_ID1, EVENT_ID2, EVENT_ID3, EVENT_ID4, EVENT_ID5, EVENT_ID6, EVENT_ID7 };

namespace AscendC {

using TEventID = int8_t;

enum class TPosition : uint8_t {
  GM,
  A1,
  A2,
  B1,
  B2,
  C1,
  C2,
  CO1,
  CO2,
  VECIN,
  VECOUT,
  VECCALC,
  LCM,
  SPM,
  SHM,
  TSCM,
  C2PIPE2GM,
  MAX,
};
using QuePosition = TPosition;

// Who signals whom: <source>_<destination>.
enum class HardEvent : uint8_t {
  MTE2_V,
  V_MTE2,
  MTE3_V,
  V_MTE3,
  MTE2_MTE3,
  MTE3_MTE2,
  S_V,
  V_S,
  S_MTE2,
  MTE2_S,
  S_MTE3,
  MTE3_S,
  V_V,
  MTE2_MTE1,
  MTE1_MTE2,
  MTE1_M,
  M_MTE1,
  M_FIX,
  FIX_M,
  M_S,
  S_M,
  FIX_S,
  FIX_MTE2,
  MTE2_FIX,
  FIX_MTE1,
  MTE1_FIX,
  FIX_MTE3,
  MTE3_FIX,
  MAX,
};

// UNKNOWN: what kernels write where a register's conversion loses nothing.
enum class RoundMode : uint8_t {
  CAST_NONE = 0,
  CAST_RINT,
  CAST_FLOOR,
  CAST_CEIL,
  CAST_ROUND,
  CAST_TRUNC,
  CAST_ODD,
  UNKNOWN = 255,
};
enum class CMPMODE : uint8_t { LT = 0, GT, EQ, LE, GE, NE };
enum class SELMODE : uint8_t { VSEL_CMPMASK_SPR = 0, VSEL_TENSOR_SCALAR_MODE, VSEL_TENSOR_TENSOR_MODE };
enum class MaskMode : uint8_t { NORMAL = 0, COUNTER };
enum class PaddingMode : uint8_t { Normal = 0, Compact };
enum class ReduceOrder : uint8_t { ORDER_VALUE_INDEX = 0, ORDER_INDEX_VALUE, ORDER_ONLY_VALUE, ORDER_ONLY_INDEX };
enum class GatherMaskMode : uint8_t { VERSION_V1 = 0, VERSION_V2 };

inline constexpr uint64_t MASK_PLACEHOLDER = 0;
inline constexpr uint32_t ONE_BLK_SIZE = 32, DEFAULT_C0_SIZE = 32, CACHE_LINE_SIZE = 64;
inline constexpr uint32_t ONE_REPEAT_BYTE_SIZE = 256;
inline constexpr uint16_t ONE_BLK_FLOAT_NUM = 8, ONE_BLK_HALF_NUM = 16;
inline constexpr int32_t DEFAULT_BLK_NUM = 8, DEFAULT_BLK_STRIDE = 1;
inline constexpr uint8_t DEFAULT_REPEAT_STRIDE = 8, HALF_DEFAULT_REPEAT_STRIDE = 4;
inline constexpr int32_t MAX_REPEAT_TIMES = 255;

namespace detail {

inline const char* position_name(TPosition p) {
  constexpr const char* kNames[] = {"GM",    "A1",     "A2",      "B1",  "B2",  "C1",  "C2",   "CO1",      "CO2",
                                    "VECIN", "VECOUT", "VECCALC", "LCM", "SPM", "SHM", "TSCM", "C2PIPE2GM"};
  return p < TPosition::MAX ? kNames[static_cast<int>(p)] : "?";
}

constexpr bool of_vector_unit(TPosition p) {
  return p == TPosition::VECIN || p == TPosition::VECOUT || p == TPosition::VECCALC || p == TPosition::LCM;
}

struct Signal {
  pipe_t from, to;
  const char* name;
};
inline constexpr Signal kSignals[] = {
    {PIPE_MTE2, PIPE_V, "MTE2_V"},
    {PIPE_V, PIPE_MTE2, "V_MTE2"},
    {PIPE_MTE3, PIPE_V, "MTE3_V"},
    {PIPE_V, PIPE_MTE3, "V_MTE3"},
    {PIPE_MTE2, PIPE_MTE3, "MTE2_MTE3"},
    {PIPE_MTE3, PIPE_MTE2, "MTE3_MTE2"},
    {PIPE_S, PIPE_V, "S_V"},
    {PIPE_V, PIPE_S, "V_S"},
    {PIPE_S, PIPE_MTE2, "S_MTE2"},
    {PIPE_MTE2, PIPE_S, "MTE2_S"},
    {PIPE_S, PIPE_MTE3, "S_MTE3"},
    {PIPE_MTE3, PIPE_S, "MTE3_S"},
    {PIPE_V, PIPE_V, "V_V"},
    {PIPE_MTE2, PIPE_MTE1, "MTE2_MTE1"},
    {PIPE_MTE1, PIPE_MTE2, "MTE1_MTE2"},
    {PIPE_MTE1, PIPE_M, "MTE1_M"},
    {PIPE_M, PIPE_MTE1, "M_MTE1"},
    {PIPE_M, PIPE_FIX, "M_FIX"},
    {PIPE_FIX, PIPE_M, "FIX_M"},
    {PIPE_M, PIPE_S, "M_S"},
    {PIPE_S, PIPE_M, "S_M"},
    {PIPE_FIX, PIPE_S, "FIX_S"},
    {PIPE_FIX, PIPE_MTE2, "FIX_MTE2"},
    {PIPE_MTE2, PIPE_FIX, "MTE2_FIX"},
    {PIPE_FIX, PIPE_MTE1, "FIX_MTE1"},
    {PIPE_MTE1, PIPE_FIX, "MTE1_FIX"},
    {PIPE_FIX, PIPE_MTE3, "FIX_MTE3"},
    {PIPE_MTE3, PIPE_FIX, "MTE3_FIX"},
};
inline constexpr const Signal& signal_of(HardEvent e) { return kSignals[static_cast<int>(e)]; }

}  // namespace detail
}  // namespace AscendC

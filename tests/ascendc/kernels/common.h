// What the kernels of these tests share: a table of instructions by name, and one kernel that loads three buffers, runs one of them and
// stores the result. Not part of the software NPU.
#pragma once

#include <cstring>
#include <exception>
#include <vector>

#include "kernel_operator.h"

using namespace AscendC;

// ctypes.Structure `Call` of tests/ascendc/kit.py.
struct Call {
  int32_t
      form;  // 0: count, 1: mask as a number, 2: mask as bits, 3: counter mode with the mask register, 4: bits in the mask register
  int32_t count;
  uint64_t mask[2];
  int32_t repeats;
  int32_t dst_blk, a_blk, b_blk, dst_rep, a_rep, b_rep;
  float scalar;
  int32_t mode;
  uint32_t dst_bytes, a_bytes, b_bytes;
};

// An instruction's operands are bytes until it runs: one kernel for all, since each that is compiled costs.
using Bytes = LocalTensor<uint8_t>;
template <class T>
LocalTensor<T> as(const Bytes& from, uint32_t bytes) {
  auto tensor = from.ReinterpretCast<T>();
  tensor.SetSize(bytes / sizeof(T));
  return tensor;
}

struct Instruction {
  const char* name;
  void (*run)(const Bytes& d, const Bytes& a, const Bytes& b, const Call& c);
};
// Of this library alone: several are loaded into one process.
__attribute__((visibility("hidden"))) inline std::vector<Instruction>& instructions() {
  static std::vector<Instruction> entries;
  return entries;
}
template <class I>
struct Registered {
  explicit Registered(const char* name) {
    instructions().push_back({name, [](const Bytes& d, const Bytes& a, const Bytes& b, const Call& c) {
                                I::run(as<typename I::D>(d, c.dst_bytes), as<typename I::A>(a, c.a_bytes),
                                       as<typename I::B>(b, c.b_bytes), c);
                              }});
  }
};

inline Bytes load(TBuf<TPosition::VECCALC>& buffer, GM_ADDR from, uint32_t bytes) {
  GetTPipePtr()->InitBuffer(buffer, bytes);
  const auto tensor = buffer.Get<uint8_t>();
  GlobalTensor<uint8_t> global;
  global.SetGlobalBuffer(from);
  DataCopy(tensor, global, bytes);
  return tensor;
}

inline __global__ __aicore__ void instruction(GM_ADDR d, GM_ADDR a, GM_ADDR b, Call c, const Instruction* which) {
  TPipe pipe;
  TBuf<TPosition::VECCALC> bd, ba, bb;
  const auto dst = load(bd, d, c.dst_bytes);
  const auto x = load(ba, a, c.a_bytes);
  const auto y = load(bb, b, c.b_bytes);
  PipeBarrier<PIPE_ALL>();
  which->run(dst, x, y, c);
  ResetMask();
  SetMaskNorm();
  PipeBarrier<PIPE_ALL>();
  GlobalTensor<uint8_t> out;
  out.SetGlobalBuffer(d);
  DataCopy(out, dst, c.dst_bytes);
}

// An instruction's test kernel: its types, and a body that sees d, a, b and c.
#define KERNEL(Name, TD, TA, TB, ...)                                                                   \
  struct K_##Name {                                                                                     \
    using D = TD;                                                                                       \
    using A = TA;                                                                                       \
    using B = TB;                                                                                       \
    static void run([[maybe_unused]] const LocalTensor<D>& d, [[maybe_unused]] const LocalTensor<A>& a, \
                    [[maybe_unused]] const LocalTensor<B>& b, [[maybe_unused]] const Call& c) {         \
      __VA_ARGS__                                                                                       \
    }                                                                                                   \
  };                                                                                                    \
  static const Registered<K_##Name> registered_##Name(#Name);

// Calls one(mask argument, repeats, isSetMask as a constant) as the form says.
template <class T, class F>
void by_form(const Call& c, F one) {
  if (c.form == 1) return one(c.mask[0], c.repeats, std::true_type());
  if (c.form == 2) return one(static_cast<const uint64_t*>(c.mask), c.repeats, std::true_type());
  if (c.form == 3) {
    SetMaskCount();
    SetVectorMask<T, MaskMode::COUNTER>(static_cast<int32_t>(c.mask[0]));
    return one(MASK_PLACEHOLDER, 1, std::false_type());
  }
  SetVectorMask<T, MaskMode::NORMAL>(c.mask[1], c.mask[0]);
  return one(MASK_PLACEHOLDER, c.repeats, std::false_type());
}

inline BinaryRepeatParams both(const Call& c) {
  return BinaryRepeatParams(c.dst_blk, c.a_blk, c.b_blk, c.dst_rep, c.a_rep, c.b_rep);
}
inline UnaryRepeatParams one(const Call& c) { return UnaryRepeatParams(c.dst_blk, c.a_blk, c.dst_rep, c.a_rep); }

extern "C" __attribute__((visibility("default"))) int run_instruction(const char* name, void* stream, void* d, void* a,
                                                                      void* b, const Call* call) {
  for (const Instruction& i : instructions()) {
    if (strcmp(i.name, name) != 0) continue;
    try {
      instruction<<<1, nullptr, stream>>>(static_cast<uint8_t*>(d), static_cast<uint8_t*>(a), static_cast<uint8_t*>(b),
                                          *call, &i);
    } catch (const std::exception&) {
      return -1;
    }
    return 0;
  }
  return -2;
}

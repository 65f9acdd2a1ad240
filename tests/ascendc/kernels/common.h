// What the kernels of these tests share: one kernel that loads three buffers, runs one instruction and stores the result, and a table of
// such instructions by name, which the host calls. Not part of the software NPU.
#pragma once

#include <cstring>
#include <exception>
#include <map>
#include <string>
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

template <class D, class A, class B>
struct Operands {
  LocalTensor<D> d;
  LocalTensor<A> a;
  LocalTensor<B> b;
};

template <class T>
__aicore__ inline LocalTensor<T> load(TBuf<TPosition::VECCALC>& buffer, GM_ADDR from, uint32_t bytes) {
  GetTPipePtr()->InitBuffer(buffer, bytes);
  auto tensor = buffer.Get<T>();
  GlobalTensor<T> global;
  global.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(from));
  DataCopy(tensor, global, bytes / sizeof(T));
  return tensor;
}

template <class I>
__global__ __aicore__ void instruction(GM_ADDR d, GM_ADDR a, GM_ADDR b, Call c) {
  TPipe pipe;
  TBuf<TPosition::VECCALC> bd, ba, bb;
  const auto dst = load<typename I::D>(bd, d, c.dst_bytes);
  const auto x = load<typename I::A>(ba, a, c.a_bytes);
  const auto y = load<typename I::B>(bb, b, c.b_bytes);
  PipeBarrier<PIPE_ALL>();
  I::run(dst, x, y, c);
  ResetMask();
  SetMaskNorm();
  PipeBarrier<PIPE_ALL>();
  GlobalTensor<typename I::D> out;
  out.SetGlobalBuffer(reinterpret_cast<__gm__ typename I::D*>(d));
  DataCopy(out, dst, c.dst_bytes / sizeof(typename I::D));
}

#ifdef ASCENDC_TEST_PROGRAMS
// A step of a program (programs.asc): one instruction on stretches of the block's buffer. numpy's `STEP` of tests/ascendc/programs.py.
struct Step {
  int32_t instruction;  // a place in steps(); none is below 0
  uint32_t d, a, b;     // where the operands begin, in bytes
  Call call;
};
struct Instruction {
  const char* name;
  void (*run)(const LocalTensor<uint8_t>& buffer, const Step& s);
};
inline std::vector<Instruction>& steps() {
  static std::vector<Instruction> entries;
  return entries;
}
template <class T>
LocalTensor<T> cut(const LocalTensor<uint8_t>& buffer, uint32_t start, uint32_t bytes) {
  auto tensor = buffer[start].template ReinterpretCast<T>();
  tensor.SetSize(bytes / sizeof(T));
  return tensor;
}
template <class I>
struct Registered {
  explicit Registered(const char* name) {
    steps().push_back({name, [](const LocalTensor<uint8_t>& buffer, const Step& s) {
                         I::run(cut<typename I::D>(buffer, s.d, s.call.dst_bytes),
                                cut<typename I::A>(buffer, s.a, s.call.a_bytes),
                                cut<typename I::B>(buffer, s.b, s.call.b_bytes), s.call);
                       }});
  }
};
#else
using Host = void (*)(void* stream, uint8_t* d, uint8_t* a, uint8_t* b, const Call& call);
inline std::map<std::string, Host>& table() {
  static std::map<std::string, Host> entries;
  return entries;
}

template <class I>
struct Registered {
  explicit Registered(const char* name) {
    table()[name] = [](void* stream, uint8_t* d, uint8_t* a, uint8_t* b, const Call& call) {
      ::AscendC::detail::Launch{"instruction", 1, nullptr, stream}(instruction<I>)(d, a, b, call);
    };
  }
};

#endif

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

#ifndef ASCENDC_TEST_PROGRAMS
extern "C" __attribute__((visibility("default"))) int run_instruction(const char* name, void* stream, void* d, void* a,
                                                                      void* b, const Call* call) {
  const auto entry = table().find(name);
  if (entry == table().end()) return -2;
  try {
    entry->second(stream, static_cast<uint8_t*>(d), static_cast<uint8_t*>(a), static_cast<uint8_t*>(b), *call);
  } catch (const std::exception&) {
    return -1;
  }
  return 0;
}
#endif

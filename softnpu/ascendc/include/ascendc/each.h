// Behind the high-level functions: elements one by one in float (16 bit floats are rounded once, at the store), and the buffer for
// intermediate results that such functions take. What it is not: an instruction of the chip; one of these functions is many.
#pragma once

#include <tuple>

#include "ascendc/arithmetic.h"
#include "ascendc/op.h"

namespace AscendC::detail {

// sharedTmpBuffer: it is not needed here, but the chip overwrites it, and it must be apart from the operands. How large it must be the
// host's Get...MaxMinTmpSize says, which is not checked.
inline void scratch(const Op& op, const LocalTensor<uint8_t>& tmp) {
  if (tmp.GetLength() == 0) op.fail("sharedTmpBuffer has no bytes");
  op.writes(tmp, tmp.GetLength(), "sharedTmpBuffer");
}
template <class T>
void apart(const Op& op, const LocalTensor<uint8_t>& tmp, const LocalTensor<T>& t, uint64_t bytes, const char* which) {
  const uint64_t a = tmp.GetPhyAddr(), b = t.GetPhyAddr();
  if (a < b + bytes && b < a + tmp.GetLength()) op.fail(format("sharedTmpBuffer overlaps %s", which));
}

// dst = f(sources...), `count` elements. tmp: null where the function takes its buffer by itself.
template <class D, class F, class... S>
void each(const char* name, Site at, const LocalTensor<uint8_t>* tmp, uint64_t count, F f, const LocalTensor<D>& dst,
          const LocalTensor<S>&... src) {
  const Op op(name, at);
  if (tmp) {
    scratch(op, *tmp);
    apart(op, *tmp, dst, count * sizeof(D), "dst");
  }
  int which = 0;
  const auto read = [&]<class T>(const LocalTensor<T>& t) {
    static constexpr const char* kNames[] = {"src0", "src1", "src2"};
    const char* operand = sizeof...(S) == 1 ? "src" : kNames[which++];
    if (tmp) apart(op, *tmp, t, count * sizeof(T), operand);
    return op.reads(t, count * sizeof(T), operand);
  };
  const std::tuple<const S*...> from{read(src)...};  // braces: in order
  D* to = op.writes(dst, count * sizeof(D));
  std::apply(
      [&](auto... s) {
        for (uint64_t i = 0; i < count; ++i) to[i] = narrow<D>(f(widen(s[i])...));
      },
      from);
}

}  // namespace AscendC::detail

// The four forms of a function of one tensor: with sharedTmpBuffer or without, with a count or all of src.
#define ASCENDC_EACH(Name, f, ...)                                                                               \
  template <class T, bool isReuseSource = false>                                                                 \
  void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint8_t>& sharedTmpBuffer,   \
            uint32_t calCount, ASCENDC_AT) {                                                                     \
    static_assert(detail::one_of<T, __VA_ARGS__>, #Name " takes " #__VA_ARGS__);                                 \
    detail::each(#Name, at, &sharedTmpBuffer, calCount, [](auto x) { return detail::f(x); }, dst, src);          \
  }                                                                                                              \
  template <class T, bool isReuseSource = false>                                                                 \
  void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint8_t>& tmp, ASCENDC_AT) { \
    Name<T, isReuseSource>(dst, src, tmp, src.GetSize(), at);                                                    \
  }                                                                                                              \
  template <class T, bool isReuseSource = false>                                                                 \
  void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src, uint32_t calCount, ASCENDC_AT) {               \
    static_assert(detail::one_of<T, __VA_ARGS__>, #Name " takes " #__VA_ARGS__);                                 \
    detail::each(#Name, at, nullptr, calCount, [](auto x) { return detail::f(x); }, dst, src);                   \
  }                                                                                                              \
  template <class T, bool isReuseSource = false>                                                                 \
  void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src, ASCENDC_AT) {                                  \
    Name<T, isReuseSource>(dst, src, src.GetSize(), at);                                                         \
  }

// The same for two tensors.
#define ASCENDC_EACH2(Name, f, ...)                                                                               \
  template <class T, bool isReuseSource = false>                                                                  \
  void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1,                    \
            const LocalTensor<uint8_t>& sharedTmpBuffer, uint32_t calCount, ASCENDC_AT) {                         \
    static_assert(detail::one_of<T, __VA_ARGS__>, #Name " takes " #__VA_ARGS__);                                  \
    detail::each(                                                                                                 \
        #Name, at, &sharedTmpBuffer, calCount, [](auto x, auto y) { return detail::f(x, y); }, dst, src0, src1);  \
  }                                                                                                               \
  template <class T, bool isReuseSource = false>                                                                  \
  void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1,                    \
            const LocalTensor<uint8_t>& tmp, ASCENDC_AT) {                                                        \
    Name<T, isReuseSource>(dst, src0, src1, tmp, src0.GetSize(), at);                                             \
  }                                                                                                               \
  template <class T, bool isReuseSource = false>                                                                  \
  void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1, uint32_t calCount, \
            ASCENDC_AT) {                                                                                         \
    static_assert(detail::one_of<T, __VA_ARGS__>, #Name " takes " #__VA_ARGS__);                                  \
    detail::each(#Name, at, nullptr, calCount, [](auto x, auto y) { return detail::f(x, y); }, dst, src0, src1);  \
  }                                                                                                               \
  template <class T, bool isReuseSource = false>                                                                  \
  void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1, ASCENDC_AT) {      \
    Name<T, isReuseSource>(dst, src0, src1, src0.GetSize(), at);                                                  \
  }

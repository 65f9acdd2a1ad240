// Numbers that a kernel refuses are refused at the call, not when the stream gets there: half.add(half, alpha=1e6),
// int8.clamp(300), int64 & 1.5. Only the kernel knows whether it converts a number to the tensors' type, to a wider one, or
// promotes: where a number does not fit the tensors, the kernel is run once on stand-ins, zeros of the same shapes and types,
// and what it throws about numbers and types is what phase two answers. What it is not: a check of values in memory; other
// errors stay those of the real run.
//
// Cost: an ordinary number costs a comparison. One that does not fit costs a run of the kernel on the calling thread
// and the operands' memory, the first time; then a look-up: what was not refused is remembered by operator, types and such
// numbers, and by all arguments where the run on zeros ended in an error of another kind.
#include "softnpu/ops/rehearse.h"

#include <ATen/core/Tensor.h>
#include <c10/util/TypeCast.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <typeinfo>
#include <unordered_map>

#include "softnpu/ops/describe.h"
#include "softnpu/ops/each_tensor.h"
#include "softnpu/ops/frame.h"
#include "softnpu/ops/guard.h"

namespace softnpu::ops {

using nnopbase::Arg;
using nnopbase::Kind;
using nnopbase::ScalarCopy;
using nnopbase::TensorCopy;

namespace {

template <class Body>
void each_scalar(const aclOpExecutor& e, const Body& body) {
  for (int i = 0; i < e.nargs; i++) {
    const Arg& a = e.args[i];
    if (a.kind == Kind::kScalar && a.scalar) body(*a.scalar);
    for (uint32_t k = 0; a.kind == Kind::kScalars && k < a.count; k++) body(a.scalars[k]);
  }
}

// Whether a number fits every type and promotes none.
bool ordinary(const ScalarCopy& s) {
  int64_t value = 0;
  std::memcpy(&value, s.value, sizeof value);
  return s.dtype == ACL_BOOL || (s.dtype == ACL_INT64 && value >= -127 && value <= 127);
}

int category(at::ScalarType type) {
  return c10::isComplexType(type) ? 3 : c10::isIntegralType(type, true) ? type != at::kBool : 2;
}

template <class From>
bool overflows(From value, at::ScalarType type) {
#define SOFTNPU_OVERFLOWS(ctype, name) \
  case at::ScalarType::name:           \
    return c10::overflows<ctype, From>(value);
  switch (type) {
    AT_FORALL_SCALAR_TYPES_AND3(Half, BFloat16, ComplexHalf, SOFTNPU_OVERFLOWS)
    SOFTNPU_OVERFLOWS(uint16_t, UInt16)
    SOFTNPU_OVERFLOWS(uint32_t, UInt32)
    SOFTNPU_OVERFLOWS(uint64_t, UInt64)
    SOFTNPU_OVERFLOWS(c10::complex<float>, ComplexFloat)
    default:
      return false;
  }
#undef SOFTNPU_OVERFLOWS
}

bool fits(const at::Scalar& value, at::ScalarType type) {
  if (value.isComplex()) return c10::isComplexType(type) && !overflows(value.toComplexDouble(), type);
  if (value.isFloatingPoint()) return !overflows(value.toDouble(), type);
  if (value.type() == at::kUInt64) return !overflows(value.toUInt64(), type);
  return value.isBoolean() || !overflows(value.toLong(), type);
}

// FNV-1a over what decides the outcome.
class Key {
 public:
  void add(uint64_t word) { hash_ = (hash_ ^ word) * 0x100000001b3; }
  template <class T>
  void add(const T* values, uint64_t count) {
    add(count);
    for (uint64_t i = 0; i < count; i++) add(static_cast<uint64_t>(values[i]));
  }
  uint64_t get() const { return hash_ | 1; }

 private:
  uint64_t hash_ = 0xcbf29ce484222325;
};

struct Question {
  bool asked = false;     // some number does not fit, or promotes
  bool overflow = false;  // some number does not fit
  Key key;
};

Question question(const aclOpExecutor& e) {
  Question q;
  q.key.add(reinterpret_cast<uintptr_t>(e.op));
  int highest = 0;
  each_tensor(e, [&](const Arg& a, const TensorCopy& t) {
    q.key.add(static_cast<uint64_t>(t.dtype) << 2 | static_cast<uint64_t>(t.ndim == 0) << 1 | (t.numel == 0));
    if (a.in) highest = std::max(highest, category(to_dtype(t.dtype)));
  });
  each_scalar(e, [&](const ScalarCopy& s) {
    const at::Scalar value = to_scalar(s);
    bool fit = true;
    each_tensor(e, [&](const Arg&, const TensorCopy& t) { fit = fit && fits(value, to_dtype(t.dtype)); });
    q.key.add(static_cast<uint64_t>(s.dtype) << 1 | fit);
    if (!fit) {
      for (size_t i = 0; i < sizeof s.value / 8; i++) {
        uint64_t word = 0;
        std::memcpy(&word, s.value + 8 * i, 8);
        q.key.add(word);
      }
    }
    q.overflow = q.overflow || !fit;
    q.asked = q.asked || !fit || category(value.type()) > highest;
  });
  return q;
}

// The key and the arguments that it leaves out.
Key with_all_arguments(const aclOpExecutor& e, Key key) {
  each_tensor(e, [&](const Arg&, const TensorCopy& t) { key.add(t.sizes(), 2 * t.ndim); });  // and strides
  each_scalar(e, [&](const ScalarCopy& s) { key.add(s.value, sizeof s.value); });
  for (int i = 0; i < e.nargs; i++) {
    const Arg& a = e.args[i];
    key.add(static_cast<uint64_t>(a.kind));
    if (a.kind == Kind::kInt) key.add(static_cast<uint64_t>(a.i));
    if (a.kind == Kind::kDouble) key.add(std::bit_cast<uint64_t>(a.d));
    if (a.kind == Kind::kInts) key.add(a.ints, a.count);
    if (a.kind == Kind::kFloats) key.add(reinterpret_cast<const uint32_t*>(a.floats), a.count);
    if (a.kind == Kind::kBools) key.add(a.bools, a.count);
    if (a.kind == Kind::kString) key.add(a.string, a.count);
  }
  return key;
}

// What need not be asked again: a word each, in a slot that its hash names, where another one is forgotten. A race costs another
// rehearsal.
class Answers {
 public:
  bool know(const Key& key) const { return slot(key).load(std::memory_order_relaxed) == key.get(); }
  void add(const Key& key) { slot(key).store(key.get(), std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t>& slot(const Key& key) const { return words_[(key.get() >> 8) % words_.size()]; }

  mutable std::array<std::atomic<uint64_t>, 256> words_{};
};
constinit Answers passed;     // by Question::key
constinit Answers undecided;  // with all arguments: an error that is the real run's to report

// Zeros in place of every tensor; tensors that begin at one address still do.
class StandIns {
 public:
  explicit StandIns(aclOpExecutor& e) {
    std::unordered_map<const char*, size_t> bytes;
    each_tensor(e, [&](const Arg&, const TensorCopy& t) {
      int64_t last = 0;
      for (int i = 0; i < t.ndim; i++) last += (t.sizes()[i] - 1) * t.strides()[i];
      size_t& most = bytes[t.data];
      if (t.numel) most = std::max(most, static_cast<size_t>(last + 1) * t.item);
    });
    for (const auto& [at, size] : bytes) {
      if (size) memory_[at].reset(static_cast<char*>(std::calloc(size, 1)));
      if (size && !memory_[at]) throw std::bad_alloc();
    }
    each_tensor(e, [&](const Arg&, TensorCopy& t) {
      t.data = memory_[t.data].get();
      t.handle = nullptr;
    });
  }

 private:
  struct Free {
    void operator()(char* memory) const { std::free(memory); }
  };
  std::unordered_map<const char*, std::unique_ptr<char, Free>> memory_;
};

struct Release {
  void operator()(aclOpExecutor* e) const { nnopbase::release_executor(e); }
};

// No number, or small whole ones: the usual call, which looks at nothing else.
bool all_ordinary(const aclOpExecutor& e) {
  for (const Arg *a = e.args, *end = a + e.nargs; a != end; a++) {
    if (a->kind == Kind::kScalar) {
      if (a->scalar && !ordinary(*a->scalar)) return false;
    } else if (a->kind == Kind::kScalars) {
      if (!std::all_of(a->scalars, a->scalars + a->count, ordinary)) return false;
    }
  }
  return true;
}

// Floating tensors and what the narrowest type of them holds.
bool all_floating(const aclOpExecutor& e) {
  constexpr uint64_t kFloating = 1ull << 0 | 1ull << 1 | 1ull << 11 | 1ull << 27 | 1ull << 16 | 1ull << 17;
  constexpr double kMostOfHalf = 65504;
  bool fit = true;
  each_tensor(e, [&](const Arg&, const TensorCopy& t) { fit = fit && ((kFloating >> t.dtype) & 1); });
  each_scalar(e, [&](const ScalarCopy& s) {
    double value = 0;
    std::memcpy(&value, s.value, sizeof value);
    fit = fit && (ordinary(s) || (s.dtype == ACL_DOUBLE && std::abs(value) <= kMostOfHalf));
  });
  return fit;
}

int refuse(const Op& op, int status, const char* what) {
  char message[600];
  std::snprintf(message, sizeof message, "%s: %s", op.name, without_name(op.name, what));
  set_error_message(message);
  return status;
}

__attribute__((noinline)) int ask_kernel(const Op& op, const aclOpExecutor& e) noexcept {
  try {
    const Question q = question(e);
    if (!q.asked || passed.know(q.key)) return 0;
    const Key all = with_all_arguments(e, q.key);
    if (undecided.know(all)) return 0;
    try {
      const std::unique_ptr<aclOpExecutor, Release> copy(nnopbase::copy_executor(e));
      if (!copy) return 0;
      const StandIns stand_ins(*copy);
      KernelGuard guard(1);
      Frame frame(*copy);
      op.run(frame);
      passed.add(q.key);
    } catch (const c10::NotImplementedError& error) {
      return refuse(op, ACL_ERROR_API_NOT_SUPPORT, error.what_without_backtrace());
    } catch (const std::bad_alloc&) {  // says nothing of the numbers
    } catch (const std::exception& error) {
      // c10::checked_convert's error is this type itself; ATen's others are c10::Error.
      if (q.overflow && typeid(error) == typeid(std::runtime_error)) {
        return refuse(op, ACLNN_ERR_PARAM_INVALID, error.what());
      }
      undecided.add(all);  // what else a run on zeros may end with is not what the real one does
    }
  } catch (const std::exception&) {  // a type that torch does not know: the real run's error
  }
  return 0;
}

}  // namespace

int rehearse(const Op& op, const aclOpExecutor& e) noexcept {
  return all_ordinary(e) || all_floating(e) ? 0 : ask_kernel(op, e);
}

}  // namespace softnpu::ops

// Numbers that a kernel refuses are refused at the call, not when the stream gets there: half.add(half, alpha=1e6),
// int8.clamp(300), int64 & 1.5. Only the kernel knows whether it converts a number to the tensors' type, to a wider one, or
// promotes: where a number does not fit the tensors, the kernel is run once on stand-ins, zeros of the same shapes and types, and
// what it throws about numbers and types is what phase two answers. What it is not: a check of values in memory; other errors stay those of the real run.
//
// Cost: an ordinary number costs a comparison. One that does not fit costs a run of the kernel on the calling thread
// and the operands' memory, the first time; then a look-up: what passed is remembered by operator, types and such numbers.
#include "softnpu/ops/rehearse.h"

#include <ATen/core/Tensor.h>
#include <c10/util/TypeCast.h>

#include <array>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string_view>
#include <unordered_map>

#include "softnpu/ops/frame.h"
#include "softnpu/ops/guard.h"

namespace softnpu::ops {

using nnopbase::Arg;
using nnopbase::Kind;
using nnopbase::ScalarCopy;
using nnopbase::TensorCopy;

namespace {

template <class Body>
void each_tensor(const aclOpExecutor& e, const Body& body) {
  for (int i = 0; i < e.nargs; i++) {
    const Arg& a = e.args[i];
    if (a.kind == Kind::kTensor && a.tensor) body(*a.tensor, a.in);
    for (uint32_t k = 0; a.kind == Kind::kTensors && k < a.count; k++) {
      if (a.tensors[k]) body(*a.tensors[k], a.in);
    }
  }
}

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
    SOFTNPU_OVERFLOWS(c10::complex<float>, ComplexFloat)
    default:
      return false;
  }
#undef SOFTNPU_OVERFLOWS
}

bool fits(const at::Scalar& value, at::ScalarType type) {
  if (value.isComplex()) return c10::isComplexType(type) && !overflows(value.toComplexDouble(), type);
  if (value.isFloatingPoint()) return !overflows(value.toDouble(), type);
  return value.isBoolean() || value.type() == at::kUInt64 || !overflows(value.toLong(), type);
}

// FNV-1a over what decides the outcome.
class Key {
 public:
  void add(uint64_t word) { hash_ = (hash_ ^ word) * 0x100000001b3; }
  uint64_t get() const { return hash_ | 1; }

 private:
  uint64_t hash_ = 0xcbf29ce484222325;
};

struct Question {
  bool asked = false;  // some number does not fit, or promotes
  Key key;
};

Question question(const aclOpExecutor& e) {
  Question q;
  q.key.add(reinterpret_cast<uintptr_t>(e.op));
  int highest = 0;
  each_tensor(e, [&](const TensorCopy& t, bool in) {
    q.key.add(static_cast<uint64_t>(t.dtype) << 2 | static_cast<uint64_t>(t.ndim == 0) << 1 | (t.numel == 0));
    if (in) highest = std::max(highest, category(to_dtype(t.dtype)));
  });
  each_scalar(e, [&](const ScalarCopy& s) {
    const at::Scalar value = to_scalar(s);
    bool fit = true;
    each_tensor(e, [&](const TensorCopy& t, bool) { fit = fit && fits(value, to_dtype(t.dtype)); });
    q.key.add(static_cast<uint64_t>(s.dtype) << 1 | fit);
    if (!fit) {
      for (size_t i = 0; i < sizeof s.value / 8; i++) {
        uint64_t word = 0;
        std::memcpy(&word, s.value + 8 * i, 8);
        q.key.add(word);
      }
    }
    q.asked = q.asked || !fit || category(value.type()) > highest;
  });
  return q;
}

// What passed: a word each, the oldest forgotten. A race costs another rehearsal.
std::array<std::atomic<uint64_t>, 256> passed;
std::atomic<uint64_t>& slot(uint64_t key) { return passed[(key >> 8) % passed.size()]; }

// Zeros in place of every tensor; tensors that begin at one address still do.
class StandIns {
 public:
  explicit StandIns(aclOpExecutor& e) {
    std::unordered_map<const char*, size_t> bytes;
    each_tensor(e, [&](const TensorCopy& t, bool) {
      int64_t last = 0;
      for (int i = 0; i < t.ndim; i++) last += (t.sizes()[i] - 1) * t.strides()[i];
      size_t& most = bytes[t.data];
      if (t.numel) most = std::max(most, static_cast<size_t>(last + 1) * t.item);
    });
    for (const auto& [at, size] : bytes) {
      if (size) memory_[at].reset(static_cast<char*>(std::calloc(size, 1)));
      if (size && !memory_[at]) throw std::bad_alloc();
    }
    for (int i = 0; i < e.nargs; i++) {
      Arg& a = e.args[i];
      if (a.kind == Kind::kTensor) replace(a.tensor);
      for (uint32_t k = 0; a.kind == Kind::kTensors && k < a.count; k++) replace(a.tensors[k]);
    }
  }

 private:
  void replace(TensorCopy* t) {
    if (!t) return;
    t->data = memory_[t->data].get();
    t->handle = nullptr;
  }

  struct Free {
    void operator()(char* memory) const { std::free(memory); }
  };
  std::unordered_map<const char*, std::unique_ptr<char, Free>> memory_;
};

struct Release {
  void operator()(aclOpExecutor* e) const { nnopbase::release_executor(e); }
};

// The usual case, in a few nanoseconds: no number, small whole ones, or floating tensors and what the narrowest of them holds.
bool plainly_fits(const aclOpExecutor& e) {
  constexpr uint64_t kFloating = 1ull << 0 | 1ull << 1 | 1ull << 11 | 1ull << 27 | 1ull << 16 | 1ull << 17;
  bool floating = true, wide = false;
  for (int i = 0; i < e.nargs; i++) {
    const Arg& a = e.args[i];
    if (a.kind == Kind::kTensor) {
      floating = floating && (!a.tensor || ((kFloating >> a.tensor->dtype) & 1));
    } else if (a.kind == Kind::kTensors) {
      floating = false;
    } else if (a.kind == Kind::kScalar || a.kind == Kind::kScalars) {
      const ScalarCopy* scalars = a.kind == Kind::kScalar ? a.scalar : a.scalars;
      for (uint32_t k = 0; scalars && k < (a.kind == Kind::kScalar ? 1 : a.count); k++) {
        if (ordinary(scalars[k])) continue;
        wide = true;
        double value = 0;
        std::memcpy(&value, scalars[k].value, sizeof value);
        if (scalars[k].dtype != ACL_DOUBLE || !(std::abs(value) <= 65504)) return false;
      }
    }
  }
  return floating || !wide;
}

int refuse(const Op& op, int status, const char* what) {
  char message[600];
  std::snprintf(message, sizeof message, "%s: %s", op.name, what);
  set_error_message(message);
  return status;
}

}  // namespace

int rehearse(const Op& op, const aclOpExecutor& e) noexcept {
  if (plainly_fits(e)) return 0;
  try {
    const Question q = question(e);
    if (!q.asked || slot(q.key.get()).load(std::memory_order_relaxed) == q.key.get()) return 0;
    const std::unique_ptr<aclOpExecutor, Release> copy(nnopbase::copy_executor(e));
    if (!copy) return 0;
    const StandIns stand_ins(*copy);
    KernelGuard guard(1);
    Frame frame(*copy);
    op.run(frame);
    slot(q.key.get()).store(q.key.get(), std::memory_order_relaxed);
  } catch (const c10::NotImplementedError& error) {
    return refuse(op, ACL_ERROR_API_NOT_SUPPORT, error.what_without_backtrace());
  } catch (const std::exception& error) {  // what else a run on zeros may end with is not what the real one does
    if (std::string_view(error.what()).find("without overflow") != std::string_view::npos) {
      return refuse(op, ACLNN_ERR_PARAM_INVALID, error.what());
    }
  }
  return 0;
}

}  // namespace softnpu::ops

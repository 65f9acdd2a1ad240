// Phase one's slow paths: lists, arrays, strings, shape checks and error messages.
#include <algorithm>
#include <bit>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <string_view>

#include "softnpu/ops/describe.h"
#include "softnpu/ops/op.h"

namespace softnpu::ops {

double decimal(float value) {
  if ((std::bit_cast<uint32_t>(value) & 0xffff) == 0) return value;  // few digits, or not finite: exact as it is
  char text[32];
  const char* end = std::to_chars(text, text + sizeof text, value).ptr;
  int digits = 0;
  for (const char* c = text; c != end && *c != 'e'; ++c) digits += *c >= (digits ? '0' : '1') && *c <= '9';
  double found = value;
  if (digits <= 6) std::from_chars(text, end, found);  // longer ones were computed, not written
  return found;
}

using namespace nnopbase;

bool Plan::fail(aclnnStatus status, const char* text) {
  char message[800];
  std::snprintf(message, sizeof message, "%s: %s", op_.name, without_name(op_.name, text));
  set_error_message(message);
  status_ = status;
  return false;
}

bool Plan::fail_parameter(aclnnStatus status, const char* parameter, const char* text) {
  char message[300];
  std::snprintf(message, sizeof message, "parameter %s %s", parameter, text);
  return fail(status, message);
}

void Plan::fail_null(const char* name) { fail_parameter(ACLNN_ERR_PARAM_NULLPTR, name, "is null"); }

void Plan::bad_tensor(const char* name, const aclTensor* t) {
  char text[200];
  if (!t) {
    std::snprintf(text, sizeof text, "is a destroyed tensor, or no tensor");
  } else if (t->dtype == ACL_FLOAT4_E2M1 || t->dtype == ACL_FLOAT4_E1M2) {
    std::snprintf(text, sizeof text, "has 4-bit elements, pairs of which do not lie in bytes, or no address");
  } else if (!known_dtype(t->dtype) && t->dtype != ACL_HIFLOAT8) {
    std::snprintf(text, sizeof text, "has data type %d, which the software NPU does not compute", t->dtype);
  } else {
    std::snprintf(text, sizeof text, "has %lld elements and no address", static_cast<long long>(t->numel));
  }
  fail_parameter(ACLNN_ERR_PARAM_INVALID, name, text);
}

namespace {

// The dimension along which two 4-bit elements lie in a byte; -1 if there is none.
int paired_dim(int ndim, const int64_t* sizes, const int64_t* strides) {
  for (int i = ndim - 1; i >= 0; i--) {
    if (strides[i] == 1 && sizes[i] != 1) return sizes[i] % 2 == 0 ? i : -1;
  }
  return -1;
}

}  // namespace

bool Plan::packs(const aclTensor* t) {
  if (t->dtype == ACL_HIFLOAT8) return t->data || !t->numel;  // not what kernels compute with by themselves, either
  if (t->dtype != ACL_FLOAT4_E2M1 && t->dtype != ACL_FLOAT4_E1M2) return false;
  if (t->numel == 0) return true;
  const int64_t *sizes = t->dims, *strides = t->dims + t->ndim;
  const int dim = paired_dim(t->ndim, sizes, strides);
  if (!t->data || t->offset % 2 || dim < 0) return false;
  for (int i = 0; i < t->ndim; i++) {
    if (i != dim && sizes[i] > 1 && strides[i] % 2) return false;
  }
  return true;
}

void Plan::pack(TensorCopy* copy) {
  int64_t *sizes = copy->dims(), *strides = sizes + copy->ndim;
  // Without elements: the last size that can be halved, as where there are some.
  int dim = copy->numel ? paired_dim(copy->ndim, sizes, strides) : copy->ndim - 1;
  for (int i = 0; i < copy->ndim; i++) {
    if (i != dim) strides[i] = sizes[i] > 1 ? strides[i] / 2 : std::max<int64_t>(strides[i] / 2, 1);
  }
  if (dim >= 0) sizes[dim] /= 2;
  copy->data -= copy->offset - copy->offset / 2;
  copy->offset /= 2;
  copy->numel /= 2;
}

void Plan::tensors(const aclTensorList* handle, const char* name, bool optional, int way) {
  Arg* a = next(Kind::kTensors, way);
  if (!a) return;
  const aclTensorList* list = TensorLists::find(handle);
  if (!list) {
    if (handle) return void(fail_parameter(ACLNN_ERR_PARAM_INVALID, name, "is a destroyed list, or no list"));
    if (!optional) return fail_null(name);
    a->kind = Kind::kNull;
    return;
  }
  a->count = static_cast<uint32_t>(list->size);
  a->tensors = static_cast<TensorCopy**>(arena(e_, list->size * sizeof(TensorCopy*)));
  for (uint64_t i = 0; i < list->size; i++) {
    a->tensors[i] = nullptr;
    if (!list->values[i]) continue;
    const aclTensor* t = Tensors::find(list->values[i]);
    if (!t || ((!known_dtype(t->dtype) || (!t->data && t->numel)) && !packs(t))) return bad_tensor(name, t);
    a->tensors[i] = copy_tensor(e_, t, list->values[i]);
    if (t->dtype >= kPacked) pack(a->tensors[i]);
  }
}

void Plan::in(const aclScalar* handle, const char* name, bool optional) {
  Arg* a = next(Kind::kScalar);
  if (!a) return;
  a->scalar = nullptr;
  const aclScalar* scalar = Scalars::find(handle);
  if (!scalar) {
    if (handle) return void(fail_parameter(ACLNN_ERR_PARAM_INVALID, name, "is a destroyed scalar, or no scalar"));
    if (!optional) return fail_null(name);
    a->kind = Kind::kNull;
    return;
  }
  a->scalar = static_cast<ScalarCopy*>(arena(e_, sizeof(ScalarCopy)));
  a->scalar->dtype = scalar->dtype;
  std::memcpy(a->scalar->value, scalar->value, sizeof scalar->value);
}

void Plan::in(const aclScalarList* handle, const char* name, bool optional) {
  Arg* a = next(Kind::kScalars);
  if (!a) return;
  const aclScalarList* list = ScalarLists::find(handle);
  if (!list) {
    if (handle) return void(fail_parameter(ACLNN_ERR_PARAM_INVALID, name, "is a destroyed list, or no list"));
    if (!optional) return fail_null(name);
    a->kind = Kind::kNull;
    return;
  }
  a->count = static_cast<uint32_t>(list->size);
  a->scalars = static_cast<ScalarCopy*>(arena(e_, list->size * sizeof(ScalarCopy)));
  for (uint64_t i = 0; i < list->size; i++) {
    const aclScalar* scalar = Scalars::find(list->values[i]);
    if (!scalar) return void(fail_parameter(ACLNN_ERR_PARAM_INVALID, name, "holds a destroyed or null scalar"));
    a->scalars[i].dtype = scalar->dtype;
    std::memcpy(a->scalars[i].value, scalar->value, sizeof scalar->value);
  }
}

namespace {

template <class Pool, class T>
const char* copy_array(aclOpExecutor* e, const void* handle, Arg* a, const T*& to) {
  const auto* array = Pool::find(handle);
  if (!array) return "is a destroyed array, or no array";
  a->count = static_cast<uint32_t>(array->size);
  auto* values = static_cast<T*>(arena(e, array->size * sizeof(T)));
  std::copy_n(array->values, array->size, values);
  to = values;
  return nullptr;
}

}  // namespace

#define ARRAY_IN(Handle, kKind, Pool, member)                             \
  void Plan::in(const Handle* handle, const char* name, bool optional) {  \
    Arg* a = next(handle ? kKind : Kind::kNull);                          \
    if (!a) return;                                                       \
    if (!handle) return optional ? void() : fail_null(name);              \
    if (const char* wrong = copy_array<Pool>(e_, handle, a, a->member)) { \
      fail_parameter(ACLNN_ERR_PARAM_INVALID, name, wrong);               \
    }                                                                     \
  }
ARRAY_IN(aclIntArray, Kind::kInts, IntArrays, ints)
ARRAY_IN(aclFloatArray, Kind::kFloats, FloatArrays, floats)
ARRAY_IN(aclBoolArray, Kind::kBools, BoolArrays, bools)
#undef ARRAY_IN

void Plan::in(const char* string, const char* name, bool optional) {
  Arg* a = next(string ? Kind::kString : Kind::kNull);
  if (!a) return;
  if (!string) return optional ? void() : fail_null(name);
  size_t length = std::strlen(string);
  auto* copy = static_cast<char*>(arena(e_, length + 1));
  std::memcpy(copy, string, length + 1);
  a->string = copy;
  a->count = static_cast<uint32_t>(length);
}

namespace {

void print_shape(char*& at, char* end, const int64_t* sizes, int ndim) {
  at += std::min<long>(std::snprintf(at, end - at, "["), end - at);
  for (int i = 0; i < ndim; i++) {
    at += std::min<long>(std::snprintf(at, end - at, "%s%lld", i ? ", " : "", static_cast<long long>(sizes[i])),
                         end - at);
  }
  at += std::min<long>(std::snprintf(at, end - at, "]"), end - at);
}

bool shape_error(Plan& plan, const TensorCopy* t, const int64_t* sizes, int ndim, const char* relation) {
  char text[300];
  char* at = text;
  char* end = text + sizeof text - 1;
  at += std::snprintf(at, end - at, "shape ");
  print_shape(at, end, t->sizes(), t->ndim);
  at += std::min<long>(std::snprintf(at, end - at, " %s ", relation), end - at);
  print_shape(at, end, sizes, ndim);
  return plan.fail(ACLNN_ERR_PARAM_INVALID, text);
}

bool same(const TensorCopy* t, const int64_t* sizes, int ndim) {
  return t->ndim == ndim && std::equal(sizes, sizes + ndim, t->sizes());
}

// The usual call: all tensors have one shape, and nothing has to be worked out. A loop rather than `same`: few dimensions.
bool one_shape(const Plan& plan) {
  const TensorCopy* first = nullptr;
  for (const Arg *a = plan.args(), *end = a + plan.nargs(); a != end; a++) {
    if (a->kind != Kind::kTensor || !a->tensor) continue;
    if (!first) first = a->tensor;
    if (a->tensor->ndim != first->ndim) return false;
    for (int d = 0; d < first->ndim; d++) {
      if (a->tensor->sizes()[d] != first->sizes()[d]) return false;
    }
  }
  return true;
}

bool broadcast(Plan& plan) {
  const Arg* args = plan.args();
  int64_t shape[64];
  int ndim = 0;
  const TensorCopy* first = nullptr;
  bool inputs = false;
  for (int i = 0; i < plan.nargs(); i++) {
    const Arg& a = args[i];
    if (a.kind != Kind::kTensor || !a.in || !a.tensor) continue;
    const TensorCopy* t = a.tensor;
    if (!inputs) {
      inputs = true;
      first = t;
      ndim = t->ndim;
      std::copy_n(t->sizes(), ndim, shape);
      continue;
    }
    if (same(t, shape, ndim)) continue;
    if (t->ndim > ndim) {
      std::move_backward(shape, shape + ndim, shape + t->ndim);
      std::fill_n(shape, t->ndim - ndim, 1);
      ndim = t->ndim;
    }
    for (int d = 0; d < t->ndim; d++) {
      int64_t& have = shape[ndim - t->ndim + d];
      int64_t size = t->sizes()[d];
      if (have == 1) {
        have = size;
      } else if (size != 1 && size != have) {
        return shape_error(plan, first, t->sizes(), t->ndim, "does not broadcast with");
      }
    }
  }
  if (!inputs) return true;
  for (int i = 0; i < plan.nargs(); i++) {
    const Arg& a = args[i];
    if (a.kind != Kind::kTensor || !a.out || !a.tensor || same(a.tensor, shape, ndim)) continue;
    return shape_error(plan, a.tensor, shape, ndim, "of the output is not the operands'");
  }
  return true;
}

}  // namespace

bool check_broadcast(Plan& plan) { return one_shape(plan) || broadcast(plan); }

bool check_same_shape(Plan& plan) {
  const Arg* args = plan.args();
  const TensorCopy* first = nullptr;
  for (int i = 0; i < plan.nargs(); i++) {
    if (args[i].kind != Kind::kTensor || !args[i].tensor) continue;
    if (!first) {
      first = args[i].tensor;
    } else if (!same(args[i].tensor, first->sizes(), first->ndim)) {
      return shape_error(plan, args[i].tensor, first->sizes(), first->ndim, "differs from");
    }
  }
  return true;
}

namespace {

// The one rounding that hifloat8 has here, where a function names one: the only words that are none of other settings.
bool check_rounding(Plan& plan, const Arg* args) {
  bool codes = false;
  for (int i = 0; i < plan.nargs(); i++) {
    codes |= args[i].kind == Kind::kTensor && args[i].out && args[i].tensor && args[i].tensor->dtype == ACL_HIFLOAT8;
  }
  for (int i = 0; codes && i < plan.nargs(); i++) {
    if (args[i].kind != Kind::kString) continue;
    const std::string_view word(args[i].string, args[i].count);
    for (const char* other : {"rint", "floor", "ceil", "trunc", "hybrid"}) {
      if (word == other) return plan.fail(ACLNN_ERR_PARAM_INVALID, "hifloat8 has the rounding round alone");
    }
  }
  return true;
}

}  // namespace

bool check_quantized(Plan& plan) {
  constexpr int32_t kInt8 = 2, kInt32 = 3, kUint8 = 4, kFloat8From = 34;
  const Arg* args = plan.args();
  const TensorCopy* first = nullptr;
  for (int i = 0; i < plan.nargs(); i++) {
    const TensorCopy* t = args[i].kind == Kind::kTensor ? args[i].tensor : nullptr;
    if (!t) continue;
    if (!first) {
      first = t;
    } else if (args[i].out &&
               (t->dtype == kInt8 || t->dtype == kUint8 || t->dtype == kInt32 || t->dtype >= kFloat8From)) {
      if (same(t, first->sizes(), first->ndim)) continue;
      const int last = first->ndim - 1;
      const bool packed = t->dtype == kInt32 && last >= 0 && t->ndim == first->ndim &&
                          std::equal(t->sizes(), t->sizes() + last, first->sizes()) &&
                          t->sizes()[last] * 8 == first->sizes()[last];
      if (!packed) return shape_error(plan, t, first->sizes(), first->ndim, "of the output is not the operand's");
    }
  }
  return check_rounding(plan, args);
}

bool check_same_lists(Plan& plan) {
  const Arg* first = nullptr;
  for (int i = 0; i < plan.nargs(); i++) {
    const Arg& a = plan.args()[i];
    if (a.kind != Kind::kTensors && a.kind != Kind::kScalars) continue;
    for (uint32_t k = 0; a.kind == Kind::kTensors && k < a.count; k++) {
      if (a.tensors[k]) continue;
      char text[60];
      std::snprintf(text, sizeof text, "member %u of a list of tensors is null", k);
      return plan.fail(ACLNN_ERR_PARAM_NULLPTR, text);
    }
    if (!first) {
      first = &a;
    } else if (a.count != first->count) {
      char text[120];
      std::snprintf(text, sizeof text, "lists of %u and of %u members", first->count, a.count);
      return plan.fail(ACLNN_ERR_PARAM_INVALID, text);
    }
  }
  return true;
}

bool check_floating_result(Plan& plan) {
  for (int i = 0; i < plan.nargs(); i++) {
    const Arg& a = plan.args()[i];
    if (a.kind != Kind::kTensor || !a.out || !a.tensor) continue;
    const int32_t dtype = a.tensor->dtype;
    if (dtype == 0 || dtype == 1 || dtype == 11 || dtype == 27) continue;
    char text[100];
    std::snprintf(text, sizeof text, "the result has data type %d, and the operator's results are floating", dtype);
    return plan.fail(ACLNN_ERR_PARAM_INVALID, text);
  }
  return check_broadcast(plan);
}

aclnnStatus failed(const Op& op) noexcept {
  char message[200];
  std::snprintf(message, sizeof message, "%s: out of host memory", op.name);
  set_error_message(message);
  return ACLNN_ERR_INNER;
}

}  // namespace softnpu::ops

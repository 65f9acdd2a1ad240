// Which data types an operator takes: phase one refuses what phase two has no kernel for. The rows are in ops/types.yaml;
// tests/opapi/types.py finds what they should say.
#include <algorithm>
#include <bit>
#include <cstdio>

#include "softnpu/ops/op.h"

namespace softnpu::ops {

using namespace nnopbase;

namespace {

// bool < integers < floating < complex: a result holds its operands' common type if it stands no lower.
int category(int32_t dtype) {
  switch (dtype) {
    case 12:
      return 0;
    case 16:
    case 17:
    case 33:
      return 3;
    case 0:
    case 1:
    case 11:
    case 27:
    case 34:
    case 35:
    case 36:
    case 37:
    case 40:
    case 41:
      return 2;
    default:
      return 1;
  }
}

// Two in a byte, and hifloat8, which ATen does not know: taken only where a row says so.
constexpr uint64_t kNamed = uint64_t{3} << 40 | uint64_t{1} << 34;

// uint16, uint32 and uint64 have no common type with other integers, bool or complex numbers.
bool wide_unsigned(int32_t dtype) { return dtype == 7 || dtype == 8 || dtype == 10; }
// 8-bit floats have one with nothing but themselves.
bool eight_bits(int32_t dtype) { return dtype >= 34 && dtype <= 37; }

class TypeCheck {
 public:
  TypeCheck(Plan& plan, const OpTypes& types) : plan_(plan), types_(types) {}

  bool run() {
    for (int i = 0; i < plan_.nargs(); i++) {
      const Arg& a = plan_.args()[i];
      const ParamTypes& wanted = types_.params[i];
      if (a.kind == Kind::kTensor) {
        if (a.tensor && !one(a, 0, *a.tensor, wanted)) return false;
      } else if (a.kind == Kind::kTensors) {
        for (uint32_t k = 0; k < a.count; k++) {
          // An empty tensor in a list stands for none.
          if (a.tensors[k] && a.tensors[k]->numel && !one(a, k, *a.tensors[k], wanted)) return false;
        }
      }
    }
    if (__builtin_expect((taken_ & kComplex) && real_result_, 0)) {
      return refuse("parameter %s has data type %s, which does not hold the operands' %s", real_result_->name,
                    dtype_name(real_dtype_), dtype_name(std::countr_zero(taken_ & kComplex)));
    }
    const Common common = with_dims_.beside(without_dims_);
    if (common.type < 0) return true;
    if (category(common.type) < types_.common) {
      return refuse("the operands' %s is not computed", dtype_name(common.type));
    }
    return types_.casts == Casts::kNo || result_holds(common);
  }

 private:
  bool one(const Arg& a, uint32_t k, const TensorCopy& t, const ParamTypes& wanted) {
    const int32_t dtype = t.dtype;
    if (a.in) taken_ |= uint64_t{1} << dtype;
    if (a.out && !wanted.apart && !(((kComplex | kBool) >> dtype) & 1)) {
      real_result_ = &wanted;
      real_dtype_ = dtype;
    }
    if (!wanted.accepts) {
      return !((kNamed >> dtype) & 1) ||
             refuse("parameter %s has data type %s, which the operator does not take", wanted.name, dtype_name(dtype));
    }
    if (__builtin_expect(!((wanted.accepts >> dtype) & 1), 0)) {
      return refuse("parameter %s has data type %s, which the operator does not take", wanted.name, dtype_name(dtype));
    }
    if (wanted.group && !belongs(a, k, dtype, wanted)) return false;
    if (combines_ && a.in) (t.ndim ? with_dims_ : without_dims_).join(dtype);
    return true;
  }

  // The group's type is that of its first parameter; a list's members are compared with a list's, one by one.
  bool belongs(const Arg& a, uint32_t k, int32_t dtype, const ParamTypes& wanted) {
    const Arg*& first = groups_[wanted.group - 1];
    if (!first) first = &a;
    const int32_t expected = type_of(*first, k);
    if (dtype == expected || expected < 0 || (wanted.starred && dtype == 0 && half(expected))) return true;
    return refuse("parameter %s has data type %s, where others have %s", wanted.name, dtype_name(dtype),
                  dtype_name(expected));
  }

  static bool half(int32_t dtype) { return dtype == 1 || dtype == 27; }

  static int32_t type_of(const Arg& a, uint32_t k) {
    if (a.kind == Kind::kTensor) return a.tensor->dtype;
    return k < a.count && a.tensors[k] ? a.tensors[k]->dtype : -1;
  }

  // The highest type of some operands.
  struct Common {
    int32_t type = -1;
    int32_t apart[2] = {-1, -1};  // two that have no common type

    void join(int32_t dtype) {
      if (type < 0) type = dtype;
      const bool wide = (wide_unsigned(dtype) || wide_unsigned(type)) && category(dtype) != 2 && category(type) != 2;
      if (dtype != type && (wide || eight_bits(dtype) || eight_bits(type))) {
        apart[0] = dtype;
        apart[1] = type;
      }
      if (category(dtype) > category(type)) type = dtype;
    }

    // As PyTorch promotes: operands without dimensions take part only where they stand higher than the others.
    Common beside(const Common& without_dims) const {
      if (type < 0 || without_dims.type < 0) return type < 0 ? without_dims : *this;
      Common all = *this;
      if (category(without_dims.type) > category(type)) all.join(without_dims.type);
      if (without_dims.apart[0] >= 0) std::copy_n(without_dims.apart, 2, all.apart);
      return all;
    }
  };

  bool result_holds(const Common& common) {
    if (common.apart[0] >= 0) {
      return refuse("%s and %s have no common data type", dtype_name(common.apart[0]), dtype_name(common.apart[1]));
    }
    const bool real = types_.casts == Casts::kReal;
    const int wanted = real ? std::min(category(common.type), 2) : category(common.type);
    for (int i = 0; i < plan_.nargs(); i++) {
      const Arg& a = plan_.args()[i];
      const ParamTypes& result = types_.params[i];
      if (a.kind != Kind::kTensor || !a.out || !a.tensor || (result.apart && !real)) continue;
      if (category(a.tensor->dtype) >= wanted) continue;
      return refuse("parameter %s has data type %s, which does not hold the operands' %s", result.name,
                    dtype_name(a.tensor->dtype), dtype_name(common.type));
    }
    return true;
  }

  template <class... Words>
  __attribute__((format(printf, 2, 0))) bool refuse(const char* format, Words... words) {
    char text[200];
    std::snprintf(text, sizeof text, format, words...);
    return plan_.fail(ACLNN_ERR_PARAM_INVALID, text);
  }

  static constexpr uint64_t kBool = uint64_t{1} << 12;
  static constexpr uint64_t kComplex = uint64_t{1} << 16 | uint64_t{1} << 17 | uint64_t{1} << 33;

  Plan& plan_;
  const OpTypes& types_;
  uint64_t taken_ = 0;                       // a bit for each type of an operand
  const ParamTypes* real_result_ = nullptr;  // a result that holds no complex number and should hold the operands'
  int32_t real_dtype_ = 0;
  const Arg* groups_[kTypeGroups] = {};  // the first parameter of each
  const bool combines_ = types_.casts != Casts::kNo || types_.common;
  Common with_dims_, without_dims_;
};

// The usual call: all tensors have one type, which every parameter takes and which is no lower than what is computed. Then
// groups agree, the result holds the operands, and there is nothing else to ask.
bool plainly_taken(const Plan& plan, const OpTypes& types) {
  uint64_t found = 0, refused = 0;
  const auto add = [&](const TensorCopy& tensor, const ParamTypes& wanted) {
    const uint64_t type = uint64_t{1} << tensor.dtype;
    found |= type;
    refused |= type & (wanted.accepts ? ~wanted.accepts : kNamed);
  };
  for (int i = 0; i < plan.nargs(); i++) {
    const Arg& a = plan.args()[i];
    if (a.kind == Kind::kTensor) {
      if (a.tensor) add(*a.tensor, types.params[i]);
    } else if (a.kind == Kind::kTensors) {
      for (uint32_t k = 0; k < a.count; k++) {
        if (a.tensors[k] && a.tensors[k]->numel) add(*a.tensors[k], types.params[i]);
      }
    }
  }
  if (refused || (found & (found - 1))) return false;
  return types.common == 0 || (found && category(std::countr_zero(found)) >= types.common);
}

// Apart, so that the usual call saves no registers for it.
__attribute__((noinline)) bool each_taken(Plan& plan, const OpTypes& types) { return TypeCheck(plan, types).run(); }

}  // namespace

const char* dtype_name(int32_t dtype) {
  switch (dtype) {
    case 0:
      return "float32";
    case 1:
      return "float16";
    case 2:
      return "int8";
    case 3:
      return "int32";
    case 4:
      return "uint8";
    case 6:
      return "int16";
    case 7:
      return "uint16";
    case 8:
      return "uint32";
    case 9:
      return "int64";
    case 10:
      return "uint64";
    case 11:
      return "float64";
    case 12:
      return "bool";
    case 16:
      return "complex64";
    case 17:
      return "complex128";
    case 27:
      return "bfloat16";
    case 33:
      return "complex32";
    case 34:
      return "hifloat8";
    case 35:
      return "float8_e5m2";
    case 36:
      return "float8_e4m3fn";
    case 37:
      return "float8_e8m0fnu";
    case 40:
      return "float4_e2m1";
    case 41:
      return "float4_e1m2";
    default:
      return "dtype?";
  }
}

bool check_types(Plan& plan, const OpTypes& types) { return plainly_taken(plan, types) || each_taken(plan, types); }

}  // namespace softnpu::ops

#include "softnpu/ops/describe.h"

#include "softnpu/ops/op.h"
#include "softnpu/runtime/trace.h"

namespace softnpu::ops {
namespace {

using namespace nnopbase;

// CANN's names of aclDataType, as its profiles spell them.
const char* type_name(int32_t dtype) {
  static constexpr const char* kNames[] = {"FLOAT",  "FLOAT16", "INT8",      "INT32",      "UINT8",  "",     "INT16",
                                           "UINT16", "UINT32",  "INT64",     "UINT64",     "DOUBLE", "BOOL", "STRING",
                                           "",       "",        "COMPLEX64", "COMPLEX128", "",       "",     "",
                                           "",       "",        "",          "",           "",       "",     "DT_BF16"};
  constexpr int32_t kCount = sizeof kNames / sizeof *kNames;
  return dtype >= 0 && dtype < kCount && *kNames[dtype] ? kNames[dtype] : dtype_name(dtype);
}

void add(trace::Tensors& to, const TensorCopy* t) {
  if (!t) return;  // an optional one that was not given
  if (!to.types.empty()) to.shapes += ';', to.types += ';', to.formats += ';';
  for (int i = 0; i < t->ndim; i++) to.shapes += (i ? "," : "") + std::to_string(t->sizes()[i]);
  to.types += type_name(t->dtype);
  to.formats += "ND";
}

}  // namespace

void describe_task(const void* state, trace::Description& description) {
  description.kind = trace::Kind::kKernel;
  const auto& e = *static_cast<const aclOpExecutor*>(state);
  for (int i = 0; i < e.nargs; i++) {
    const Arg& a = e.args[i];
    for (trace::Tensors* side : {a.in ? &description.in : nullptr, a.out ? &description.out : nullptr}) {
      if (!side) continue;
      if (a.kind == Kind::kTensor) add(*side, a.tensor);
      for (uint32_t k = 0; a.kind == Kind::kTensors && k < a.count; k++) add(*side, a.tensors[k]);
    }
  }
}

std::string inputs_of(const aclOpExecutor& e) {
  std::string text;
  const auto add = [&](const TensorCopy* t) {
    if (!t) return;
    if (!text.empty()) text += ", ";
    text += type_name(t->dtype);
    text += '[';
    for (int i = 0; i < t->ndim; i++) text += (i ? "," : "") + std::to_string(t->sizes()[i]);
    text += ']';
  };
  for (int i = 0; i < e.nargs; i++) {
    const Arg& a = e.args[i];
    if (!a.in) continue;
    if (a.kind == Kind::kTensor) add(a.tensor);
    for (uint32_t k = 0; a.kind == Kind::kTensors && k < a.count; k++) add(a.tensors[k]);
  }
  return text;
}

void tell_task(const void* state, race::Accesses& accesses) {
  const auto& e = *static_cast<const aclOpExecutor*>(state);
  const auto tell = [&](const TensorCopy* t, bool write) {
    if (t) race::Access::add(accesses, t->data, t->ndim, t->sizes(), t->strides(), t->item, write);
  };
  for (int i = 0; i < e.nargs; i++) {
    const Arg& a = e.args[i];
    if (a.kind == Kind::kTensor) tell(a.tensor, a.out);
    for (uint32_t k = 0; a.kind == Kind::kTensors && k < a.count; k++) tell(a.tensors[k], a.out);
  }
}

}  // namespace softnpu::ops

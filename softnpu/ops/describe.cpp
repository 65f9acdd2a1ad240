#include "softnpu/ops/describe.h"

#include <algorithm>
#include <cinttypes>
#include <cstdarg>
#include <cstdio>

#include "softnpu/ops/each_tensor.h"
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

void add(trace::Tensors& to, const TensorCopy& t) {
  if (!to.types.empty()) to.shapes += ';', to.types += ';', to.formats += ';';
  for (int i = 0; i < t.ndim; i++) to.shapes += (i ? "," : "") + std::to_string(t.sizes()[i]);
  to.types += type_name(t.dtype);
  to.formats += "ND";
}

}  // namespace

void describe_task(const void* state, trace::Description& description) {
  description.kind = trace::Kind::kKernel;
  each_tensor(*static_cast<const aclOpExecutor*>(state), [&](const Arg& a, const TensorCopy& t) {
    if (a.in) add(description.in, t);
    if (a.out) add(description.out, t);
  });
}

void Message::add(const char* format, ...) noexcept {
  va_list values;
  va_start(values, format);
  const int length = std::vsnprintf(text_ + length_, sizeof text_ - length_, format, values);
  va_end(values);
  if (length > 0) length_ = std::min(length_ + static_cast<size_t>(length), sizeof text_ - 1);
}

void Message::add_inputs(const aclOpExecutor& e) noexcept {
  const char* before = " (inputs: ";
  each_tensor(e, [&](const Arg& a, const TensorCopy& t) {
    if (!a.in) return;
    add("%s%s[", before, type_name(t.dtype));
    for (int i = 0; i < t.ndim; i++) add("%s%" PRId64, i ? "," : "", t.sizes()[i]);
    add("]");
    before = ", ";
  });
  if (*before == ',') add(")");
}

void tell_task(const void* state, race::Accesses& accesses) {
  const auto& executor = *static_cast<const aclOpExecutor*>(state);
  const uint64_t some = reads_some(static_cast<const Op*>(executor.op)->name);
  each_tensor(executor, [&](const Arg& a, const TensorCopy& t) {
    const size_t before = accesses.size();
    race::Access::add(accesses, t.data, t.ndim, t.sizes(), t.strides(), t.item, a.out);
    if (accesses.size() > before) accesses.back().chosen = !a.out && (some >> (&a - executor.args) & 1);
  });
}

}  // namespace softnpu::ops

// aclprofRangePushEx and its companions: what a program tells of the kernels that it launches itself. Exported by libascendcl, as the
// rest of aclprof (aclprof.cpp).
#include <iterator>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "acl/api.h"
#include "softnpu/runtime/error.h"
#include "softnpu/runtime/trace.h"

using softnpu::fail;
using softnpu::guarded;
using softnpu::need;

namespace {

// CANN's layout of what aclprofRangePushEx takes.
struct ToldTensor {
  uint32_t output, format, type, dims, shape[8];
};
struct ToldOperator {
  uint64_t name, type;
  uint32_t reserved, count, kernel_type, blocks;
  aclrtStream stream;
  const ToldTensor* tensors;
};
struct Event {
  uint16_t version, size;
  uint32_t kind;
  const ToldOperator* told;
};
static_assert(sizeof(ToldTensor) == 48 && sizeof(ToldOperator) == 48 && sizeof(Event) == 16);
constexpr uint32_t kMostDims = 8, kMostTensors = 5, kTensorInfo = 0;

struct Texts {
  std::mutex mutex;                                 // a leaf
  std::unordered_map<uint64_t, const char*> by_id;  // of aclprofStr2Id
};
Texts& texts() {
  static Texts& t = *new Texts;
  return t;
}

// What the calling thread has told of its kernels: the innermost counts.
std::vector<std::unique_ptr<softnpu::trace::Told>>& told() {
  static thread_local std::vector<std::unique_ptr<softnpu::trace::Told>> mine;
  return mine;
}

void add(softnpu::trace::Tensors& to, const ToldTensor& tensor) {
  static constexpr const char* kTypes[] = {"FLOAT",  "FLOAT16", "INT8",  "INT32",  "UINT8",  "",    "INT16",
                                           "UINT16", "UINT32",  "INT64", "UINT64", "DOUBLE", "BOOL"};
  if (tensor.dims > kMostDims)
    fail(ACL_ERROR_INVALID_PARAM, "a tensor has %u dimensions, and at most 8 fit", tensor.dims);
  if (!to.types.empty()) to.shapes += ';', to.types += ';', to.formats += ';';
  for (uint32_t i = 0; i < tensor.dims; ++i) to.shapes += (i ? "," : "") + std::to_string(tensor.shape[i]);
  const bool known = tensor.type < std::size(kTypes) && *kTypes[tensor.type];
  to.types += known ? kTypes[tensor.type] : tensor.type == ACL_BF16 ? "DT_BF16" : std::to_string(tensor.type);
  to.formats += tensor.format == ACL_FORMAT_NCHW ? "NCHW" : tensor.format == ACL_FORMAT_NHWC ? "NHWC" : "ND";
}

}  // namespace

// The same text has the same id, by which aclprofRangePushEx names it. 0 for a null one.
SOFTNPU_EXPORT uint64_t aclprofStr2Id(const char* message) {
  uint64_t id = 0;
  guarded(__func__, [&] {
    need(message, "message");
    const char* text = softnpu::trace::interned(message);
    Texts& t = texts();
    std::lock_guard lock(t.mutex);
    for (id = std::hash<std::string_view>()(text) | 1; t.by_id.count(id) && t.by_id[id] != text;) id += 2;
    t.by_id[id] = text;
  });
  return id;
}

// The tensors of the kernels that this thread launches until aclprofRangePop: an operator of the program's own has no aclnn function
// that knows them.
SOFTNPU_EXPORT aclError aclprofRangePushEx(void* attr) {
  return guarded(__func__, [&] {
    need(attr, "attr");
    const Event& event = *static_cast<const Event*>(attr);
    if (event.kind != kTensorInfo) fail(ACL_ERROR_INVALID_PARAM, "messageType is %u, and only 0 is known", event.kind);
    need(event.told, "attr->message.tensorInfo");
    const ToldOperator& op = *event.told;
    if (op.count > kMostTensors) fail(ACL_ERROR_INVALID_PARAM, "tensorNum is %u, and at most 5 fit", op.count);
    if (op.count) need(op.tensors, "tensorInfo->tensors");
    auto made = std::make_unique<softnpu::trace::Told>();
    for (uint32_t i = 0; i < op.count; ++i) add(op.tensors[i].output ? made->out : made->in, op.tensors[i]);
    if (op.name) {
      Texts& t = texts();
      std::lock_guard lock(t.mutex);
      const auto found = t.by_id.find(op.name);
      if (found == t.by_id.end()) fail(ACL_ERROR_INVALID_PARAM, "opNameId is no number of aclprofStr2Id");
      made->name = found->second;
    }
    told().push_back(std::move(made));
    softnpu::trace::tell_of_kernels(told().back().get());
  });
}

SOFTNPU_EXPORT aclError aclprofRangePop() {
  return guarded(__func__, [&] {
    if (told().empty()) fail(ACL_ERROR_INVALID_PARAM, "this thread has pushed nothing: call aclprofRangePushEx first");
    told().pop_back();
    softnpu::trace::tell_of_kernels(told().empty() ? nullptr : told().back().get());
  });
}

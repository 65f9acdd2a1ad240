// Exports: attributes of operators called by name. They are checked and kept; no operator is called by name here.
#include <string>

#include "acl/api.h"
#include "softnpu/runtime/error.h"
#include "softnpu/runtime/handle.h"
#include "softnpu/runtime/tensor_desc.h"

using namespace softnpu;

namespace {

std::string text(const char* value) { return value; }
std::string text(uint8_t value) { return value ? "true" : "false"; }
template <class T>
std::string text(T value) {
  return std::to_string(value);
}

void keep(aclopAttr* attr, const char* name, std::string value) {
  auto& values = slab<OpAttributes>().get(attr).values;
  for (auto& [known, old] : values) {
    if (known == name) {
      old = std::move(value);
      return;
    }
  }
  values.emplace_back(name, std::move(value));
}

template <class T>
aclError set(const char* call, aclopAttr* attr, const char* name, T value) {
  return guarded(call, [&] {
    need(name, "attrName");
    keep(attr, name, text(value));
  });
}

template <class T>
aclError set_list(const char* call, aclopAttr* attr, const char* name, int count, const T* values) {
  return guarded(call, [&] {
    need(name, "attrName");
    if (count < 0) fail(ACL_ERROR_INVALID_PARAM, "numValues is %d", count);
    if (count > 0) need(values, "values");
    std::string all = "[";
    for (int i = 0; i < count; ++i) all += (i ? ", " : "") + text(values[i]);
    keep(attr, name, all + "]");
  });
}

}  // namespace

SOFTNPU_EXPORT aclopAttr* aclopCreateAttr() {
  aclopAttr* handle = nullptr;
  guarded(__func__, [&] {
    OpAttributes* attributes = slab<OpAttributes>().take();
    attributes->values.clear();
    handle = static_cast<aclopAttr*>(slab<OpAttributes>().publish(attributes));
  });
  return handle;
}
SOFTNPU_EXPORT void aclopDestroyAttr(const aclopAttr* attr) {
  if (attr == nullptr) return;
  guarded(__func__, [&] { slab<OpAttributes>().recycle(&slab<OpAttributes>().remove(const_cast<aclopAttr*>(attr))); });
}

SOFTNPU_EXPORT aclError aclopSetAttrBool(aclopAttr* attr, const char* attrName, uint8_t attrValue) {
  return set(__func__, attr, attrName, attrValue);
}
SOFTNPU_EXPORT aclError aclopSetAttrInt(aclopAttr* attr, const char* attrName, int64_t attrValue) {
  return set(__func__, attr, attrName, attrValue);
}
SOFTNPU_EXPORT aclError aclopSetAttrFloat(aclopAttr* attr, const char* attrName, float attrValue) {
  return set(__func__, attr, attrName, attrValue);
}
SOFTNPU_EXPORT aclError aclopSetAttrDataType(aclopAttr* attr, const char* attrName, aclDataType attrValue) {
  return set(__func__, attr, attrName, int(attrValue));
}
SOFTNPU_EXPORT aclError aclopSetAttrString(aclopAttr* attr, const char* attrName, const char* attrValue) {
  if (attrValue == nullptr) return guarded(__func__, [&] { need(attrValue, "attrValue"); });
  return set(__func__, attr, attrName, attrValue);
}
SOFTNPU_EXPORT aclError aclopSetAttrListBool(aclopAttr* attr, const char* attrName, int numValues,
                                             const uint8_t* values) {
  return set_list(__func__, attr, attrName, numValues, values);
}
SOFTNPU_EXPORT aclError aclopSetAttrListInt(aclopAttr* attr, const char* attrName, int numValues,
                                            const int64_t* values) {
  return set_list(__func__, attr, attrName, numValues, values);
}
SOFTNPU_EXPORT aclError aclopSetAttrListFloat(aclopAttr* attr, const char* attrName, int numValues,
                                              const float* values) {
  return set_list(__func__, attr, attrName, numValues, values);
}
SOFTNPU_EXPORT aclError aclopSetAttrListListInt(aclopAttr* attr, const char* attrName, int numLists,
                                                const int* numValues, const int64_t** values) {
  return guarded(__func__, [&] {
    need(attrName, "attrName");
    if (numLists < 0) fail(ACL_ERROR_INVALID_PARAM, "numLists is %d", numLists);
    if (numLists > 0) need(numValues, "numValues");
    if (numLists > 0) need(values, "values");
    std::string all = "[";
    for (int i = 0; i < numLists; ++i) {
      all += i ? ", [" : "[";
      for (int k = 0; k < numValues[i]; ++k) all += (k ? ", " : "") + text(values[i][k]);
      all += "]";
    }
    keep(attr, attrName, all + "]");
  });
}

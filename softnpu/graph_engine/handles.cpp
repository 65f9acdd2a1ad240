// See handles.h, call.h.
#include "softnpu/graph_engine/handles.h"

#include <dlfcn.h>

#include "softnpu/graph_engine/call.h"
#include "softnpu/graph_engine/error.h"

namespace softnpu::graph {
namespace {

aclFormat format_of(size_t rank) {
  return rank == 3 ? ACL_FORMAT_NCL : rank == 4 ? ACL_FORMAT_NCHW : rank == 5 ? ACL_FORMAT_NCDHW : ACL_FORMAT_ND;
}

}  // namespace

void no_handle(const char* what) {
  const char* text = aclGetRecentErrMsg();
  throw Error(std::string(what) + " made no handle: " + (text ? text : ""));
}

void no_room(int64_t number) { throw Error(std::to_string(number) + " is more than the parameter's type holds"); }

aclTensor* make_tensor(Lane& lane, const Value& value) {
  void* const address = lane.address(value);
  const int64_t storage =
      static_cast<int64_t>(value.storage->device->bytes) / std::max<int64_t>(bytes_of(value.type), 1);
  aclTensor* made = aclCreateTensor(value.dims.data(), value.dims.size(), value.type, value.strides.data(),
                                    value.offset, format_of(value.dims.size()), &storage, 1, address);
  if (!made) no_handle("aclCreateTensor");
  return made;
}

aclTensorList* make_tensors(Lane& lane, const std::vector<Value>& values) {
  std::vector<const aclTensor*> members;
  const auto drop = [&] {
    for (const aclTensor* member : members) aclDestroyTensor(member);
  };
  try {
    for (const Value& value : values) members.push_back(make_tensor(lane, value));
  } catch (...) {
    drop();
    throw;
  }
  aclTensorList* made = aclCreateTensorList(members.data(), members.size());
  if (!made) {
    drop();
    no_handle("aclCreateTensorList");
  }
  return made;
}

void* aclnn_symbol(const char* name) {
  static void* const library = dlopen("libopapi.so", RTLD_NOW);  // found by this library's RUNPATH
  if (!library) throw Error(std::string("the software NPU's operators cannot be loaded: ") + dlerror());
  void* const found = dlsym(library, name);
  if (!found) throw Error(std::string("libopapi.so has no ") + name);
  return found;
}

}  // namespace softnpu::graph

// See collective.h.
#include "softnpu/graph_engine/collective.h"

#include <dlfcn.h>

#include "acl/api.h"
#include "hccl/api.h"

namespace softnpu::graph {
namespace {

void* symbol(const char* name) {
  void* const library = dlopen("libhccl.so", RTLD_NOW | RTLD_NOLOAD);
  void* const found = library ? dlsym(library, name) : nullptr;
  if (library) dlclose(library);  // the count that RTLD_NOLOAD took
  if (!found) throw Error(std::string("no libhccl.so with ") + name + " is loaded, so there is no group");
  return found;
}

// Looked up once each: a library that has communicators stays.
#define CALL(name, ...)                                                        \
  do {                                                                         \
    static const auto call = reinterpret_cast<decltype(&name)>(symbol(#name)); \
    check(call(__VA_ARGS__), #name);                                           \
  } while (false)

HcclDataType type_of(const Value& value) {
  switch (value.type) {
    case ACL_FLOAT16:
      return HCCL_DATA_TYPE_FP16;
    case ACL_BF16:
      return HCCL_DATA_TYPE_BFP16;
    case ACL_FLOAT:
      return HCCL_DATA_TYPE_FP32;
    case ACL_INT32:
      return HCCL_DATA_TYPE_INT32;
    case ACL_INT64:
      return HCCL_DATA_TYPE_INT64;
    case ACL_INT8:
      return HCCL_DATA_TYPE_INT8;
    case ACL_UINT8:
      return HCCL_DATA_TYPE_UINT8;
    default:
      throw Error("a group does not exchange tensors of " + name_of(value.type));
  }
}

HcclReduceOp reduction_of(const std::string& name) {
  if (name == "sum") return HCCL_REDUCE_SUM;
  if (name == "prod") return HCCL_REDUCE_PROD;
  if (name == "max") return HCCL_REDUCE_MAX;
  if (name == "min") return HCCL_REDUCE_MIN;
  throw Error("reduction '" + name + "': sum, prod, max and min are supported");
}

uint64_t count_of(const Value& value) { return static_cast<uint64_t>(value.elements()); }

}  // namespace

Group::Group(Step& step, const std::string& name) : step_(step) {
  if (name.empty() || name.size() >= COMM_NAME_MAX_LENGTH)
    throw Error("group name '" + name + "' has " + std::to_string(name.size()) + " characters");
  CALL(HcomGetCommHandleByGroup, name.c_str(), &comm_);
  CALL(HcclGetRankSize, comm_, &ranks_);
}

void* Group::at(const Value& value) const {
  return static_cast<char*>(step_.lane.address(value)) + value.offset * bytes_of(value.type);
}

void Group::all_reduce(const Value& x, const std::string& reduction, const Value& y) const {
  CALL(HcclAllReduce, at(x), at(y), count_of(x), type_of(x), reduction_of(reduction), comm_, step_.lane.stream());
}

void Group::all_gather(const Value& x, const Value& y) const {
  if (count_of(y) != count_of(x) * ranks_)
    throw Error("rank_size is not the group's " + std::to_string(ranks_) + " ranks");
  CALL(HcclAllGather, at(x), at(y), count_of(x), type_of(x), comm_, step_.lane.stream());
}

void Group::reduce_scatter(const Value& x, const std::string& reduction, const Value& y) const {
  if (count_of(x) != count_of(y) * ranks_)
    throw Error("rank_size is not the group's " + std::to_string(ranks_) + " ranks");
  CALL(HcclReduceScatter, at(x), at(y), count_of(y), type_of(x), reduction_of(reduction), comm_, step_.lane.stream());
}

void Group::all_to_all(const Value& x, const Value& y) const {
  if (count_of(x) % ranks_) throw Error("shape " + text_of(x.dims) + " has no " + std::to_string(ranks_) + " parts");
  const uint64_t part = count_of(x) / ranks_;
  CALL(HcclAlltoAll, at(x), part, type_of(x), at(y), part, type_of(y), comm_, step_.lane.stream());
}

std::vector<Value> Group::broadcast(const std::vector<Value>& x, int64_t root) const {
  if (root < 0 || root >= ranks_) throw Error("root_rank " + std::to_string(root) + " of " + std::to_string(ranks_));
  std::vector<Value> copies;
  for (const Value& value : x) {
    copies.push_back(step_.copied(value));
    CALL(HcclBroadcast, at(copies.back()), count_of(value), type_of(value), static_cast<uint32_t>(root), comm_,
         step_.lane.stream());
  }
  return copies;
}

}  // namespace softnpu::graph

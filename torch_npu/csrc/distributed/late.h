// Functions of CANN that only the rare paths of a group need (ending, splitting, resuming, a changed timeout): looked for when they
// are first called, null where this CANN lacks them. What it is not: the table of what every process needs (csrc/cann/api.h).
#pragma once

#include "csrc/cann/api.h"
#include "csrc/cann/library.h"

namespace npu::distributed {

template <class Function>
Function late(const char* library, const char* name) {
  return reinterpret_cast<Function>(cann::find_symbol(cann::open_library(library), name));
}

}  // namespace npu::distributed

#define LATE_HCCL(name) (::npu::distributed::late<decltype(&::name)>("hccl", #name))
#define LATE_ACL(name) (::npu::distributed::late<decltype(&::name)>("ascendcl", #name))

// CANN's C functions, as pointers found at run time: `cann::acl().aclrtMalloc(...)`. The plugin links none of them.
// Members are the rows of cann/abi/*.yaml marked `plugin: required` or `plugin: optional`, spelled as CANN spells them.
// An optional one may be null: look before you call. What it is not: aclnn operators (aclnn.h), status → exception (error.h).
//
//   acl()   libascendcl is loaded. Rows of libnnopbase (aclCreateTensor …) are there too once a device was initialized
//           (csrc/core/lifecycle.h), which holds wherever an npu tensor exists.
//   hccl()  the same table with libhccl's rows filled
//
// Cost of acl(): one load and a branch. The first call may throw c10::Error (root.h, library.h).
#pragma once

#include <atomic>

#include "acl/api.h"
#include "csrc/cann/export.h"
#include "hccl/api.h"

namespace cann {

struct Api {
#define X(symbol, library, required) decltype(&::symbol) symbol = nullptr;
#include "cann_loader_table.inc"
#undef X
};

namespace detail {
NPU_API extern std::atomic<const Api*> loaded_api;
NPU_API const Api& load_api();
}  // namespace detail

inline const Api& acl() {
  const Api* api = detail::loaded_api.load(std::memory_order_acquire);
  if (__builtin_expect(api != nullptr, 1)) return *api;
  return detail::load_api();
}

NPU_API const Api& hccl();

// Loads the operator libraries and fills libnnopbase's rows. Called by lazy initialization; again costs a branch.
void load_operators();

// Fills the rows of libacl_op_compiler, where there is one. Only what sets compiler options needs them.
void load_compiler();

}  // namespace cann

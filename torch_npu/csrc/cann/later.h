// CANN's functions that few programs call, looked up when one of them is first needed: `cann::later().aclrtIpcMemClose(...)`.
// Members are the rows of cann/abi/*.yaml marked `plugin: later`. Any of them may be null: look before you call.
// What it is not: what every program needs (api.h), whose header all operators include.
#pragma once

#include "acl/api.h"
#include "csrc/cann/export.h"

namespace cann {

struct LaterApi {
#define X(symbol, library) decltype(&::symbol) symbol = nullptr;
#include "cann_later_table.inc"
#undef X
};

// The libraries are loaded, as they are wherever a device was initialized.
NPU_API const LaterApi& later();

}  // namespace cann

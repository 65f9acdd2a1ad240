// libmspti's and libms_tools_ext's functions, as api.h has those of libascendcl. Loaded when somebody profiles or names a range, and
// not before; a CANN without them leaves the pointers null.
#pragma once

#include "acl/api.h"
#include "csrc/cann/export.h"
#include "mspti/api.h"

namespace cann {

struct Mspti {
#define X(symbol, library, required) decltype(&::symbol) symbol = nullptr;
#include "cann_mspti_table.inc"
#undef X
};

// May throw c10::Error, as acl() does (root.h, library.h).
NPU_API const Mspti& mspti();

}  // namespace cann

// Packages of custom operators: where their libraries would lie, in the order they are searched. Read from the environment when the
// first operator is called, so a program may set the variables after it has imported torch_npu.
//   1. <p>/op_api/lib/libcust_opapi.so for each p of ASCEND_CUSTOM_OPP_PATH, separated by ":"
//   2. <opp>/vendors/<v>/op_api/lib/libcust_opapi.so for each v of `load_priority=` in <opp>/vendors/config.ini, where <opp> is ASCEND_OPP_PATH
// What it is not: it opens nothing. Who calls it: aclnn.cpp, and csrc/python for torch_npu.utils.custom_ops.
#pragma once

#include <string>
#include <vector>

#include "csrc/cann/export.h"

namespace cann {

NPU_API std::vector<std::string> package_libraries();

constexpr const char* kNotThere = "not there";

// Empty if a file is there; else why not: kNotThere, a link to nothing, a folder, a library that was cut off.
std::string obstacle_at(const std::string& path);

// The same of a package's library, which must belong to root or to the user.
std::string refusal_of(const std::string& path);

}  // namespace cann

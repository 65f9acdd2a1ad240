// CUDA and C++ sources of extensions: their kernels and bound functions are listed as CUDA operators. Nothing is changed.
#pragma once
#include <string>

#include "migrate/src/rewriter.h"

namespace migrate {

bool is_cuda_source(const std::string& path);
FileResult scan_cuda_source(std::string bytes, const std::string& path);

}  // namespace migrate

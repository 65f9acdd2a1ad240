// How a compiled model finds the functions of libtorch_npu.so, which it is not linked against: the program has loaded that before, by
// `import torch_npu` or by linking it. Included by models that torch.compile and AOTInductor make (torch_npu/_inductor/cpp_wrapper.py).
#pragma once

#include <dlfcn.h>
#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <torch/csrc/stable/c/shim.h>

#include <stdexcept>
#include <string>

template <class Function>
Function* npu_find(const char* name) {
  void* const library = dlopen("libtorch_npu.so", RTLD_NOW | RTLD_NOLOAD);
  void* const found = library ? dlsym(library, name) : nullptr;
  if (found) return reinterpret_cast<Function*>(found);
  if (library)
    throw std::runtime_error(std::string("a compiled model calls ") + name +
                             ", which this libtorch_npu.so has not: compile it again");
  throw std::runtime_error(
      "a compiled model for the npu needs libtorch_npu.so: import torch_npu, or link the program against it "
      "(-Wl,--no-as-needed -ltorch_npu)");
}

// What PyTorch's C functions return, with their message as the exception's.
inline AOTITorchError npu_checked(AOTITorchError status) {
  if (status != AOTI_TORCH_SUCCESS) throw std::runtime_error(torch_exception_get_what_without_backtrace());
  return status;
}

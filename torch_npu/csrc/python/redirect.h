// Lets a built-in function, method or constructor of PyTorch take "cuda" for "npu" among its arguments, in place: the
// Python object stays the same one, so names bound before, TorchScript's and Dynamo's tables and isinstance keep
// working, and a call costs no Python frame. It replaces the C function pointer behind the object (PyMethodDef::ml_meth
// or PyTypeObject::tp_new) and puts it back. Not a general patching tool: arguments only, results never.
// Called from csrc/python/cuda_alias.cpp, under the GIL.
#pragma once

#include <Python.h>

namespace npu::redirect {

enum class Rule {
  device,    // every cuda device among the arguments (torch.device, 'cuda', 'cuda:1', 'torch.cuda.FloatTensor') → npu
  autocast,  // the same, and a call that leaves the device type out means the npu
  to_cuda,   // Tensor.cuda: an int or an npu device → the cuda device that the method asks for
};

// `target` is a built-in function, a method descriptor or a type. False with a Python exception set where it is none
// of these or takes its arguments in a way not handled. Doing it twice is doing it once.
bool install(PyObject* target, Rule rule);

void remove_all();

}  // namespace npu::redirect

// The rewriter for programs that have the text in memory: libpytorch_gpu2npu.so. One file at a time, knowing no others.
// Called by torch_npu/contrib/_cuda/rewrite.py.
#pragma once
#include <cstddef>

#define GPU2NPU_API __attribute__((visibility("default")))

extern "C" {

// The rewritten text, to be given to pytorch_gpu2npu_free, or null if nothing changes. Lines keep their numbers, so that
// tracebacks and debuggers fit the file. path is for messages only. Never throws.
GPU2NPU_API char* pytorch_gpu2npu_rewrite(const char* bytes, size_t size, const char* path, size_t* rewritten_size);
GPU2NPU_API void pytorch_gpu2npu_free(char* text);

}  // extern "C"

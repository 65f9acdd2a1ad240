// NPU_API: a symbol of libtorch_npu.so that torch_npu._C (csrc/python) may use. Everything else is hidden.
#pragma once

#define NPU_API __attribute__((visibility("default")))

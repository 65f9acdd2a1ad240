# The installed torch wheel as imported targets, without its own CMake files (they look for far more than we use).
#   torch::cpu     c10 + ATen          torch::python  torch_python and pybind11
include_guard()
if(NOT TORCH_DIR)  # a toolchain file names the torch of its own processor
  execute_process(
    COMMAND ${Python3_EXECUTABLE} -c "import importlib.util,os;print(os.path.dirname(importlib.util.find_spec('torch').origin))"
    OUTPUT_VARIABLE TORCH_DIR OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
endif()
file(STRINGS "${TORCH_DIR}/version.py" torch_version REGEX "__version__ = ")
# What differs is in torch_npu/csrc/core/torch_version.h and torch_npu/_torch_version.py. 2.10's Inductor has no place for a back end like ours.
if(torch_version MATCHES "'2\\.13\\.")
  set(ANYCEND_INDUCTOR ON)
elseif(torch_version MATCHES "'2\\.10\\.")
  set(ANYCEND_INDUCTOR OFF)
else()
  message(FATAL_ERROR "anycend needs torch 2.13.x or 2.10.x, found ${torch_version} in ${TORCH_DIR}: pip install torch==2.13.0")
endif()
add_library(torch_cpu INTERFACE)
target_include_directories(torch_cpu SYSTEM INTERFACE "${TORCH_DIR}/include" "${TORCH_DIR}/include/torch/csrc/api/include")
target_link_libraries(torch_cpu INTERFACE "${TORCH_DIR}/lib/libtorch_cpu.so" "${TORCH_DIR}/lib/libc10.so")
target_compile_definitions(torch_cpu INTERFACE AT_PER_OPERATOR_HEADERS)
add_library(torch::cpu ALIAS torch_cpu)
add_library(torch_python INTERFACE)
target_link_libraries(torch_python INTERFACE torch_cpu "${TORCH_DIR}/lib/libtorch_python.so" "${TORCH_DIR}/lib/libtorch.so" Python3::Module)
add_library(torch::python ALIAS torch_python)

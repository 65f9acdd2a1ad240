# UCX's headers, from the Python package libucx-cu12: the target ucx_headers. The library itself is loaded when it is needed.
if(NOT TARGET ucx_headers)
  execute_process(COMMAND ${Python3_EXECUTABLE} -c
                  "import importlib.metadata as m; print(next(f.locate() for f in m.files('libucx-cu12') if f.match('ucp/api/ucp.h')).parents[3])"
                  OUTPUT_VARIABLE ucx_root OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  add_library(ucx_headers INTERFACE)
  target_include_directories(ucx_headers SYSTEM INTERFACE "${ucx_root}/include")
  # Where a staged build looks for the library: beside torch_npu, as when it is installed.
  file(CREATE_LINK "${ucx_root}" "${ANYCEND_STAGE_DIR}/libucx" SYMBOLIC)
endif()

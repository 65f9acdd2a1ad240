# UCX's headers: the target ucx_headers. The library itself is loaded when it is needed.
include(PythonHeaders)
python_headers(ucx_headers libucx-cu12 ucp/api/ucp.h)
# Where a staged build looks for the library: beside torch_npu, as when it is installed.
get_filename_component(ucx_root "${ucx_headers_include}" DIRECTORY)
if(CMAKE_CROSSCOMPILING)  # the headers are the same everywhere, the library is not
  set(ucx_root "${TORCH_DIR}/../libucx")
endif()
file(CREATE_LINK "${ucx_root}" "${ANYCEND_STAGE_DIR}/libucx" SYMBOLIC)

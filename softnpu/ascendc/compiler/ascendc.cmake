# ascendc_library(<target> SHARED|STATIC <source>...): AscendC kernels as a library that host targets link, with aclrtlaunch_<kernel>.h for
# them. What it is not: a toolchain; each source is compiled by `bisheng` of this root. Included by users' CMakeLists.txt from
# <root>/compiler/tikcpp/ascendc_kernel_cmake, where projects look for it.
get_filename_component(_anycend_root "${CMAKE_CURRENT_LIST_DIR}/../../.." REALPATH)
set(ANYCEND_ASCENDC_ROOT "${_anycend_root}" CACHE INTERNAL "the software NPU's root")

cmake_policy(PUSH)
if(POLICY CMP0116)
  cmake_policy(SET CMP0116 NEW)  # of the files below DEPFILE, which the function has from here
endif()
function(ascendc_library target kind)
  if(NOT kind MATCHES "^(SHARED|STATIC)$")
    message(FATAL_ERROR "ascendc_library(${target} ${kind}): the second argument is SHARED or STATIC")
  endif()
  if(NOT ARGN)
    message(FATAL_ERROR "ascendc_library(${target} ${kind}): there are no sources")
  endif()
  set(root "${ANYCEND_ASCENDC_ROOT}")
  set(folder "${CMAKE_CURRENT_BINARY_DIR}/${target}.ascendc")
  set(options "")
  if(DEFINED ASCENDC_NPU_ARCH)
    set(options "--npu-arch=${ASCENDC_NPU_ARCH}")
  endif()
  file(MAKE_DIRECTORY "${folder}/include")
  set(objects "")
  foreach(source ${ARGN})
    get_filename_component(path "${source}" ABSOLUTE)
    get_filename_component(name "${source}" NAME)
    string(MD5 apart "${path}")  # sources of several folders may have one name
    string(SUBSTRING "${apart}" 0 8 apart)
    set(object "${folder}/${name}.${apart}.o")
    set(depends "")
    if(CMAKE_VERSION VERSION_GREATER_EQUAL 3.20)  # before, Makefiles have no such rules of ours
      set(depends DEPFILE "${object}.d")
    endif()
    add_custom_command(OUTPUT "${object}" DEPENDS "${path}" ${depends} VERBATIM COMMENT "AscendC: ${name}"
                       COMMAND "${root}/bin/bisheng" -x asc ${options} -MMD -MF "${object}.d" -MQ "${object}" -c
                               "--launch-headers=${folder}/include" "${path}" -o "${object}")
    list(APPEND objects "${object}")
  endforeach()
  set_source_files_properties(${objects} PROPERTIES EXTERNAL_OBJECT TRUE GENERATED TRUE)
  add_library(${target} ${kind} ${objects})
  set_target_properties(${target} PROPERTIES LINKER_LANGUAGE CXX)
  target_include_directories(${target} PUBLIC "${folder}/include" "${root}/include")
  target_link_libraries(${target} PUBLIC "${root}/lib64/libsoftnpu_ascendc.so" "${root}/lib64/libascendcl.so")
endfunction()
cmake_policy(POP)

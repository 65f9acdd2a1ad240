# build/<preset>/stage: the Python sources as links and the package metadata (entry points), beside the libraries built there.
include_guard()
execute_process(COMMAND ${Python3_EXECUTABLE} "${CMAKE_SOURCE_DIR}/tools/dev/stage.py" "${CMAKE_SOURCE_DIR}" "${CMAKE_BINARY_DIR}/stage"
                COMMAND_ERROR_IS_FATAL ANY)

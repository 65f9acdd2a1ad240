# Boost's headers, from the Python package boost-headers: the target boost_headers.
if(NOT TARGET boost_headers)
  execute_process(COMMAND ${Python3_EXECUTABLE} -c
                  "import importlib.metadata as m; print(next(f.locate() for f in m.files('boost-headers') if f.match('boost/version.hpp')).parent.parent)"
                  OUTPUT_VARIABLE boost_include OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  add_library(boost_headers INTERFACE)
  target_include_directories(boost_headers SYSTEM INTERFACE "${boost_include}")
endif()

# python_headers(<target> <distribution> <header>): an interface target for the headers that a Python package carries, and
# <target>_include, their folder. It asks the Python that runs the build, as for torch: where pip builds in isolation the
# requirements lie in a folder that only this interpreter's path names, and the environment installed into has none of them.
include_guard()
function(python_headers target distribution header)
  if(NOT TARGET ${target})
    set(ask "import importlib.metadata as m; files = [f.locate() for f in m.files('${distribution}') if f.match('${header}')]")
    execute_process(COMMAND ${Python3_EXECUTABLE} -c "${ask}; print(str(files[0])[:-len('/${header}')])"
                    OUTPUT_VARIABLE folder OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_VARIABLE why RESULT_VARIABLE failed)
    if(failed)
      message(FATAL_ERROR "${header} was not found by ${Python3_EXECUTABLE}: pip install ${distribution} (${why})")
    endif()
    add_library(${target} INTERFACE)
    target_include_directories(${target} SYSTEM INTERFACE "${folder}")
  endif()
  get_target_property(folder ${target} INTERFACE_INCLUDE_DIRECTORIES)
  set(${target}_include "${folder}" PARENT_SCOPE)
endfunction()

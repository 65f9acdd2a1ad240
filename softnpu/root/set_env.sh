# Source this file (bash or zsh): programs that look for a CANN toolkit then find the software NPU.
# Adds to what is set, as CANN's own file does, and only once. `anycend run` sources it for one command.
_anycend_file="${BASH_SOURCE[0]:-$0}"
_anycend_root="$(cd -P -- "$(dirname -- "$(readlink -f -- "${_anycend_file}")")" && pwd -P)"

_anycend_prepend() { # <variable> <folder>
  eval "_anycend_now=\"\${$1:-}\""
  case ":${_anycend_now}:" in
    *":$2:"*) ;;
    *) export "$1=$2${_anycend_now:+:${_anycend_now}}" ;;
  esac
}

export ASCEND_HOME_PATH="${_anycend_root}"
export ASCEND_TOOLKIT_HOME="${_anycend_root}"
export ASCEND_AICPU_PATH="${_anycend_root}"
export ASCEND_OPP_PATH="${_anycend_root}/opp"
export TOOLCHAIN_HOME="${_anycend_root}/toolkit"
_anycend_prepend LD_LIBRARY_PATH "${_anycend_root}/lib64"
_anycend_prepend PATH "${_anycend_root}/tools/profiler/bin"
_anycend_prepend PATH "${_anycend_root}/bin"
_anycend_prepend PYTHONPATH "${_anycend_root}/python/site-packages"
_anycend_prepend CMAKE_PREFIX_PATH "${_anycend_root}/lib64/cmake"

unset -f _anycend_prepend
unset _anycend_file _anycend_root _anycend_now

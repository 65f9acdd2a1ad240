# Source this file (bash, zsh, dash): programs that look for a CANN toolkit then find the software NPU.
# Adds to what is set, as CANN's own file does, and only once. `anycend run` sources it for one command.
# It also lies in ascend-toolkit, ascend-toolkit/latest and nnae of the root, where scripts look for it.
# Which file is read: bash and zsh say so, whatever their options; of another shell the open file is looked for.
if [ -n "${ZSH_VERSION:-}" ]; then
  typeset -g _anycend_file _anycend_root _anycend_now
  eval '_anycend_file="${(%):-%x}"'
elif [ -n "${BASH_VERSION:-}" ]; then
  _anycend_file="${BASH_SOURCE:-}"
else
  _anycend_file=
  case $- in *f*) _anycend_root=-f ;; *) _anycend_root=+f ;; esac # the option as it is
  set +f
  for _anycend_now in "/proc/$(exec sh -c 'echo $PPID')/fd"/*; do # $$ is another process in a subshell
    _anycend_now="$(readlink -- "${_anycend_now}" || true)"
    if [ "${_anycend_now##*/}" = set_env.sh ]; then _anycend_file="${_anycend_now}"; fi
  done
  set "${_anycend_root}"
fi
_anycend_file="$(readlink -f -- "${_anycend_file}" || true)"
_anycend_root=
for _anycend_now in "${_anycend_file%/*}/../.." "${_anycend_file%/*}/.." "${_anycend_file%/*}"; do
  if [ -e "${_anycend_now}/share/info/anycend/version.info" ] && [ -e "${_anycend_now}/lib64/libascendcl.so" ]; then
    _anycend_root="$(readlink -f -- "${_anycend_now}")"
  fi
done
if [ -z "${_anycend_file}" ] || [ -z "${_anycend_root}" ]; then
  echo "set_env.sh: nothing is set: it was copied out of the software NPU's folder, or this shell does not say which" \
    "file it reads. Source it where it lies, in bash or zsh, or use: anycend run -- command" >&2
  unset _anycend_file _anycend_root _anycend_now
  return 1
fi

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

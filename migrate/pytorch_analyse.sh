#!/bin/sh
# The documents' first phase, the analysis alone: pytorch_gpu2npu analyse.
exec "$(dirname -- "$(readlink -f -- "$0")")/pytorch_gpu2npu.sh" analyse "$@"

#!/bin/sh
# The documents' command. Lies in torch_npu/bin and in tools/ms_fmk_transplt of the software NPU, as in a CANN root; the
# tool is in torch_npu/bin, or in bin of a software NPU that is installed alone.
here=$(dirname -- "$(readlink -f -- "$0")")
for tool in "$here/pytorch_gpu2npu" "$here/../../../bin/pytorch_gpu2npu" "$here/../../bin/pytorch_gpu2npu"; do
  [ -x "$tool" ] && exec "$tool" "$@"
done
echo "pytorch_gpu2npu.sh: no pytorch_gpu2npu beside it" >&2
exit 1

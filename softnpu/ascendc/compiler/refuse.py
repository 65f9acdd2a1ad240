"""Names that the software NPU does not have, and that no header could refuse: languages, macros, headers.

They are refused by name, with the line.

What it is not: the list of refused functions, which ascendc/refused.h is.
"""

from __future__ import annotations

import re

from text import SourceError, blanked, line_of

_SIMT = "SIMT kernels of the 950"
_REGISTER = "the register API of the 950 (__simd_vf__, MicroAPI)"
_CALLBACK = "callbacks of the Matmul object"
_CONV = "the convolution object"
_CPU_MODE = "another CPU mode: kernels run on the software NPU's streams"
WORDS = {
    "__simt_vf__": _SIMT,
    "__simt_callee__": _SIMT,
    "threadIdx": _SIMT,
    "__simd_vf__": _REGISTER,
    "__simd_callee__": _REGISTER,
    "asc_vf_call": _REGISTER,
    "__VEC_SCOPE__": _REGISTER,
    "MicroAPI": _REGISTER,
    "MatmulCallBackFunc": _CALLBACK,
    "ICPU_RUN_KF": _CPU_MODE,
    "int4b_t": "numbers of 4 bits",
}
HEADERS = {
    "lib/hccl": "communication inside kernels",
    "lib/conv": _CONV,
    "adv_api/": "the high-level API",
    "simt_api/": _SIMT,
    "catlass/": "tensor templates (catlass)",
    "tla/": "tensor templates (tla)",
    "tikicpulib.h": _CPU_MODE,
    "hccl/hccl.h": "communication inside kernels",
}

_WORD = re.compile(r"\b(?:" + "|".join(map(re.escape, WORDS)) + r")\b")
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*[<"]([^>"]+)[>"]', re.MULTILINE)


def check(source: str, path: str) -> None:
    for match in _INCLUDE.finditer(blanked(source, strings=False)):
        for beginning, why in HEADERS.items():
            if match.group(1).startswith(beginning) or match.group(1).endswith("/" + beginning):
                raise SourceError(
                    path, line_of(source, match.start(1)), f'"{match.group(1)}" is refused: it is for {why}'
                )
    if match := _WORD.search(blanked(source)):
        raise SourceError(
            path, line_of(source, match.start()), f"{match.group()} is refused: it is for {WORDS[match.group()]}"
        )

"""Names that the software NPU does not have, and that no header could refuse: languages, macros, headers.

They are refused by name: in the source with the line (includes, words), elsewhere when the compiler stumbles over them.

What it is not: the list of refused functions, which ascendc/refused.h is; nor what is said of the compiler's errors
(explain.py).
"""

from __future__ import annotations

import re

from text import SourceError, read
from unit import Unit

_SIMT = "SIMT functions on numbers of 16 and 8 bits"
_CALLBACK = "callbacks of the Matmul object"
_CONV = "the convolution object"
_COMMUNICATION = "communication inside kernels"
_CPU_MODE = "another CPU mode: kernels run on the software NPU's streams"
WORDS = {
    "MatmulCallBackFunc": _CALLBACK,
    "ICPU_RUN_KF": _CPU_MODE,
}
# Only where the compiler stumbles over them: they may stand in parts of a header that #if leaves out.
INSIDE = {
    name: _COMMUNICATION
    for name in "Mc2InitTiling Mc2CcTiling HcclHandle HcclDataType HcclReduceOp HcclServerType IbVerbsData "
    "GetHcclContext HCCL_MAX_RANK_NUM HCCL_GROUP_ID_0 HCCL_GROUP_ID_1 HcclCombineOpParam HcclOpResParam".split()
}
# Names of the API that no header here has, since kernels may have functions and classes of their own so called.
_INSTRUCTION, _HIGH = "such instruction", "such high-level function"
# What dav-3510 alone has.
REGISTERS, THREADS = (f"{what} but for the 950 (--npu-arch=dav-3510)" for what in ("register API", "SIMT functions"))
_KEYS = "cores and keys by tiling key: KERNEL_TASK_TYPE_DEFAULT says the cores for all keys, --tiling-key the key"
_COUNTS = "register of reductions: ReduceMax and ReduceMin with calIndex give the index"
ABSENT = {
    **dict.fromkeys(
        "AddDeqRelu AddReluCast SubReluCast MulCast VectorPadding BilinearInterpolation".split(), _INSTRUCTION
    ),
    **dict.fromkeys(
        "Interleave DeInterleave Prelu Mull SetHF32Mode SetHF32TransMode SetAippFunctions".split(), _INSTRUCTION
    ),
    **dict.fromkeys("SinCos LogicalAnd LogicalNot LogicalOr BitwiseAnd BitwiseOr BitwiseNot Rint Hypot".split(), _HIGH),
    **dict.fromkeys("Fma IsNan IsInf IsFinite Truncate".split(), _HIGH),
    **dict.fromkeys("ProposalConcat ProposalExtract RpSort16 MrgSort4".split(), "instruction of the older chips"),
    **dict.fromkeys(("KERNEL_TASK_TYPE", "TILING_KEY_LIST"), _KEYS),
    **dict.fromkeys(("GetReduceMaxMinCount", "GetReduceRepeatMaxMinSpr"), _COUNTS),
    **dict.fromkeys(("SetNextTaskStart", "WaitPreTaskEnd"), "order between kernels but that of streams"),
    **dict.fromkeys(
        "GetVecLen VECTOR_REG_WIDTH SpecialPurposeReg GetSpr ClearSpr Reg MicroAPI RegTensor MaskReg UnalignReg "
        "AddrReg CreateAddrReg CreateMask UpdateMask LocalMemBar LoadAlign StoreAlign CastTrait RegLayout SatMode "
        "MaskMergeMode MaskPattern LoadDist StoreDist PostLiteral MemType DefaultType DataCopyUnAlign "
        "DataCopyUnAlignPost Compares FusedMulDstAdd ShiftLefts ShiftRights Neg MaskAnd MaskOr MaskXor MaskNot "
        "__VEC_SCOPE__ __simd_vf__ __simd_callee__ __local_mem__".split(),
        REGISTERS,
    ),
    **dict.fromkeys(
        "UnalignRegForLoad UnalignRegForStore MaskInterleave MaskDeInterleave MaskPack MaskUnPack MaskMov "
        "MaskGenWithRegTensor LoadUnAlign LoadUnAlignPre StoreUnAlign StoreUnAlignPost DataCopyUnAlignPre RegTrait "
        "Squeeze UnSqueeze Pack UnPack Histograms ReduceDataBlock DataCopyGather DataCopyScatter".split(),
        "such part of the register API",
    ),
    **dict.fromkeys(
        "MakeTensor MakeCopy MakeMemPtr MakeShape MakeStride MakeLayout MakeCoord Coord TensorTrait".split(),
        "tensor templates",
    ),
    **dict.fromkeys(
        "threadIdx blockDim blockIdx gridDim GetThreadIdx GetThreadNum asc_vf_call asc_syncthreads asc_threadfence "
        "asc_all asc_any asc_ballot asc_shfl asc_shfl_up asc_shfl_down asc_shfl_xor asc_reduce_add asc_reduce_max "
        "asc_reduce_min asc_atomic_add asc_atomic_sub asc_atomic_exch asc_atomic_max asc_atomic_min asc_atomic_and "
        "asc_atomic_or asc_atomic_xor asc_atomic_cas asc_ldcg asc_ldca asc_stcg asc_stwt VF_CALL Dim3 GetWarpSize "
        "GetLaneId GetWarpId ThreadBarrier ThreadFence WarpBallotSync WarpActiveMask WarpAllSync WarpAnySync "
        "WarpShflSync WarpShflUpSync WarpShflDownSync WarpShflXorSync WarpReduceAddSync WarpReduceMaxSync "
        "WarpReduceMinSync AtomicAdd AtomicMax AtomicMin AtomicSub AtomicExch AtomicAnd AtomicOr AtomicXor "
        "AtomicCas Popc Clz Pow Simt::GetBlockIdx Simt::GetBlockNum Simt::GetThreadIdx Simt::GetThreadNum".split(),
        THREADS,
    ),
    **dict.fromkeys(
        ("AllocMutexID", "ReleaseMutexID", "Mutex"), "mutexes between units: SetFlag and WaitFlag order them"
    ),
    **dict.fromkeys(
        ("GroupBarrier", "CubeResGroupHandle", "AllocMessage"),
        "groups of cores: SyncAll and CrossCoreSetFlag order blocks",
    ),
    **dict.fromkeys(("NotifyNextBlock", "WaitPreBlock"), "order of blocks by number: IBSet and IBWait"),
    **dict.fromkeys("CastDeq CastDequant SetPadValue SetFmatrix SetLoadDataBoundary".split(), _INSTRUCTION),
    **dict.fromkeys(
        "SetMMLayoutTransform SetFixpipePreQuantFlag SetFixPipeClipRelu SetFixPipeAddr".split(), _INSTRUCTION
    ),
    **dict.fromkeys("GetProgramCounter CheckLocalMemoryIA CountBitsCntSameAsSignBit".split(), _INSTRUCTION),
    **dict.fromkeys(
        "ListTensorDesc TensorDesc".split(), "lists of tensors of its own: take their addresses one by one"
    ),
    "InitBufPool": "TBufPool",
    "LocalMemAllocator": "tensors without a TPipe: InitBuffer gives a TBuf its memory",
    "SliceInfo": "copies of slices: DataCopyParams and DataCopyExtParams have strides",
}
HEADERS = {
    "lib/hccl": _COMMUNICATION,
    "lib/conv": _CONV,
    "adv_api/": "the high-level API",
    "simt_api/asc_fp": _SIMT,
    "simt_api/asc_bf": _SIMT,
    "catlass/": "tensor templates (catlass)",
    "tla/": "tensor templates (tla)",
    "tikicpulib.h": _CPU_MODE,
    "hccl/hccl.h": _COMMUNICATION,
    "pto/": "tensor templates (pto)",
}

_WORD = re.compile(r"\b(?:" + "|".join(map(re.escape, WORDS)) + r")\b")
_INCLUDE = re.compile(r'[ \t]*#[ \t]*include[ \t]*[<"]([^>"]+)[>"]')


def header(name: str) -> str | None:
    """Why a header is refused, if it is."""
    for beginning, why in HEADERS.items():
        if name.startswith(beginning) or name.endswith("/" + beginning):
            return why
    return None


def includes(unit: Unit) -> None:
    """In the source itself. Those that are there: of what is missing the compiler's error is explained."""
    lines = unit.includes()
    if not lines:
        return
    source = read(unit.path).split("\n")
    for line in lines:
        named = _INCLUDE.match(source[line - 1]) if line <= len(source) else None
        if named and (why := header(named.group(1))):
            raise SourceError(unit.path, line, f'"{named.group(1)}" is refused: it is for {why}')


def words(unit: Unit) -> None:
    """In the source itself, not in headers of its own, where they may stand unused."""
    for match in _WORD.finditer(unit.code):
        if unit.place(match.start())[0] == unit.path:
            raise unit.error(match.start(), f"{match.group()} is refused: it is for {WORDS[match.group()]}")

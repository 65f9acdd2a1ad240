"""The cube core: products by hand and by the Matmul object, kernels of both kinds of cores. cube.h, matmul.h."""

from __future__ import annotations

import ctypes as C

import numpy as np
import pytest

from tests.ascendc.kit import KERNELS, bisheng
from tests.runtime.acl import run

FIELDS = "usedCoreNum M N Ka Kb singleCoreM singleCoreN singleCoreK baseM baseN baseK"
FIELDS += " depthA1 depthB1 stepM stepN isBias transLength iterateOrder"


class Tiling(C.Structure):
    """TCubeTiling: the fields that are read here, and the rest."""

    _fields_ = [(name, C.c_int32) for name in FIELDS.split()] + [("rest", C.c_int32 * 32)]


def matrices(rng, dtype, m, n, k):
    if dtype == np.int8:
        return [rng.integers(-128, 128, shape, dtype=np.int8) for shape in ((m, k), (k, n))]
    return [rng.uniform(-2, 2, shape).astype(dtype) for shape in ((m, k), (k, n))]


HAND = [  # kernel, type, type of the result, forms
    ("hand_half", np.float16, np.float32, (0, 1, 2, 3)),
    ("hand_half_half", np.float16, np.float16, (0, 2, 3)),
    ("hand_float", np.float32, np.float32, (0, 1)),
    ("hand_int8", np.int8, np.int32, (0, 1, 2)),
]


@pytest.mark.parametrize("kernel, dtype, result, forms", HAND, ids=[h[0] for h in HAND])
def test_by_hand(compiled, kernel, dtype, result, forms):
    rng = np.random.default_rng(70)
    for form in forms:
        for bias in (0, 1):
            # B as it is goes through 16 x 16 transposition, which is for types of 16 bits.
            transposed = 1 if dtype != np.float16 else int(rng.integers(0, 2))
            m, n = int(rng.integers(1, 60)), int(rng.integers(1, 60))
            k = 32 * int(rng.integers(1, 4))
            a, b = matrices(rng, dtype, m, n, k)
            sums = np.int32 if dtype == np.int8 else np.float32
            row = rng.integers(-50, 50, -(-n // 16) * 16).astype(sums)
            wanted = a.astype(sums) @ b.astype(sums) + bias * row[:n]
            if form == 1:
                wanted = wanted + a.astype(sums) @ b.astype(sums)
            if form == 2:
                wanted = np.maximum(wanted, 0)
            columns = -(-n // 16)
            c = np.zeros(columns * m * 16 if form == 3 else m * n, result)
            given = [a, b.T.copy() if transposed else b, row, c]
            scalars = tuple(C.c_uint32(x) for x in (m, n, k, transposed, bias, form))
            got = compiled("cube").launch(kernel, 1, *given, scalars=scalars)[3]
            if form == 3:  # NZ: the columns of 16 one after the other
                got = got.reshape(columns, m, 16).transpose(1, 0, 2).reshape(m, -1)[:, :n]
            got = got.reshape(m, n)
            if dtype == np.int8:
                np.testing.assert_array_equal(got, wanted)
            else:
                close = {"rtol": 1e-3, "atol": 1e-2} if result == np.float16 else {"rtol": 1e-4, "atol": 1e-4}
                np.testing.assert_allclose(got.astype(np.float32), wanted, **close)


def test_one_scale_to_int8(compiled):
    rng = np.random.default_rng(71)
    a, b = matrices(rng, np.int8, 17, 33, 32)
    row = np.zeros(48, np.int32)
    wanted = np.clip(np.rint((a.astype(np.int32) @ b.astype(np.int32)) * 0.125), -128, 127)
    scalars = tuple(C.c_uint32(x) for x in (17, 33, 32, 1, 0, 4))
    got = compiled("cube").launch("hand_int8", 1, a, b.T.copy(), row, np.zeros(17 * 33, np.int8), scalars=scalars)[3]
    np.testing.assert_array_equal(got.reshape(17, 33), wanted)


@pytest.mark.parametrize("offset", [5, -5, 255, -256])
def test_an_offset_of_int8(compiled, offset):
    """Bits 37 to 45 of deqScalar, as npu_trans_quant_param writes it; of the scale the upper 19 bits count."""
    rng = np.random.default_rng(72)
    a, b = matrices(rng, np.int8, 17, 33, 32)
    scale = np.frombuffer(np.uint32(np.frombuffer(np.float32(0.01), "u4")[0] & 0xFFFFE000), "f4")[0]
    product = (a.astype(np.int32) @ b.astype(np.int32)).astype(np.float32)
    wanted = np.clip(np.clip(np.rint(product * scale), -256, 255) + offset, -128, 127)
    scalars = tuple(C.c_uint32(x) for x in (17, 33, 32, 1, 0, 4, offset & 0x1FF))
    arrays = a, b.T.copy(), np.zeros(48, np.int32), np.zeros(17 * 33, np.int8)
    got = compiled("cube").launch("hand_int8_offset", 1, *arrays, scalars=scalars)[3]
    np.testing.assert_array_equal(got.reshape(17, 33), wanted)


def tiling(m, n, k, single, bias=0, order=0):
    base = {"baseM": 32, "baseN": 48, "baseK": 16}
    return Tiling(
        M=m, N=n, Ka=k, Kb=k, singleCoreM=single, singleCoreN=n, singleCoreK=k, isBias=bias, iterateOrder=order, **base
    )


def line_of(text: str) -> int:
    return next(n for n, line in enumerate((KERNELS / "cube.asc").read_text().splitlines(), 1) if text in line)


def test_a_partial_sum_begins_with_nothing_and_is_of_one_tile(compiled):
    """Iterate(true): the first one ended the process, one on a smaller tile wrote beyond it."""
    rng = np.random.default_rng(73)
    m, n, k = 16, 16, 32
    (a, b), row, c = matrices(rng, np.float32, m, n, k), np.zeros(n, "f4"), np.zeros((m, n), "f4")
    t = tiling(m, n, k, m, 0)
    give = [a, b, row, c]
    got = compiled("cube").launch("object_cube", 1, *give, scalars=(t, C.c_uint32(0), C.c_uint32(3)))[3]
    np.testing.assert_allclose(got, 2 * (a @ b), rtol=1e-4, atol=1e-3)
    error = compiled("cube").launch("object_cube", 1, *give, scalars=(t, C.c_uint32(0), C.c_uint32(4)), check=False)
    said = "Iterate: enPartialSum adds this product of 16 x 16 to the last one, which is 8 x 8: they must be alike"
    assert f"cube.asc:{line_of('mm.SetTail(16, 16)') + 1}: {said}" in error


def test_what_is_wrong_with_a_matrix_is_said_of_the_line_that_gives_it(compiled):
    error = compiled("cube").launch(
        "never_transposed", 1, np.zeros(256, "f2"), scalars=(tiling(16, 16, 16, 16, 0),), check=False
    )
    said = "SetTensorA: the matrix is transposed, and its MatmulType says that it never is"
    assert f"cube.asc:{line_of('mm.SetTensorA(ga, true)')}: {said}" in error


@pytest.mark.parametrize("kernel, dtype", [("object_half", np.float16), ("object_cube", np.float32)])
def test_the_object(compiled, kernel, dtype):
    """Of a mixed kernel 3 blocks are 6 vector cores, of which each has rows of its own."""
    rng = np.random.default_rng(72)
    cores = 6 if kernel == "object_half" else 3
    for form in (0, 1, 2):
        for transposed in (0, 1):
            m, n, k = (int(x) for x in rng.integers(20, 150, 3))
            bias = int(rng.integers(0, 2))
            a, b = matrices(rng, dtype, m, n, k)
            row, c = rng.uniform(-9, 9, n).astype(np.float32), rng.uniform(-9, 9, (m, n)).astype(np.float32)
            t = tiling(m, n, k, -(-m // cores), bias, order=transposed)
            wanted = a.astype(np.float32) @ b.astype(np.float32) + bias * row + (c if form == 1 else 0)
            given = [a.T.copy(), b.T.copy(), row, c] if transposed else [a, b, row, c]
            got = compiled("cube").launch(kernel, 3, *given, scalars=(t, C.c_uint32(transposed), C.c_uint32(form)))[3]
            np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-3)


VECTOR = """
from pathlib import Path
import ctypes as C
import numpy as np
from tests.ascendc.kit import Device, Kernels
from tests.ascendc.test_cube import Tiling
kernels = Kernels(Path({library!r}), Device())
rng = np.random.default_rng(73)
a, b = rng.uniform(-1, 1, (128, 48)).astype("f2"), rng.uniform(-1, 1, (48, 64)).astype("f2")
row, c = rng.uniform(-1, 1, 64).astype("f4"), np.zeros((128, 64), "f4")
whole = dict(M=128, N=64, Ka=48, Kb=48, isBias=1)
t = Tiling(singleCoreM=32, singleCoreN=64, singleCoreK=48, baseM=16, baseN=32, baseK=16, **whole)
got = kernels.launch("object_then_vector", 2, a, b, row, c, scalars=(t,))[3]
wanted = a.astype("f4") @ b.astype("f4") + row
np.testing.assert_allclose(got, np.where(wanted < 0, wanted / 4, wanted), rtol=1e-4, atol=1e-4)
"""


@pytest.mark.parametrize("check", ["0", "kernel"])
def test_the_objects_result_goes_to_the_vector_unit(compiled, check):
    """As the vendor's public example does it: buffers first, no type of the kernel, no flags around GetTensorC."""
    run(VECTOR.format(library=compiled("cube").library._name), ANYCEND_CHECK=check)


def test_cube_and_vector_cores_take_turns(compiled):
    groups = 5
    (x,) = compiled("cube").launch("turns", groups, np.zeros(3 * groups, np.int32))
    v = np.arange(2 * groups)
    np.testing.assert_array_equal(x[: 2 * groups], v // 2 + 100 * (v + 1))
    np.testing.assert_array_equal(x[2 * groups :], x[: 2 * groups : 2] + x[1 : 2 * groups : 2])


def test_a_type_that_an_attribute_says(compiled):
    kernels, device = compiled("cube"), compiled("cube").device
    pointer = device.put(np.zeros(6, np.int32))
    kernels.library.mark(C.c_uint32(3), C.c_void_p(device.stream), C.c_void_p(pointer))
    assert device.finish() == ""
    np.testing.assert_array_equal(device.get(pointer, np.zeros(6, np.int32)), 1320 + np.arange(6) % 2)
    device.acl.aclrtFree(pointer)


def test_an_error_says_which_core_it_is(compiled):
    assert "fails failed on device 0: block 1 (vector core 0): cube.asc:" in compiled("cube").launch(
        "fails", 2, np.zeros(8, np.uint8), check=False
    )


MISTAKES = {
    "too_large": "TQue<A2> of 2 x 40000 bytes does not fit: 0 of the 65536 bytes of ",
    "both_kinds": "the unified buffer is of the vector cores, and the block runs on a cube core",
    "wrong_place": "Mmad: fm is in B2: it must be in A2",
    "wrong_quant": "Fixpipe: quantPre is 0, and from float to a type of 2 bytes it is 1",
    "vector_of_cube": "Duplicate: dst is in the L1 buffer: the vector unit (V) reaches the unified buffer alone",
    "mixed_vector": "Duplicate: the unified buffer is of the vector cores, and the block runs on a cube core: only "
    "vector cores may come here (ASCEND_IS_AIV)",
    "asks": "ASCEND_IS_AIC: the kernel does not say which cores it runs on: KERNEL_TASK_TYPE_DEFAULT",
}


@pytest.mark.parametrize("kernel", MISTAKES)
def test_mistakes(compiled, kernel):
    error = compiled("cube").launch(kernel, 1, np.zeros(1024, np.uint8), check=False)
    assert "cube.asc:" in error and MISTAKES[kernel] in error


@pytest.mark.parametrize("blocks", [21846, 1431655766])  # times 3: one too many, and 2 in 32 bits
def test_more_blocks_of_a_mixed_kernel_than_a_launch_has(compiled, blocks):
    error = compiled("cube").launch("turns", blocks, np.zeros(8, np.int32), check=False)
    said = (
        f"turns: a launch has at most 65535 cores, which are 21845 blocks of 3 here, and this one has {blocks} blocks"
    )
    assert said in error


def test_the_objects_mistakes(compiled):
    def launch(kernel, t):
        arrays = [np.zeros(64, np.float32)] * 4
        return compiled("cube").launch(kernel, 1, *arrays, scalars=(t, C.c_uint32(0), C.c_uint32(0)), check=False)

    assert "REGIST_MATMUL_OBJ: the kernel does not say that it runs on the cube cores" in launch(
        "object_unstated", tiling(4, 4, 4, 4)
    )
    assert "Matmul::Init: the tiling is empty" in launch("object_cube", Tiling())
    large = tiling(4, 4, 4, 4)
    large.baseM = large.baseN = 256
    assert "Matmul::Init: baseM x baseN needs 262144 bytes, and L0C has 131072" in launch("object_cube", large)


HASTY = """
from pathlib import Path
import ctypes as C
import numpy as np
from tests.ascendc.kit import Device, Kernels
kernels = Kernels(Path({library!r}), Device())
print(kernels.launch("no_wait", 1, np.zeros(1024, "u1"), check=False))
kernels.launch("flags", 1, np.zeros(1024, "u1"))
a, b = np.ones((16, 32), "f2"), np.ones((32, 16), "f2")
scalars = tuple(C.c_uint32(x) for x in (16, 16, 32, 0, 1, 0))
print(kernels.launch("hand_half", 1, a, b, np.ones(16, "f4"), np.zeros(256, "f4"), scalars=scalars)[3][0])
"""


def test_the_sanitizer_sees_the_cubes_units(compiled):
    out = run(HASTY.format(library=compiled("cube").library._name), ANYCEND_CHECK="kernel").stdout
    assert "LoadData: the load engine (MTE1) reads bytes 0 to 31 of the L1 buffer that cube.asc" in out
    assert "HardEvent::MTE2_MTE1> is missing" in out
    assert out.splitlines()[-1] == "33.0"  # with its queues in order the kernel checker finds nothing


REFUSED = """
#include "lib/matmul_intf.h"
using namespace AscendC;
void f() {
  LocalTensor<half> h;
  LocalTensor<float> t;
  LoadData3DParamsV2<half> p;
  LoadDataWithTranspose(h, h, 1);
  Mmad(h, h, h, MmadParams(16, 16, 16));
  Fixpipe<half, float>(h, t, FixpipeParamsV220());
  Matmul<MatmulType<TPosition::GM, CubeFormat::ZN, half>, MatmulType<TPosition::GM, CubeFormat::ND, half>,
         MatmulType<TPosition::GM, CubeFormat::ND, float>> mm;
}
"""


def test_forms_that_are_refused(tmp_path):
    (tmp_path / "k.asc").write_text('#include "kernel_operator.h"\n' + REFUSED)
    done = bisheng("-fsyntax-only", "-O0", tmp_path / "k.asc")
    assert done.returncode == 1
    for sentence in (
        "LoadData3DParamsV2: the software NPU has no such form of the cube's instructions",
        "LoadDataWithTranspose: the software NPU has no such form of the cube's instructions",
        "Mmad takes half, bfloat16_t or float with a result of float, int8_t with a result of int32_t",
        "Fixpipe to L1 writes the format NZ (CFG_NZ)",
        "Matmul: A and B are CubeFormat::ND or NZ, and C is ND; other formats are not supported",
    ):
        assert sentence in done.stderr, sentence

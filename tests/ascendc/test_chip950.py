"""SIMT functions and the register API, which the 950 has: chip950.py compares them with numpy, on that chip."""

from __future__ import annotations

import functools
import os
import re
import subprocess
import sys

import pytest

from tests.ascendc.kit import BISHENG, KERNELS, bisheng, build


@pytest.fixture(scope="module")
def libraries(tmp_path_factory):
    folder, made = tmp_path_factory.mktemp("chip950"), {}

    def get(name: str):
        if name not in made:
            made[name] = build(KERNELS / f"{name}.asc", folder, "--npu-arch=dav-3510")
        return made[name]

    return get


SIMT = ["simt_add", "simt_abs", "simt_turn", "simt_warp", "simt_count", "simt_where", "simt_crowd"]
SIMT += ["simt_mistakes", "simt_deep", "simt_order"]


@pytest.mark.parametrize("check", [*SIMT, "reg_operations", "reg_copy", "reg_others", "reg_mistakes", "reg_order"])
def test_on_the_950(check, libraries):
    environment = os.environ | {"ANYCEND_SOC": "Ascend950"}
    if check.endswith("_order"):
        environment["ANYCEND_CHECK"] = "kernel"
    command = [sys.executable, "-m", "tests.ascendc.chip950", check, str(libraries(check.split("_")[0]))]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr


HEAD = '#include "kernel_operator.h"\nusing namespace AscendC;\n'
KERNEL = 'extern "C" __global__ __aicore__ void k(GM_ADDR x) {{ {body} }}\n'
NO_SIMT = "the software NPU has no SIMT functions but for the 950 (--npu-arch=dav-3510)"
NO_REGISTERS = "the software NPU has no register API but for the 950 (--npu-arch=dav-3510)"
# What is written before the kernel and in it, and the names of which something is said where the chip is another one.
ABSENT = {
    "call": (
        "__simt_vf__ inline void called(__gm__ float* x) { x[0] = 1; }\n",
        "Simt::VF_CALL<called>(Simt::Dim3(1), (__gm__ float*)x);",
        ["VF_CALL"],
        "SIMT functions are of the 950: --npu-arch=dav-3510",
    ),
    "language": (
        "__simt_vf__ inline void f(__gm__ float* x) { x[threadIdx.x] = 1; asc_atomic_add(x, 1.0f); }\n",
        "asc_vf_call<f>(dim3{1}, (__gm__ float*)x);",
        ["threadIdx", "asc_atomic_add", "asc_vf_call"],
        NO_SIMT,
    ),
    "register": ("", "MicroAPI::RegTensor<float> r; (void)x;", ["MicroAPI"], NO_REGISTERS),
    "scope": (
        "__simd_vf__ inline void scoped() {}\n",
        "__VEC_SCOPE__ { scoped(); } (void)x;",
        ["__simd_vf__", "__VEC_SCOPE__"],
        NO_REGISTERS,
    ),
}


@pytest.fixture(scope="module")
def errors(tmp_path_factory):
    """Of all kernels of ABSENT in one source, since each that is compiled costs."""
    kernel = KERNEL.replace(" k(", " k_{what}(")
    text = "".join(f"{ABSENT[what][0]}{kernel.format(what=what, body=ABSENT[what][1])}" for what in ABSENT)
    return functools.cache(lambda architecture: compiled(tmp_path_factory.mktemp("absent"), text, architecture))


@pytest.mark.parametrize("architecture", ["dav-2201", "dav-1001"])
@pytest.mark.parametrize("what", ABSENT)
def test_other_chips_have_none(errors, what, architecture):
    names, said = ABSENT[what][2:]
    for name in names:
        assert re.search(rf"[ ,]{name}\b[^:]*: {re.escape(said)}", errors(architecture)), errors(architecture)


HEADERS = BISHENG.parent.parent / "ascendc" / "include" / "ascendc"
# What declares a name: a macro, a type, a constant or a function, which a macro may make. Values of enums are theirs.
DECLARED = re.compile(
    r"^(?:#define (?!ASCENDC)(\w+)|(?:enum class|struct|namespace|using) (?!AscendC|detail)(\w+)(?![\w:])"
    r"|(?:inline )?constexpr \w+ (\w+)|(?:template <[^>]*> )?(?:inline )?(?:constexpr )?\w+ (\w+)\("
    r"|ASCENDC_[A-Z]+\((\w+)(?:, (Mask\w+|Atomic\w+))?)",
    re.MULTILINE,
)


def declared(header: str) -> set[str]:
    text = (HEADERS / header).read_text(encoding="utf-8")
    text = re.sub(r"namespace detail \{[\s\S]*?\}  // namespace detail|//.*", "", text)
    return {name for found in DECLARED.findall(text) for name in found if name}


def compiled(tmp_path, text: str, architecture: str) -> str:
    source = tmp_path / "k.asc"
    source.write_text(HEAD + text)
    done = bisheng("-fsyntax-only", "-O0", f"--npu-arch={architecture}", source)
    assert done.returncode == 1
    return done.stderr


def test_all_their_names_are_refused_for_other_chips(tmp_path):
    """Each that the compiler does not find is told to be of the 950, or what else it is; none to be misspelt."""
    registers, threads = declared("reg.h"), declared("simt.h")
    assert len(registers) > 75 and len(threads) > 75
    simt = sorted(name for name in threads if re.match("[A-Z]", name) and name != "Simt")
    places = [*sorted(registers | threads - {"Simt"}), *(f"Simt::{name}" for name in simt)]
    uses = [f"#ifndef {place.split('::')[-1]}\nusing AscendC::{place};\n#endif\n" for place in places]
    errors = compiled(tmp_path, "".join(uses), "dav-2201")
    lost = set(re.findall(r"error: .(?:AscendC::)?(?:Simt::)?(\w+). (?:has not been declared|is not a member)", errors))
    said = [line for line in errors.splitlines() if line.startswith("bisheng: ")]
    assert lost >= {"MaskNot", "VECTOR_REG_WIDTH", "__local_mem__", "WarpShflSync", "GetBlockNum"}, errors
    assert all("the software NPU has no " in line for line in said), said
    names = {name.split("::")[-1] for line in said for name in line[9 : line.index(": the soft")].split(", ")}
    assert names == lost, names ^ lost
    assert any("Simt::GetBlockNum" in line and "SIMT functions but for the 950" in line for line in said), said


def test_names_without_their_namespace(tmp_path):
    """On the 950 itself nobody says that the 950 alone has them."""
    errors = compiled(tmp_path, KERNEL.format(body="RegTensor<float> r; WarpShflSync(x, 0);"), "dav-3510")
    where = "declared for this chip, in AscendC or its namespaces MicroAPI (Reg), Simt (anycend docs ascendc)"
    assert f"bisheng: RegTensor, WarpShflSync: {where}" in errors, errors


def test_what_registers_refuse(tmp_path):
    """Places and ways of storing that are not of the register's width: by the name and, from the compiler, the type."""
    text = "template <class T, class R, MicroAPI::StoreDist dist> void put(T* to, R r, MicroAPI::MaskReg m) {\n"
    text += "  MicroAPI::DataCopy<T, dist>(to, r, m);\n}\n"
    stores = {
        "DIST_NORM_B8": "float",
        "DIST_NORM_B16": "int8_t",
        "DIST_NORM_B32": "half",
        "DIST_FIRST_ELEMENT_B8": "int32_t",
        "DIST_FIRST_ELEMENT_B16": "float",
        "DIST_FIRST_ELEMENT_B32": "uint8_t",
        "DIST_PACK_B16": "uint32_t",
        "DIST_PACK_B32": "int8_t",
    }
    body = "float* f = (float*)x; MicroAPI::RegTensor<half> h; MicroAPI::UnalignReg u; MicroAPI::MaskReg m;\n"
    body += "MicroAPI::DataCopyUnAlign(f, h, u, 128);\nMicroAPI::DataCopyUnAlign(f, h, u);\n"
    for dist, type in stores.items():
        body += f"put<{type}, MicroAPI::RegTensor<{type}>, MicroAPI::StoreDist::{dist}>(({type}*)x, {{}}, m);\n"
    errors = compiled(tmp_path, text + KERNEL.format(body=body), "dav-3510")
    assert errors.count("assertion failed: DataCopyUnAlign: dst is of numbers as wide as the register's") == 2, errors
    for dist in stores:
        assert re.search(rf"assertion failed: DataCopy: .*{dist}\b.* for registers of numbers of", errors), errors
        assert re.search(rf"with .*dist = .*{dist}\b", errors), errors
    assert errors.count("assertion failed") == 2 + len(stores), errors


def test_what_compares_elsewhere(tmp_path):
    body = "LocalTensor<int16_t> t; LocalTensor<uint8_t> d; Compare(d, t, t, CMPMODE::EQ, 128); (void)x;"
    errors = compiled(tmp_path, KERNEL.format(body=body), "dav-2201")
    said = "Compare takes half, float, int32_t (EQ); for --npu-arch=dav-3510 all numbers of whole bytes"
    assert said in errors, errors


@pytest.mark.parametrize("header", ["lib/hccl/hccl.h", "catlass/catlass.hpp", "tla/tensor.hpp", "pto/pto-inst.hpp"])
def test_the_950_neither(tmp_path, header):
    """Communication inside kernels and tensor templates."""
    source = tmp_path / "k.asc"
    source.write_text(HEAD + f'#include "{header}"\n')
    done = bisheng("-fsyntax-only", "--npu-arch=dav-3510", source)
    assert done.returncode == 1
    what = "communication inside kernels" if "hccl" in header else "tensor templates"
    assert f'"{header}" is refused: it is for {what}' in done.stderr

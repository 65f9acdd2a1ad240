"""What is said after the compiler's errors, in words: names that AscendC has and we have not, or that nobody has.
softnpu/ascendc/compiler/explain.py.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.ascendc.kit import BISHENG, bisheng, compiler
from tests.ascendc.test_compiler import CMAKE, HEAD, HOST, compile_text
from tests.ascendc.test_operator_package import opp_build
from torch_npu.utils import cpp_extension

LAUNCH = "template <class T> void k(T);\nvoid go(void* stream, int x) {\n  k<<<8, nullptr, stream>>>(x);\n}\n"


def test_a_launch_where_none_is_rewritten_is_explained(tmp_path):
    (tmp_path / "k.cpp").write_text(LAUNCH)
    done = bisheng("-fsyntax-only", tmp_path / "k.cpp", env={"LC_ALL": "C"})
    said = [line for line in done.stderr.splitlines() if line.startswith("bisheng: ")]
    assert done.returncode == 1 and len(said) == 1, done.stderr
    assert said[0].endswith(
        "k.cpp:3: a launch (<<<>>>) is rewritten in AscendC sources alone, *.asc and what follows -x asc "
        "(anycend docs ascendc): give -x asc before the source"
    )


KERNEL = 'extern "C" __global__ __aicore__ void k(GM_ADDR p) {{\n  LocalTensor<float> t;\n{}\n}}\n'
NAMES = """
  TBuf<> b;
  TPipe pipe;
  TBufPool<TPosition::VECCALC> pool;
  pipe.InitBufPool(pool, 1024);
  pipe.InitBuffr(b, 1024);
  Dupplicate(t, 1.0f, 8);
  AscendC::Rint(t, t);
  MulCast(t, t, t, 8);
  AscendC::Dupllicate(t, 1);
  auto n = GetVecLen() / 4;
  MakeTensor(p);
  AllocMutexID(); KERNEL_TASK_TYPE(1, KERNEL_TYPE_AIV_ONLY);
  AscendC::Reg::MaskReg mask;
  using AscendC::SliceInfo;
  Cast(t, t, RoundMode::CAST_FLOOOR, 8);
  Ad(t, t, t, 8);
  DTYPE_X zero = 0;
  Whatever(t);
  AscendC::lowercase(t);
  undeclared(t);
"""
TEMPLATE = "template <class T> void helper(T x) { RegTensor<float> r; UpdateMask<float>(x); Rintt(x); }\n"
SAID = [
    "RegTensor, GetVecLen, Reg, UpdateMask: the software NPU has no register API but for the 950 (--npu-arch=dav-3510) "
    "(anycend docs ascendc)",
    "InitBufPool: the software NPU has no TBufPool (anycend docs ascendc)",
    "Rint: the software NPU has no such high-level function (anycend docs ascendc)",
    "MulCast: the software NPU has no such instruction (anycend docs ascendc)",
    "MakeTensor: the software NPU has no tensor templates (anycend docs ascendc)",
    "AllocMutexID: the software NPU has no mutexes between units: SetFlag and WaitFlag order them "
    "(anycend docs ascendc)",
    "KERNEL_TASK_TYPE: the software NPU has no cores and keys by tiling key: KERNEL_TASK_TYPE_DEFAULT says the cores "
    "for all keys, --tiling-key the key (anycend docs ascendc)",
    "SliceInfo: the software NPU has no copies of slices: DataCopyParams and DataCopyExtParams have strides "
    "(anycend docs ascendc)",
    "InitBuffr: AscendC has InitBuffer here: misspelt, or a name that is not declared (anycend docs ascendc)",
    "Dupplicate: AscendC has Duplicate here: misspelt, or a name that is not declared (anycend docs ascendc)",
    "Dupllicate: AscendC has Duplicate here: misspelt, or a name that is not declared (anycend docs ascendc)",
    "Ad: AscendC has Add, And here: misspelt, or a name that is not declared (anycend docs ascendc)",
    "CAST_FLOOOR: AscendC has CAST_FLOOR here: misspelt, or a name that is not declared (anycend docs ascendc)",
    "DTYPE_X: the type of an operator's input or output, which its package's build knows: -DDTYPE_X=float, or "
    "opp_build (anycend docs operator_packages)",
    "Whatever, lowercase, Rintt: misspelt, not included, or a part of AscendC that the software NPU does not have "
    "(anycend docs ascendc)",
]


def said(text: str) -> list[str]:
    """`bisheng`'s own sentences, also where another command's report has them once more."""
    lines = [line.partition("bisheng: ")[2] for line in text.splitlines() if line.startswith("bisheng: ")]
    return list(dict.fromkeys(lines))


def test_names_with_and_without_the_namespace(tmp_path):
    """One sentence a reason, with each name once; `undeclared` is the kernel's own."""
    source = HEAD + TEMPLATE + KERNEL.format(NAMES + "  helper(3);")
    done = compile_text(tmp_path, source)
    assert done.returncode == 1
    assert sorted(said(done.stderr)) == sorted(SAID)
    assert "TBufPool: the software NPU has no TBufPool (anycend docs ascendc)" in done.stderr
    done = bisheng("-fsyntax-only", "-O0", "-Wall", tmp_path / "k.asc", env={"ANYCEND_CXX": compiler(), "LC_ALL": "C"})
    assert sorted(said(done.stderr)) == sorted(SAID)  # where g++ quotes in ASCII


FORMS = {
    "DropOut": ["DropOut(t, t)", "DropOut<float>(t, t)", "DropOut<float, false>(t, t, t)", "DropOut<true, 3>(t)"],
    "Normalize": ["Normalize<float, float, false>(t, t, {1, 2})", "Normalize<float, half, half, true>(t)"],
    "TBufPool": ["TBufPool<TPosition::VECCALC> a", "TBufPool<TPosition::VECIN, 256> b"],
    "GetHcclContext": ["GetHcclContext<0>()"],
    "Hccl": ["Hccl<> h", "Hccl<3> h"],
    "LoadData3DParamsV2": ["LoadData3DParamsV2<half> p", "LoadData3DParamsV2 p", "LoadData3DParamsV2<3> p"],
    "Digamma": ["auto f = &Digamma<int>", "Digamma(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13)"],
}


@pytest.fixture(scope="module")
def errors_of_forms(tmp_path_factory) -> str:
    """Of all in one source, since each that is compiled costs."""
    lines = [f"  {{ {form}; }}" for forms in FORMS.values() for form in forms]
    done = compile_text(tmp_path_factory.mktemp("forms"), HEAD + KERNEL.format("\n".join(lines)))
    assert done.returncode == 1
    return done.stderr


@pytest.mark.parametrize("name", FORMS)
def test_refused_names_in_all_forms(errors_of_forms, name):
    """With types and values as template arguments, with fewer and more arguments than any has."""
    assert f"{name}: the software NPU has no " in errors_of_forms
    first = 5 + sum(len(forms) for forms in list(FORMS.values())[: list(FORMS).index(name)])
    places = {int(line) for line in re.findall(r"k\.asc:(\d+):", errors_of_forms)}
    assert places >= set(range(first, first + len(FORMS[name]))), errors_of_forms  # each form is an error


OWN = """
namespace own {
template <class T>
inline void Pad(const LocalTensor<T>&, long) {}
inline int Truncate(int x) { return x; }
class Hypot {};
struct Digamma { int v; };
}
using namespace own;
"""


def test_names_of_the_kernels_own_are_theirs(tmp_path):
    """Also those of refused functions, with arguments that are converted."""
    body = "  Hypot h; Truncate(1); own::Digamma d{3}; short n = 3; Pad(t, n); own::Pad(t, 1u);"
    done = compile_text(tmp_path, HEAD + OWN + KERNEL.format(body))
    assert done.returncode == 0, done.stderr
    done = compile_text(tmp_path, HEAD + OWN + KERNEL.format('  own::Hypot h("x"); own::Truncate(t);'))
    assert done.returncode == 1 and said(done.stderr) == []


def test_a_name_that_is_right_and_not_declared_there(tmp_path):
    (tmp_path / "k.asc").write_text("auto n = GetBlockIdx();\n")
    done = bisheng("-fsyntax-only", tmp_path / "k.asc")
    assert said(done.stderr) == [
        "GetBlockIdx: AscendC has this name, and it is not declared in that place: kernel_operator.h must come before, "
        "and a macro of the source or -D may have changed what it declares (anycend docs ascendc)"
    ]


def test_of_host_code_nothing_is_said(tmp_path):
    (tmp_path / "host.cpp").write_text("int main() { return Duplicat; }\n")
    done = bisheng("-c", tmp_path / "host.cpp", "-o", tmp_path / "host.o")
    assert done.returncode == 1 and "Duplicat" in done.stderr and said(done.stderr) == []


WRONG = HEAD + KERNEL.format("  Dupplicate(t, 1.0f, 8);\n  GetVecLen();")
WANTED = [
    "GetVecLen: the software NPU has no register API but for the 950 (--npu-arch=dav-3510) (anycend docs ascendc)",
    "Dupplicate: AscendC has Duplicate here: misspelt, or a name that is not declared (anycend docs ascendc)",
]


@pytest.mark.full  # as bisheng called by hand, above
def test_in_cmake(tmp_path):
    if (cmake := shutil.which("cmake")) is None:
        pytest.skip("there is no cmake")
    (tmp_path / "other").mkdir()
    for name, text in {"k.cpp": WRONG, "other/k.cpp": HEAD, "host.cpp": HOST}.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "CMakeLists.txt").write_text(CMAKE.format(kind="SHARED"))
    given = [cmake, "-S", tmp_path, "-B", tmp_path / "build", f"-DROOT={BISHENG.parent.parent}"]
    subprocess.run(given, check=True, capture_output=True)
    done = subprocess.run([cmake, "--build", tmp_path / "build"], capture_output=True, text=True)
    assert done.returncode and said(done.stdout + done.stderr) == WANTED, done.stdout + done.stderr


@pytest.mark.full  # as bisheng called by hand, above
def test_in_pytorchs_just_in_time_build(tmp_path, monkeypatch):
    (tmp_path / "k.asc").write_text(WRONG)
    path = [str(BISHENG.parent), str(Path(sys.executable).parent), os.environ["PATH"]]
    monkeypatch.setenv("PATH", os.pathsep.join(path))
    monkeypatch.setenv("CXX", "bisheng")
    with pytest.raises(RuntimeError) as error:
        cpp_extension.load(
            "wrong_kernel", [str(tmp_path / "k.asc")], build_directory=str(tmp_path), extra_cflags=["-O0"]
        )
    assert said(str(error.value)) == WANTED


def test_in_a_package(tmp_path):
    project = tmp_path / "project"
    for file in (Path(__file__).parent / "package").glob("op_*/scale_shift*"):
        (project / file.parent.name).mkdir(parents=True, exist_ok=True)
        shutil.copy(file, project / file.parent.name)
    kernel = project / "op_kernel" / "scale_shift.cpp"
    kernel.write_text(kernel.read_text().replace("TPipe pipe;", "TPipe pipe; Dupplicate(pipe); GetVecLen();", 1))
    done = opp_build("--only", "scale_shift", project, "-o", tmp_path / "package")
    assert done.returncode == 1 and said(done.stderr) == WANTED, done.stderr

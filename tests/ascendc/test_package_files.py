"""Which files and operators of a project `opp_build` takes, and what an earlier build leaves. compiler/package.py."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.ascendc.kit import BISHENG
from tests.ascendc.test_operator_package import MISTAKES, opp_build
from tests.runtime.acl import ROOT, library_folder

COMPILER = ROOT / "softnpu" / "ascendc" / "compiler"


@pytest.fixture(scope="module")
def package():
    sys.path.insert(0, str(COMPILER))
    try:
        import package
    finally:
        sys.path.remove(str(COMPILER))
    return package


def build_of(package, folder: Path, soc: str):
    asked = package.arguments([str(folder), "-o", str(folder / "out"), "--soc", soc])
    (folder / "scratch").mkdir(exist_ok=True)
    return package.Build(asked, str(BISHENG.parent.parent), folder / "scratch")


def test_a_file_of_one_architecture_stands_for_the_one_where_it_would_lie(package, tmp_path):
    """Not for those of its name that other operators have, nor for those of its own operator's other folders."""
    for name in ("a/op_kernel/x.h", "a/op_kernel/arch35/x.h", "a/op_kernel/inner/x.h", "b/op_kernel/x.h"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    inner = {"a/op_kernel/inner/x.h", "b/op_kernel/x.h"}
    for soc, own in (("ascend950", "a/op_kernel/arch35/x.h"), ("ascend910b", "a/op_kernel/x.h")):
        found = build_of(package, tmp_path, soc).files("op_kernel", ".h")
        assert {str(f.relative_to(tmp_path)) for f in found} == inner | {own}


def test_what_an_earlier_build_left_vanishes_and_files_of_others_stay(package, tmp_path):
    kernel = "op_impl/ai_core/tbe/kernel/ascend910b"
    old = [f"{kernel}/gone/gone_0.so", f"{kernel}/stays/stays_0.so", f"{kernel}/stays/stays_1.so"]
    old += ["op_api/include/aclnn_gone.h", "op_api/include/aclnn_stays.h"]
    theirs = ["op_api/include/mine.h", "notes.txt", f"{kernel}/stays/notes.txt"]
    made = [f"{kernel}/stays/stays_0.so", "op_api/include/aclnn_stays.h", "version.info"]
    for name in (*old, *theirs):
        (tmp_path / "out" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "out" / name).write_text("old")

    def install() -> set[str]:
        for name in made:
            (tmp_path / "made" / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / "made" / name).write_text(package.VERSION)
        package.install(tmp_path / "made", tmp_path / "out")
        assert all((tmp_path / "out" / name).read_text() == package.VERSION for name in made)
        return {str(f.relative_to(tmp_path / "out")) for f in (tmp_path / "out").rglob("*") if f.is_file()}

    assert install() == {*old, *theirs, *made}  # the folder was not a package of opp_build's
    assert install() == {*theirs, *made}
    assert not (tmp_path / "out" / kernel / "gone").exists()


def test_a_library_of_another_build_is_not_replaced(package, tmp_path):
    """Of opp_build's own the kernels' entry is named in it. Any other stays."""
    library = tmp_path / "out" / "op_api" / "lib" / "libcust_opapi.so"
    library.parent.mkdir(parents=True)
    library.write_bytes(b"\x7fELF another's")
    (tmp_path / "out" / "version.info").write_text(package.VERSION)
    said = f"{library} is not of opp_build, and would be replaced: choose another folder, or remove it"
    with pytest.raises(package.BuildError, match=f"^{re.escape(said)}$"):
        build_of(package, tmp_path, "ascend910b")
    library.write_bytes(b"\x7fELF\0ascendc_opp_enter\0")
    build_of(package, tmp_path, "ascend910b")


HOST = """
#include "register/op_def_registry.h"
namespace ops {
static ge::graphStatus Tile(gert::TilingContext* c) { return c->SetBlockDim(1), ge::GRAPH_SUCCESS; }
struct NAME : OpDef {
  explicit NAME(const char* n) : OpDef(n) {
    Input("x").DataType({ge::DT_FLOAT});
    Output("y").DataType({ge::DT_FLOAT});
    OpAICoreConfig config;
    config.ExtendCfgInfo("opFile.value", "impl");
    AICore().SetTiling(Tile).AddConfig("ascend910b", config);
  }
};
OP_ADD(NAME);
}
"""
KERNEL = """
#include "kernel_operator.h"
extern "C" __global__ __aicore__ void NAME(GM_ADDR x, GM_ADDR y, GM_ADDR workspace, GM_ADDR tiling) {
  *(__gm__ float*)y = VALUE;
}
"""
CALL = """
import sys, torch, torch_npu
from tests.ascendc.packaged import Functions
call = Functions(sys.argv[1])
for name in sys.argv[2:]:
    x, y = torch.ones(2, 1, device="npu")
    assert call(f"aclnn{name}", x, y) == ""
    print(name, y.item())
"""


def operator(folder: Path, name: str, value: float) -> None:
    for kind, file, text in (("op_host", f"{name.lower()}.cpp", HOST), ("op_kernel", "impl.cpp", KERNEL)):
        place = folder / name.lower() / kind / file
        place.parent.mkdir(parents=True)
        own = name if kind == "op_host" else name.lower()
        place.write_text(text.replace("NAME", own).replace("VALUE", f"{value}f"))


def called(package: Path, *names: str) -> list[str]:
    environ = {**os.environ, "LD_LIBRARY_PATH": str(library_folder())}
    command = [sys.executable, "-c", CALL, str(package / "op_api" / "lib" / "libcust_opapi.so"), *names]
    done = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.full
def test_kernels_of_one_files_name_and_a_build_after_one_was_removed(package, tmp_path):
    project, out = tmp_path / "project", tmp_path / "out"
    operator(project, "Two", 2.5)
    operator(project, "One", 1.5)
    done = opp_build(project, "-o", out)
    assert done.returncode == 0, done.stderr
    assert (out / package.LIBRARY).read_bytes().count(package.MARK) > 0
    assert called(out, "One", "Two") == ["One 1.5", "Two 2.5"]
    (project / "two").rename(tmp_path / "away")
    assert opp_build(project, "-o", out).returncode == 0
    assert called(out, "One") == ["One 1.5"]
    assert [f for f in out.rglob("*two*")] == []
    (project / "one" / "op_kernel" / "impl.cpp").write_text("error")
    before = {f: f.read_bytes() for f in out.rglob("*") if f.is_file()}
    assert opp_build(project, "-o", out).returncode == 1
    assert {f: f.read_bytes() for f in out.rglob("*") if f.is_file()} == before  # what works stays


def test_two_files_that_could_be_the_kernel_are_named(package, tmp_path):
    """A definition by a macro says nothing of where its kernel lies."""
    build = build_of(package, tmp_path, "ascend910b")
    build.definitions, build.kernel_sources = {}, [tmp_path / "a" / "k.cpp", tmp_path / "b" / "k.cpp"]
    described = type("Described", (), {"type": "K", "file": "k"})()
    with pytest.raises(package.BuildError, match="K: which is its kernel, .*/a/k.cpp or .*/b/k.cpp"):
        build.source(described)


NAMES = f"""{MISTAKES.partition("OP(Values")[0]}
OP(many, Comment(""));
OP(Next, Input("z").DataType({{ge::DT_FLOAT}}).ParamType(OPTIONAL).Version(1));
OP(NextV1, Comment(""));
}}
"""
CANNOT = {
    "--only many,Other": ["--only: there is no operator Other"],
    "--only Many,many": ["many and Many: both would have many in the package: rename one"],
    "--only Next,NextV1": ["NextV1 and Next: both would have aclnnNextV1 in the package: rename one"],
    "--only Many --keep-going": [
        "Many: x is a list of tensors (DYNAMIC), which opp_build does not know",
        "there is no operator that can be built",
    ],
}


def test_operators_that_cannot_be_taken_are_named(package, tmp_path, monkeypatch, capsys):
    """Their definitions are compiled once: what the first call makes is there for the others."""
    scratch, project, out = (tmp_path / name for name in ("scratch", "project", "out"))
    scratch.mkdir()
    (project / "op_host").mkdir(parents=True)
    (project / "op_host" / "all.cpp").write_text(NAMES)
    compiled = package.Build.bisheng
    monkeypatch.setattr(package.Build, "bisheng", lambda self, *a: None if a[-1].exists() else compiled(self, *a))
    monkeypatch.setattr(package.scratch, "folder", lambda _: contextlib.nullcontext(scratch))
    for given, said in CANNOT.items():
        assert package.main([str(project), "-o", str(out), "-O0", *given.split()], str(BISHENG.parent.parent)) == 1
        assert capsys.readouterr().err.splitlines() == [f"opp_build: {line}" for line in said]
    assert not out.exists()


HOST_AND_KERNEL = {
    "op_host/some.cpp": """#include "register/op_def_registry.h"
namespace ops {
static ge::graphStatus Tile(gert::TilingContext* c) { return c->SetBlockDim(1), ge::GRAPH_SUCCESS; }
struct Some : OpDef {
  explicit Some(const char* n) : OpDef(n) {
    Input("x").DataType({ge::DT_FLOAT});
    Output("y").DataType({ge::DT_FLOAT});
    AICore().SetTiling(Tile).AddConfig("ascend910b");
  }
};
OP_ADD(Some);
}
""",
    "op_host/some_tiling.h": """#include "register/tilingdata_base.h"
namespace optiling {
BEGIN_TILING_DATA_DEF(SomeTiling)
TILING_DATA_FIELD_DEF(uint32_t, n);
END_TILING_DATA_DEF;
REGISTER_TILING_DATA_CLASS(Sone, SomeTiling)
}
""",
    "op_kernel/some.cpp": """#include "kernel_operator.h"
extern "C" __global__ __aicore__ void some(GM_ADDR x, GM_ADDR y, GM_ADDR workspace, GM_ADDR tiling) {
  GET_TILING_DATA(data, tiling);
}
""",
}


def test_a_tiling_that_is_registered_for_no_operator_is_said_first(tmp_path):
    for name, text in HOST_AND_KERNEL.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    done = opp_build(tmp_path, "-o", tmp_path / "out", "--soc", "ascend910b")
    assert done.returncode == 1 and done.stderr.splitlines()[0] == (
        "opp_build: Some: op_host has no REGISTER_TILING_DATA_CLASS(Some, <class>), but one for Sone: it says what the "
        "kernel's GET_TILING_DATA reads"
    )


def test_a_kernel_of_another_name_and_with_its_parameters_in_another_order(tmp_path):
    """It is the file's only one, and taken for the operator's; what the compiler misses then comes behind that."""
    for name, text in HOST_AND_KERNEL.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        text = text.replace("(Sone", "(Some").replace("void some(GM_ADDR x, GM_ADDR y", "void sum(GM_ADDR y, GM_ADDR X")
        (tmp_path / name).write_text(text)
    done = opp_build(tmp_path, "-o", tmp_path / "out", "--soc", "ascend910b")
    assert done.returncode == 1 and done.stderr.splitlines()[:2] == [
        "opp_build: warning: Some: the kernel sum has its parameters in another order: y, X, workspace, tiling; it is "
        "given x, y, workspace, tiling",
        "opp_build: Some: op_kernel/some.cpp has no kernel some, but sum",
    ]
    assert "GET_TILING_DATA: the type of the tiling is missing" in done.stderr

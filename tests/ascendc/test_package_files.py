"""Which files of a project `opp_build` takes for an operator. compiler/package.py."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.ascendc.kit import BISHENG
from tests.ascendc.test_operator_package import opp_build
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
def test_kernels_of_one_files_name(tmp_path):
    project, out = tmp_path / "project", tmp_path / "out"
    operator(project, "Two", 2.5)
    operator(project, "One", 1.5)
    done = opp_build(project, "-o", out)
    assert done.returncode == 0, done.stderr
    assert called(out, "One", "Two") == ["One 1.5", "Two 2.5"]


def test_two_files_that_could_be_the_kernel_are_named(package, tmp_path):
    """A definition by a macro says nothing of where its kernel lies."""
    build = build_of(package, tmp_path, "ascend910b")
    build.definitions, build.kernel_sources = {}, [tmp_path / "a" / "k.cpp", tmp_path / "b" / "k.cpp"]
    described = type("Described", (), {"type": "K", "file": "k"})()
    with pytest.raises(package.BuildError, match="K: which is its kernel, .*/a/k.cpp or .*/b/k.cpp"):
        build.kernel(described)

"""`opp_build`: operators from op_host and op_kernel as aclnn functions, under either torch_npu. compiler/package.py."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.ascendc.kit import BISHENG, package_compiler
from tests.conformance import client, environment
from tests.runtime.acl import library_folder

PROJECT = Path(__file__).parent / "package"
ROOT = Path(__file__).resolve().parents[2]


def opp_build(*arguments: str | Path) -> subprocess.CompletedProcess:
    command = [sys.executable, str(BISHENG.parent / "opp_build"), "-O0", "-j2", *map(str, arguments)]
    env = {**os.environ, "ANYCEND_CXX": package_compiler()}
    return subprocess.run(command, env=env, capture_output=True, text=True)


GBK = "// \u6c49\u5b57\n".encode("gbk")


@pytest.fixture(scope="module")
def project(tmp_path_factory) -> Path:
    """The path has what a shell would read and names that the build looks for; one operator's sources have comments in
    GBK, and its kernel includes as in an installed package, where op_kernel's files lie one folder further down."""
    project = tmp_path_factory.mktemp("project") / "op_kernel" / "arch35" / "my $HOME 'op'; `x`"
    shutil.copytree(PROJECT, project)
    for name in ("op_host/grows.h", "op_host/grows.cpp"):
        (project / name).write_bytes(GBK + (PROJECT / name).read_bytes())
    kernel = (PROJECT / "op_kernel" / "grows.cpp").read_bytes()
    start, cut = kernel.index(b"template <class F>"), kernel.index(b'extern "C"')
    parts = project / "op_kernel" / "arch22" / "parts"
    parts.mkdir(parents=True)
    (parts / "halves.h").write_bytes(GBK + b"#pragma once\n" + kernel[start:cut])
    up = b'#include "../../arch22/parts/halves.h"\n'
    (project / "op_kernel" / "grows.cpp").write_bytes(GBK + kernel[:start] + up + kernel[cut:])
    (project / "docs").mkdir()
    (project / "docs" / "resource.h").write_bytes("int i;".encode("utf-16"))  # no kernel's
    return project


@pytest.fixture(scope="module")
def package(project, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("package") / "a package of $USER's"
    done = opp_build(project, "-o", out)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == f"opp_build: 5 operators in {out}"
    return out


def library(package: Path) -> str:
    return str(package / "op_api" / "lib" / "libcust_opapi.so")


def program(package: Path, **variables: str) -> subprocess.CompletedProcess:
    environ = {**os.environ, "LD_LIBRARY_PATH": str(library_folder()), **variables}
    command = [sys.executable, "-m", "tests.ascendc.packaged", library(package)]
    return subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True)


def test_values_and_refusals(package):
    done = program(package, ANYCEND_CHECK="kernel")
    assert done.returncode == 0 and "AS WANTED" in done.stdout, done.stderr


def test_the_vendors_torch_npu_runs_it_too(package):
    try:
        python = environment.python()
    except environment.Unavailable as reason:
        pytest.skip(str(reason))
    done = client.run(python, "-m", "tests.ascendc.packaged", library(package), ANYCEND_SOC="Ascend910B3")
    assert done.returncode == 0 and "AS WANTED" in done.stdout and "build/vendor" in done.stdout, done.stderr


def test_its_environment_is_set_in_any_shell(package):
    names = ("ASCEND_CUSTOM_OPP_PATH", "LD_LIBRARY_PATH")
    for before, after in (("unset {}", ""), ("{}=/else", ":/else")):
        lines = [before.format(name) for name in names]
        lines += ["set -eu", 'source "$1"', *(f"printf '%s\\n' \"${name}\"" for name in names)]
        command = ["bash", "-c", "\n".join(lines), "bash", package / "bin" / "set_env.bash"]
        told = subprocess.run(command, capture_output=True, text=True)
        assert told.stdout.splitlines() == [f"{package}{after}", f"{package / 'op_api' / 'lib'}{after}"], told.stderr


def test_a_source_in_utf_16_is_named(tmp_path):
    (tmp_path / "op_host").mkdir()
    (tmp_path / "op_host" / "wide.cpp").write_bytes("int i;".encode("utf-16"))
    done = opp_build(tmp_path, "-o", tmp_path / "out")
    said = f"{tmp_path}/op_host/wide.cpp:1: is UTF-16, which g++ does not read: save it as UTF-8"
    assert said in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["nowhere", "-o", "out"], "opp_build: nowhere: there is no such folder"),
        ([str(PROJECT), "-o", "a:b"], "opp_build: -o a:b: a package's path can have no colon: choose another folder"),
        ([str(PROJECT), "-o", "out", "-j", "0"], "opp_build: error: argument -j/--jobs: 0 is no number from 1 on"),
        (["empty", "-o", "out"], "there is no source in a folder op_host"),
    ],
)
def test_arguments_that_cannot_be(tmp_path, monkeypatch, given, said):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty" / "op_host" / "folder.cpp").mkdir(parents=True)
    done = opp_build(*given)
    assert done.returncode in (1, 2) and said in done.stderr and "Traceback" not in done.stderr


MISTAKES = """
#include "register/op_def_registry.h"
namespace ops {
ge::graphStatus Tile(gert::TilingContext*) { return ge::GRAPH_SUCCESS; }
#define OP(Name, ...) \\
  struct Name : OpDef { explicit Name(const char* n) : OpDef(n) { \\
    Input("x").DataType({ge::DT_FLOAT}); Output("y").DataType({ge::DT_FLOAT}); \\
    AICore().SetTiling(Tile).AddConfig("ascend910b"); __VA_ARGS__; } }; OP_ADD(Name)
OP(Many, Input("x").ParamType(DYNAMIC));
OP(Values, Input("x").ValueDepend(REQUIRED));
OP(Talks, MC2().HcclGroup("group"));
OP(Elsewhere, AICore().configs.clear(); AICore().AddConfig("ascend310p"));
OP(NoKernel, Comment(""));
OP(Brief, Comment(""));
OP(Typed, Input("x").DataType({ge::DT_COMPLEX64}));
OP(Tiled, Input("x").Format({ge::FORMAT_FRACTAL_NZ}));
OP(TiledLater, Input("x").FormatList({ge::FORMAT_ND}).UnknownShapeFormat({ge::FORMAT_NHWC}));
OP(Half, Output("y").InitValue(0.5f));
OP(Ones, Output("y").InitValue(std::vector<int>{0, 1}));
OP(Uneven, Input("x").DataType({ge::DT_FLOAT, ge::DT_FLOAT16}));
OP(Branches, Output("y").InitValue({0}));
OP(Cleared, Output("x").DataType({ge::DT_FLOAT}).InitValue(0));
OP(Named, Input("a\\n\\"b").DataType({ge::DT_FLOAT}));
OP(Filed, { OpAICoreConfig c; c.ExtendCfgInfo("opFile.value", "../short"); AICore().AddConfig("ascend910b", c); });
OP(Bare, Attr("a"));
OP(Later, Input("z").DataType({ge::DT_FLOAT}).Version(1));
OP(Skips, Attr("a").Int().Version(4000000000));
OP(Lost, Input("z").Follow("nobody"));
OP(Binary, Input("x").DataTypeForBinQuery({ge::DT_FLOAT, ge::DT_FLOAT16}));
OP(Virtual, Input("x").ParamType(VIRTUAL));
OP(Computed, Output("y").OutputShapeDependOnCompute());
OP(Faced, { OpAICoreConfig c; c.ExtendCfgInfo("opFile.value", "two").ExtendCfgInfo("opInterface.value", "face");
            AICore().AddConfig("ascend910b", c); });
}
"""
BRANCHES = """
BEGIN_TILING_DATA_DEF(BranchesTiling)
#if A2
TILING_DATA_FIELD_DEF(int, a);
#endif
END_TILING_DATA_DEF;
REGISTER_TILING_DATA_CLASS(Branches, BranchesTiling)
"""
SAID = """Many: x is a list of tensors (DYNAMIC), which opp_build does not know
Values: x is known by its values (ValueDepend, Scalar), which opp_build does not know
Computed: the kernel finds the shape of y (OutputShapeDependOnCompute): give y the largest, and a count beside it
Talks: it communicates with other chips, which no kernel does here
Elsewhere: it is for ascend310p, not for ascend910b
NoKernel: there is no op_kernel/no_kernel.cpp
Brief: the kernel brief has 3 parameters, and inputs, outputs, workspace and tiling are 4
Typed: x has a type that kernels do not have here (16)
Tiled: x may not be ND (Format), and kernels are given no other format: add a set with FORMAT_ND
TiledLater: x may not be ND (Format), and kernels are given no other format: add a set with FORMAT_ND
Half: y begins as another value than 0 (InitValue), which opp_build does not know: let the kernel write it
Ones: y begins as another value than 0 (InitValue), which opp_build does not know: let the kernel write it
Uneven: its lists of types differ in length (x 2, y 1): give each a type for each set
op_host/branches.h:3: BranchesTiling has an #if, which kernels do not see: make it two structs
Cleared: x is an input, too, and would begin as 0 (InitValue): leave that out
Named: 'a?"b' is no name of an input, an attribute or an output
Filed: '../short' (opFile.value) is no name of a file in op_kernel
Bare: the attribute a has no type (Int, Float, Bool, String, List…)
Later: z has a Version and is not OPTIONAL
Skips: nothing has the Version 1, and others are of a later one
Lost: z follows nobody, which has no types
Binary: x has 2 types in DataTypeForBinQuery and 1 of its own: give one for each
Virtual: x is neither REQUIRED nor OPTIONAL (ParamType)
Faced: op_kernel/two.cpp has no kernel extern "C" face, but one, another
24 of 24 operators cannot be built; --keep-going leaves them out"""


def test_what_cannot_be_built_is_named(tmp_path):
    for folder in ("op_host", "op_kernel"):
        (tmp_path / folder).mkdir()
    (tmp_path / "op_host" / "all.cpp").write_text(MISTAKES)
    kernel = 'extern "C" __global__ __aicore__ void {}(GM_ADDR x, GM_ADDR y, GM_ADDR w{}) {{}}\n'
    (tmp_path / "op_kernel" / "brief.cpp").write_text(kernel.format("brief", ""))
    (tmp_path / "op_kernel" / "branches.cpp").write_text(kernel.format("branches", ", GM_ADDR t"))
    two = kernel.format("one", ", GM_ADDR t") + kernel.format("another", ", GM_ADDR t")
    (tmp_path / "op_kernel" / "two.cpp").write_text(two)
    (tmp_path / "op_host" / "branches.h").write_text(BRANCHES)
    done = opp_build(tmp_path, "-o", tmp_path / "out")
    assert done.returncode == 1
    told = done.stderr.replace(f"{tmp_path}/", "").splitlines()
    assert sorted(told) == sorted(f"opp_build: {line}" for line in SAID.splitlines())

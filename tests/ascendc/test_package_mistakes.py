"""Tiling functions of a package that forget something: what the call of the aclnn function says. host/package.h."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.ascendc.test_operator_package import opp_build
from tests.runtime.acl import ROOT, library_folder

HOST = """#include "register/op_def_registry.h"
#include "clip_rows_tiling.h"
namespace optiling {
static ge::graphStatus Tile(gert::TilingContext* context) {
  context->SetBlockDim(1);
  ClipRowsTiling tiling;
  auto* raw = context->GetRawTilingData();
  const float most = *context->GetAttrs()->GetFloat(0);
  tiling.set_most(most);
  if (context->GetOptionalInputShape(1) || context->GetOptionalInputDesc(1)) return ge::GRAPH_FAILED;
  if (most == 3) tiling.set_most(*context->GetAttrs()->GetFloat(1));
  if (most == 4) tiling.set_most(context->GetInputShape(2)->GetStorageShape().GetDim(0));
  if (most == 5) tiling.set_most(context->GetInputDesc(7)->GetDataType());
  if (most == 6) tiling.set_most(context->GetOutputShape(1)->GetStorageShape().GetDim(0));
  tiling.SaveToBuffer(raw->GetData(), raw->GetCapacity());
  if (most != 1) raw->SetDataSize(tiling.GetDataSize());
  return ge::GRAPH_SUCCESS;
}
static ge::graphStatus Nothing(gert::TilingContext* context) { return context->SetBlockDim(1); }
}  // namespace optiling
namespace ops {
struct ClipRows : OpDef {
  explicit ClipRows(const char* n) : OpDef(n) {
    Input("x").DataType({ge::DT_FLOAT});
    Input("bias").ParamType(OPTIONAL).DataType({ge::DT_FLOAT});
    Output("y").DataType({ge::DT_FLOAT});
    Attr("most").Float(2);
    AICore().SetTiling(optiling::Tile).AddConfig("ascend910b");
  }
};
OP_ADD(ClipRows);
struct Early : OpDef {
  explicit Early(const char* n) : OpDef(n) {
    Input("x").DataType({ge::DT_FLOAT});
    Output("y").DataType({ge::DT_FLOAT});
    AICore().SetTiling(optiling::Nothing).AddConfig("ascend910b");
  }
};
OP_ADD(Early);
struct Ones : OpDef {
  explicit Ones(const char* n) : OpDef(n) {
    Input("x").DataType({ge::DT_FLOAT});
    Output("y").DataType({ge::DT_FLOAT});
    AICore().SetTiling(optiling::Nothing).AddConfig("ascend910b");
  }
};
OP_ADD(Ones);
}  // namespace ops
"""
TILING = """#include "register/tilingdata_base.h"
namespace optiling {
BEGIN_TILING_DATA_DEF(ClipRowsTiling)
TILING_DATA_FIELD_DEF(float, most);
END_TILING_DATA_DEF;
REGISTER_TILING_DATA_CLASS(ClipRows, ClipRowsTiling)
}
"""
KERNELS = {
    "clip_rows": """#include "kernel_operator.h"
extern "C" __global__ __aicore__ void clip_rows(GM_ADDR x, GM_ADDR bias, GM_ADDR y, GM_ADDR workspace, GM_ADDR tiling) {
  GET_TILING_DATA(t, tiling);
  *(__gm__ float*)y = t.most;
}
""",
    "early": """#include "kernel_operator.h"
struct T { float most; };
extern "C" __global__ __aicore__ void early(GM_ADDR x, GM_ADDR y, GM_ADDR workspace, GM_ADDR tiling) {
  REGISTER_TILING_DEFAULT(T);
  if (x != nullptr) {
    *(__gm__ float*)y = 3;
    return;
  }
  GET_TILING_DATA(t, tiling);
  *(__gm__ float*)y = t.most;
}
""",
    "ones": """#include "kernel_operator.h"  // GET_TILING_DATA(t, tiling) is not needed
extern "C" __global__ __aicore__ void ones(GM_ADDR x, GM_ADDR y, GM_ADDR workspace, GM_ADDR tiling) {
  *(__gm__ float*)y = 1;
}
""",
}
CALL = """
import ctypes, sys, torch, torch_npu
from tests.ascendc.packaged import Functions
call, most = Functions(sys.argv[1]), float(sys.argv[2])
x, y = torch.zeros(2, 1, device="npu")
if most > 0:
    said = call("aclnnClipRows", x, None, ctypes.c_double(most), y)
else:
    said = call("aclnnOnes" if most == 0 else "aclnnEarly", x, y)
print(said or y.item())
"""


@pytest.fixture(scope="module")
def package(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("mistakes")
    files = {"op_host/clip_rows.cpp": HOST, "op_host/clip_rows_tiling.h": TILING}
    for name, text in (files | {f"op_kernel/{name}.cpp": text for name, text in KERNELS.items()}).items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    done = opp_build(folder, "-o", folder / "out")
    assert done.returncode == 0, done.stderr
    return folder / "out"


def called(package: Path, most: float) -> subprocess.CompletedProcess:
    library = package / "op_api" / "lib" / "libcust_opapi.so"
    environ = {**os.environ, "LD_LIBRARY_PATH": str(library_folder())}
    command = [sys.executable, "-c", CALL, str(library), str(most)]
    return subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True)


def test_a_tiling_that_was_saved_without_its_size(package):
    said = "aclnnClipRows: its tiling function saved no tiling data: SetDataSize is missing\n"
    assert called(package, 1).stdout == said
    done = called(package, 2.5)
    assert done.stdout == "2.5\n" and "its tiling function" not in done.stderr


def test_a_kernel_without_a_tiling_needs_no_size(package):
    assert called(package, 0).stdout == "1.0\n"
    assert called(package, -1).stdout == "3.0\n"  # it returns before it reads one


@pytest.mark.parametrize(
    ("most", "asked"),
    [
        (3, "attribute 1, and it has 1 (most)"),
        (4, "input 2, and it has 2 (x, bias)"),
        (5, "input 7, and it has 2 (x, bias)"),
        (6, "output 1, and it has 1 (y)"),
    ],
)
def test_what_is_not_there_is_said_before_the_process_ends(package, most, asked):
    """The getters give null, as CANN's do. An input that is optional and not given is null without a word."""
    done = called(package, most)
    assert done.returncode == -signal.SIGSEGV
    assert done.stderr.count("its tiling function asks for") == 1
    assert f"ClipRows: its tiling function asks for {asked}\n" in done.stderr

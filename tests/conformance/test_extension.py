"""Users' operators under the vendor's torch_npu: an extension with a copied EXEC_NPU_CMD, compiled against its headers,
packages of custom operators in its look-up, and a kernel in AscendC.

CANN's headers are ours here: the wheel's copies of them are licensed for one vendor's processors. What the wheel's own
headers want of them beyond that stands in MORE.
"""

from __future__ import annotations

import subprocess
import sysconfig
from pathlib import Path

import pytest
import torch

from tests.ascendc.test_flow import CPP, PYTHON, compile_as_documented
from tests.conformance import client, environment
from tests.extension import build
from tests.runtime.acl import library_folder

MORE = """#pragma once
#include <memory>
#include <acl/acl.h>
#define ACL_FUNC_VISIBILITY
#define MAX_MEM_UCE_INFO_ARRAY_SIZE 128
typedef struct aclGraphDumpOption aclGraphDumpOption;
namespace ge { class Operator; using OperatorPtr = std::shared_ptr<Operator>; }
"""
PROGRAM = """
import sys, torch, torch_npu
torch.ops.load_library(sys.argv[1])
for shape in ((1,), (7, 33), (1000, 3)):
    x, y = torch.randn(2, *shape)
    a, b = x.npu().t() if x.dim() == 2 else x.npu(), y.npu().t() if y.dim() == 2 else y.npu()
    a, b = a[..., ::2], b[..., ::2]
    got = torch.ops.copied_macro.add(a, b, 0.5)
    assert torch.equal(got.cpu(), a.cpu() + 0.5 * b.cpu()), shape
print(torch.ops.copied_macro.scaled(torch.tensor([1.0, 2.0]).npu(), 3.0).tolist())
print("vendor" in torch_npu.__file__)
"""
ABS = "import torch, torch_npu; print(torch.abs(torch.tensor([1.0, -2.0]).npu()).tolist())"


def ran(vendor: Path, folder: Path, program: str, *arguments: Path, **variables: str) -> subprocess.CompletedProcess:
    """As a file: what is in the folder that python starts in is found before what is installed."""
    (folder / "program.py").write_text(program)
    return client.run(vendor, str(folder / "program.py"), *map(str, arguments), ANYCEND_SOC="Ascend910B3", **variables)


def compiled(folder: Path, vendor_site: Path) -> Path:
    """copied_macro.cpp against the wheel's torch_npu headers and library."""
    root = library_folder().parent
    include, wheel = folder / "include", vendor_site / "torch_npu"
    links = {"torch_npu": wheel / "include" / "torch_npu"}
    links |= {name: root / "include" / name for name in ("acl", "aclnn", "hccl")}
    links |= {f"third_party/{name}/inc/{name}": root / "include" / name for name in ("acl", "hccl")}
    for name, target in links.items():
        (include / name).parent.mkdir(parents=True, exist_ok=True)
        (include / name).symlink_to(target)
    (include / "graph").mkdir()
    (include / "graph" / "operator.h").write_text("#pragma once\n")
    (include / "more.h").write_text(MORE)
    home = Path(torch.__file__).parent
    paths = [include, home / "include", home / "include/torch/csrc/api/include", sysconfig.get_paths()["include"]]
    command = ["g++", "-shared", "-fPIC", "-std=c++20", "-O0", "-w", "-include", include / "more.h"]
    command += [f"-I{path}" for path in paths] + [build.SOURCES / "copied_macro.cpp", "-o", folder / "libext.so"]
    command += [f"-L{path}" for path in (wheel / "lib", home / "lib", library_folder())]
    command += ["-ltorch_npu", "-lascendcl", "-ltorch", "-ltorch_cpu", "-lc10"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder / "libext.so"


@pytest.mark.full
def test_an_extension_with_a_copied_macro(vendor, tmp_path):
    package = build.package(tmp_path / "five", 5.0)
    library = compiled(tmp_path, environment.site_packages())
    path = {"LD_LIBRARY_PATH": str(package.parent)}  # the macro opens packages by their bare name
    done = ran(vendor, tmp_path, PROGRAM, library, **path)
    assert done.stdout.split("\n")[:2] == ["[15.0, 30.0]", "True"], done.stderr[-3000:]


@pytest.mark.parametrize("named", ["ASCEND_CUSTOM_OPP_PATH", "ASCEND_OPP_PATH"])
def test_its_look_up_finds_packages(vendor, tmp_path, named):
    """Set in the program, since `anycend run` sets the second one."""
    folder = tmp_path / "vendors" / "mine"
    build.abs_that_negates(folder)
    (tmp_path / "vendors" / "config.ini").write_text("load_priority=mine\n")
    where = folder if named == "ASCEND_CUSTOM_OPP_PATH" else tmp_path
    done = ran(vendor, tmp_path, f"import os; os.environ[{named!r}] = {str(where)!r}\n{ABS}")
    assert done.stdout.strip() == "[-1.0, 2.0]", done.stderr[-3000:]


def test_the_documented_kernel(vendor, tmp_path):
    compile_as_documented(tmp_path / "kernel", CPP)
    library = tmp_path / "kernel" / "libadd.so"
    program = PYTHON.replace("./libadd.so", str(library)).replace("import torch", "import torch, torch_npu", 1)
    done = ran(vendor, tmp_path, program + "print('added')")
    assert done.stdout.strip() == "added", done.stderr[-3000:]

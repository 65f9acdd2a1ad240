"""Users' operators under the vendor's torch_npu: an extension with a copied EXEC_NPU_CMD, compiled against its headers,
packages of custom operators in its look-up, a kernel in AscendC, operators in one file, a library of kernels, and a
file of YAML through the wheel's own generator.

CANN's headers are ours here: the wheel's copies of them are licensed for one vendor's processors. What the wheel's own
headers want of them beyond that stands in MORE.
"""

from __future__ import annotations

import os
import subprocess
import sysconfig
from pathlib import Path

import pytest
import torch

from tests.ascendc.test_compiler import library_of_cmake
from tests.ascendc.test_flow import PYTHON, library_as_documented
from tests.conformance import client, environment
from tests.extension import build
from tests.extension.test_launches import PROGRAM as LAUNCHED
from tests.runtime.acl import library_folder
from torch_npu.utils import custom_ops

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


def wheels_folders(folder: Path, vendor_site: Path) -> list[str]:
    """Flags for the wheel's torch_npu headers and library, with CANN's headers of ours."""
    root = library_folder().parent
    include, wheel = folder / "include", vendor_site / "torch_npu"
    links = {"torch_npu": wheel / "include" / "torch_npu"}
    links["op_plugin"] = wheel / "include" / "third_party" / "op-plugin" / "op_plugin"
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
    flags = ["-include", str(include / "more.h"), *(f"-I{path}" for path in paths)]
    return flags + [f"-L{path}" for path in (wheel / "lib", home / "lib", library_folder())]


def compiled(folder: Path, vendor_site: Path, source: Path, *flags: str) -> Path:
    """Against the wheel's torch_npu headers and library."""
    command = ["g++", "-shared", "-fPIC", "-std=c++20", "-O0", "-w", *flags, *wheels_folders(folder, vendor_site)]
    command += [source, "-o", folder / "libext.so", "-ltorch_npu", "-lascendcl", "-ltorch", "-ltorch_cpu", "-lc10"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder / "libext.so"


@pytest.mark.full
def test_an_extension_with_a_copied_macro(vendor, tmp_path):
    package = build.package(tmp_path / "five", 5.0)
    library = compiled(tmp_path, environment.site_packages(), build.SOURCES / "copied_macro.cpp")
    path = {"LD_LIBRARY_PATH": str(package.parent)}  # the macro opens packages by their bare name
    done = ran(vendor, tmp_path, PROGRAM, library, **path)
    assert done.stdout.split("\n")[:2] == ["[15.0, 30.0]", "True"], done.stderr[-3000:]


@pytest.mark.parametrize("named", ["ASCEND_CUSTOM_OPP_PATH", pytest.param("ASCEND_OPP_PATH", marks=pytest.mark.full)])
def test_its_look_up_finds_packages(vendor, tmp_path, named):
    """Set in the program, since `anycend run` sets the second one."""
    folder = tmp_path / "vendors" / "mine"
    build.abs_that_negates(folder)
    (tmp_path / "vendors" / "config.ini").write_text("load_priority=mine\n")
    where = folder if named == "ASCEND_CUSTOM_OPP_PATH" else tmp_path
    done = ran(vendor, tmp_path, f"import os; os.environ[{named!r}] = {str(where)!r}\n{ABS}")
    assert done.stdout.strip() == "[-1.0, 2.0]", done.stderr[-3000:]


def test_the_documented_kernel(vendor, tmp_path):
    library = library_as_documented() / "libadd.so"
    program = PYTHON.replace("./libadd.so", str(library)).replace("import torch", "import torch, torch_npu", 1)
    done = ran(vendor, tmp_path, program + "print('added')")
    assert done.stdout.strip() == "added", done.stderr[-3000:]


@pytest.fixture(scope="module")
def launches(vendor, tmp_path_factory) -> Path:
    """Operators in one file of `bisheng`, against the wheel's headers and library."""
    folder = tmp_path_factory.mktemp("launches")
    return build.kernels(folder, build.SOURCES / "launches.asc", *wheels_folders(folder, environment.site_packages()))


@pytest.mark.full
@pytest.mark.parametrize("queue", client.QUEUES)
def test_operators_in_one_file(vendor, launches, tmp_path, queue):
    """Each way to launch a kernel, eager and in a graph; under our torch_npu: tests/extension/test_launches.py."""
    done = ran(vendor, tmp_path, LAUNCHED.read_text(), launches, TASK_QUEUE_ENABLE=queue)
    assert done.stdout.splitlines()[-1:] == ["AS WANTED, vendor"], done.stderr[-3000:]


LIBRARY = """
import ctypes, sys, torch, torch_npu
library = ctypes.CDLL(sys.argv[1])
x = torch.arange(128.0).npu()
stream = ctypes.c_void_p(torch_npu.npu.current_stream().npu_stream)
assert library.go(stream, ctypes.c_void_p(x.data_ptr()), 64) == 0
assert torch.equal((x + 1).cpu(), torch.arange(128.0) * 2 + 1)
print("vendor" in torch_npu.__file__)
"""


@pytest.mark.parametrize("kind", ["SHARED", pytest.param("STATIC", marks=pytest.mark.full)])
def test_a_library_of_kernels_in_cmake(vendor, tmp_path, kind):
    """`ascendc_library`: its kernels on the stream and the tensors of the wheel, between the wheel's own kernels."""
    done = ran(vendor, tmp_path, LIBRARY, library_of_cmake(kind))
    assert done.stdout.strip() == "True", done.stderr[-3000:]


# A user's file as the wheel's generator (torchnpugen) wants it: each section, if empty.
ROWS = """
all_version: [v2.1, v2.13]
official: []
symint: []
quant: []
autograd: []
custom:
  - func: gelu_of_yaml(Tensor self) -> Tensor
    op_api: all_version
    gen_opapi:
      out: {size: self, dtype: self}
      exec: aclnnFastGelu
  - func: sum_of_yaml(Tensor self, Tensor other, Scalar alpha) -> Tensor
    op_api: v2.13
    gen_opapi:
      out: {size: self, dtype: self}
      exec: aclnnAdd, self, other, alpha, out
"""
REGISTERED = """
#include "StructKernelNpuOpApiEverything.cpp"
TORCH_LIBRARY_FRAGMENT(of_yaml, m) {
  m.def("gelu_of_yaml(Tensor self) -> Tensor", &op_api::gelu_of_yaml);
  m.def("sum_of_yaml(Tensor self, Tensor other, Scalar alpha) -> Tensor", &op_api::sum_of_yaml);
}
"""
GENERATED = """
import sys, torch, torch_npu
torch.ops.load_library(sys.argv[1])
x, y = torch.randn(2, 5, 33).npu()
assert torch.equal(torch.ops.of_yaml.gelu_of_yaml(x.t()), torch_npu.fast_gelu(x.t()))
assert torch.equal(torch.ops.of_yaml.sum_of_yaml(x, y, 0.5).cpu(), x.cpu() + 0.5 * y.cpu())
print("vendor" in torch_npu.__file__)
"""


@pytest.mark.full
def test_a_file_of_yaml_through_its_generator(vendor, tmp_path):
    """Our generator reads the file, too; what it writes stands on our plugin alone."""
    (tmp_path / "ops.yaml").write_text(ROWS)
    assert "EXEC_NPU_CMD_EXT(aclnnFastGelu, self_v, out_v)" in custom_ops.generate(tmp_path / "ops.yaml")
    switches = {"PYTORCH_VERSION": "2.13.0", "ACLNN_EXTENSION_SWITCH": "TRUE", "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    keep = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    for module, *arguments in (
        ("gen_op_plugin_functions", "--version=2.13.0", "--output_dir=.", "--source_yaml=ops.yaml"),
        ("struct.gen_struct_opapi", "-n", "op_plugin_functions.yaml", "--struct_yaml", "ops.yaml", "-o", "."),
    ):
        command = [vendor, "-m", f"torchnpugen.{module}", *arguments]
        done = subprocess.run(command, cwd=tmp_path, env=keep | switches, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    (tmp_path / "registered.cpp").write_text(REGISTERED)
    source = tmp_path / "registered.cpp"
    library = compiled(tmp_path, environment.site_packages(), source, "-DCURRENT_VERSION=V2R13")
    done = ran(vendor, tmp_path, GENERATED, library)
    assert done.stdout.strip() == "True", done.stderr[-3000:]

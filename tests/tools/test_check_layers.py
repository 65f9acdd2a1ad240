"""tools/dev/check_layers.py: it finds what it should in a made-up tree, and nothing in ours."""

from __future__ import annotations

import pytest

from tools.dev import check_layers


@pytest.fixture
def tree(tmp_path):
    def write(path: str, text: str = ""):
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return [str(finding) for finding in check_layers.check(tmp_path, check_layers.load_table())]

    return write


def test_the_repository_keeps_its_layers(root):
    assert [str(finding) for finding in check_layers.check(root, check_layers.load_table())] == []


def test_plugin_and_software_npu_do_not_include_each_other(tree):
    assert tree("softnpu/runtime/enqueue.h") == []
    findings = tree("torch_npu/csrc/core/stream.cpp", '#include "softnpu/runtime/enqueue.h"\n')
    assert findings == [
        "torch_npu/csrc/core/stream.cpp:1: torch_npu/csrc/core may not include softnpu/runtime/enqueue.h"
    ]


def test_a_header_is_found_beside_its_includer(tree):
    tree("torch_npu/csrc/python/device.h")
    assert tree("torch_npu/csrc/python/module.cpp", '#include "device.h"\n') == []


def test_nobody_includes_python(tree):
    tree("torch_npu/csrc/python/module.h")
    findings = tree("torch_npu/csrc/core/hooks.cpp", '\n#include "torch_npu/csrc/python/module.h"\n')
    assert findings == [
        "torch_npu/csrc/core/hooks.cpp:2: torch_npu/csrc/core may not include torch_npu/csrc/python/module.h"
    ]


def test_operators_and_collectives_do_not_meet(tree):
    tree("torch_npu/csrc/ops/copy.h")
    findings = tree("torch_npu/csrc/distributed/group.cpp", '#include "torch_npu/csrc/ops/copy.h"\n')
    assert len(findings) == 1 and "torch_npu/csrc/distributed may not include" in findings[0]


def test_only_one_header_of_the_runtime_is_open_to_kernels(tree):
    tree("softnpu/runtime/enqueue.h")
    tree("softnpu/runtime/stream.h")
    findings = tree("softnpu/ops/a.cpp", '#include "softnpu/runtime/enqueue.h"\n#include "softnpu/runtime/stream.h"\n')
    assert findings == ["softnpu/ops/a.cpp:2: softnpu/ops may not include softnpu/runtime/stream.h"]


def test_the_runtime_knows_no_torch(tree):
    findings = tree("softnpu/runtime/memory.cpp", "#include <c10/core/Device.h>\n#include <vector>\n")
    assert findings == ["softnpu/runtime/memory.cpp:1: softnpu/runtime may not include c10/core/Device.h (c10)"]


def test_the_longest_prefix_decides(tree):
    findings = tree("torch_npu/csrc/core/empty.cpp", "#include <ATen/EmptyTensor.h>\n#include <ATen/ops/add.h>\n")
    assert findings == [
        "torch_npu/csrc/core/empty.cpp:2: torch_npu/csrc/core may not include ATen/ops/add.h (aten_ops)"
    ]


def test_generated_headers_belong_to_the_border(tree):
    assert tree("softnpu/runtime/error.cpp", '#include "acl/api.h"\n') == []


def test_heavy_headers_are_never_included(tree):
    findings = tree("torch_npu/csrc/python/module.cpp", "#include <torch/extension.h>\n")
    assert len(findings) == 1 and "torch/extension.h is never included" in findings[0]


def test_dlopen_has_one_room(tree):
    assert tree("torch_npu/csrc/cann/library.cpp", "void* h = dlopen(path, 2);  // dlopen(2)\n") == []
    findings = tree("torch_npu/csrc/core/device.cpp", "int x;\nvoid* h = dlopen(path, 2);\n// dlopen(3)\n")
    assert len(findings) == 1 and findings[0].startswith("torch_npu/csrc/core/device.cpp:2: dlopen is called only in")


def test_the_border_has_no_sources(tree):
    assert tree("cann/abi.cpp") == ["cann/abi.cpp:1: the border holds declarations and tables only"]

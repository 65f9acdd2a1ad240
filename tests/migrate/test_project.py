"""migrate/src/project.cpp: names that come from other files of the tree."""

from __future__ import annotations

import pytest


def check(migrate, files: dict[str, str], name: str, expected: str):
    assert migrate.many({path: text.encode() for path, text in files.items()})[name].decode() == expected


@pytest.mark.parametrize(
    "imported",
    ["from util import dev", "from util import dev as dev", "from util import *", "from .util import dev"],
)
def test_a_module_bound_in_another_file(migrate, imported):
    files = {
        "util.py": "import torch\ndev = torch.cuda\n",
        "main.py": f"import torch\n{imported}\ndev.synchronize()  # cuda\n",
    }
    check(
        migrate, files, "main.py", f"import torch_npu\nimport torch\n{imported}\ntorch_npu.npu.synchronize()  # cuda\n"
    )


def test_a_user_of_the_alias_without_a_cuda_word_needs_no_change(migrate):
    files = {"util.py": "import torch\ndev = torch.cuda\n", "main.py": "from util import dev\ndev.synchronize()\n"}
    check(migrate, files, "main.py", files["main.py"])
    check(migrate, files, "util.py", "import torch_npu\nimport torch\ndev = torch.npu\n")


def test_through_a_package_and_a_second_file(migrate):
    files = {
        "pkg/__init__.py": "from .base import c\n",
        "pkg/base.py": "from torch import cuda as c\n",
        "main.py": "import torch\nimport pkg\npkg.c.synchronize()  # cuda\n",
    }
    check(
        migrate, files, "main.py", "import torch_npu\nimport torch\nimport pkg\ntorch_npu.npu.synchronize()  # cuda\n"
    )


def test_a_module_of_the_tree_with_a_function_cuda(migrate):
    files = {"ops.py": "def cuda(x):\n    return x\n", "main.py": "import torch\nfrom lib import ops\nops.cuda(1)\n"}
    check(
        migrate,
        {"lib/__init__.py": "", "lib/ops.py": files["ops.py"], "main.py": files["main.py"]},
        "main.py",
        files["main.py"],
    )


def test_another_package_through_a_file_of_the_tree(migrate):
    files = {
        "gpu.py": "from numba import cuda\n",
        "main.py": "import torch\nfrom gpu import cuda\ncuda.init()\ny.cuda()\n",
    }
    check(migrate, files, "main.py", "import torch_npu\nimport torch\nfrom gpu import cuda\ncuda.init()\ny.npu()\n")


def test_files_that_import_each_other(migrate):
    files = {
        "a.py": "from b import *\nfrom b import x\nx.cuda.init()\n",
        "b.py": "from a import *\nfrom a import x\n'cuda'\n",
    }
    check(migrate, files, "a.py", files["a.py"])


def test_a_tree_named_like_a_module_of_torch(migrate):
    files = {
        "cuda.py": "def is_available():\n    return 1\n",
        "main.py": "import torch\nimport cuda\ncuda.is_available()\n",
    }
    check(migrate, files, "main.py", files["main.py"])

"""migrate/src/configs.cpp: --configs."""

from __future__ import annotations

import json

import pytest

CASES = {
    "yaml": (
        "c.yaml",
        "# cuda: stays\ndevice: cuda:0  # cuda\nname: cuda\ncuda: true\nbackend: 'nccl'\nlist: [cuda, cpu]\nmap: {device: cuda}\n"
        "multi: cpu:gloo,cuda:nccl\n- cuda\n- device: \"cuda\"\ntext: |\n  device: cuda\nlast: not cuda\n",
        "# cuda: stays\ndevice: npu:0  # cuda\nname: cuda\ncuda: true\nbackend: 'hccl'\nlist: [npu, cpu]\nmap: {device: npu}\n"
        "multi: cpu:gloo,npu:hccl\n- npu\n- device: \"npu\"\ntext: |\n  device: cuda\nlast: not cuda\n",
    ),
    "json": (
        "c.json",
        '{"device": "cuda:1", "cuda": true, "name": "cuda", "n": ["cuda", "x"], "s": "a cuda", "d": {"backend": "nccl"}}',
        '{"device": "npu:1", "cuda": true, "name": "cuda", "n": ["npu", "x"], "s": "a cuda", "d": {"backend": "hccl"}}',
    ),
    "toml": ("c.toml", 'device = "cuda"\n[cuda]\nx = 1\n', 'device = "npu"\n[cuda]\nx = 1\n'),
    "ini": ("c.ini", "[a]\ndevice = cuda:0\n; cuda\n", "[a]\ndevice = npu:0\n; cuda\n"),
    "shell": (
        "run.sh",
        "#!/bin/sh\n# cuda\nexport CUDA_VISIBLE_DEVICES=0,1\necho using cuda\npython t.py --device cuda:0 --backend=nccl --cuda \"x\"\n"
        "DEVICE=cuda python t.py\ncd /opt/cuda\n",
        "#!/bin/sh\n# cuda\nexport ASCEND_RT_VISIBLE_DEVICES=0,1\necho using cuda\npython t.py --device npu:0 --backend=hccl --cuda \"x\"\n"
        "DEVICE=npu python t.py\ncd /opt/cuda\n",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_values_change_and_the_rest_stays(migrate, name):
    file, before, after = CASES[name]
    assert migrate(before, "--configs", name=file) == after
    assert migrate(after, "--configs", name=file) == after


@pytest.mark.parametrize("name", CASES)
def test_nothing_without_the_option(migrate, name):
    file, before, _ = CASES[name]
    assert migrate.many({"a.py": b"", file: before.encode()})[file] == before.encode()


def test_a_notebook_is_one_program(migrate):
    cells = [
        {"cell_type": "code", "source": ["!pip install torch\n", "%matplotlib inline\n", "import torch\n"]},
        {"cell_type": "markdown", "source": ["x = 'cuda'"]},
        {"cell_type": "code", "source": ['d = "cuda"\n', "s = 'é\\t'; torch.cuda.synchronize()"], "outputs": ["cuda"]},
    ]
    before = json.dumps({"cells": cells, "nbformat": 4}, indent=1)
    after = migrate(before, "--configs", name="n.ipynb")
    made = json.loads(after)["cells"]
    assert "".join(made[0]["source"]) == "!pip install torch\n%matplotlib inline\nimport torch_npu\nimport torch\n"
    assert made[1] == cells[1]
    assert made[2]["source"] == ['d = "npu"\n', "s = 'é\\t'; torch_npu.npu.synchronize()"]
    assert made[2]["outputs"] == ["cuda"]
    assert migrate(after, "--configs", name="n.ipynb") == after


def test_broken_json_is_listed(migrate):
    report = migrate.report('{"device": "cuda",\n', "--configs", name="c.json")
    assert report["skipped"][0]["file"] == "c.json" and "line 2" in report["skipped"][0]["reason"]

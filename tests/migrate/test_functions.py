"""-s and -m: the packages the tool writes do exactly what they stand for, and the scripts use them."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

TEMPLATES = Path(__file__).resolve().parents[2] / "migrate" / "templates"


@pytest.fixture(scope="module")
def ascend_function():
    sys.path.insert(0, str(TEMPLATES))
    try:
        yield importlib.import_module("ascend_function")
    finally:
        sys.path.remove(str(TEMPLATES))


def close(a, b, exact=True):
    import torch

    if isinstance(a, (tuple, list)):
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            close(x, y, exact)
    else:
        torch.testing.assert_close(a, b, rtol=0 if exact else 1e-6, atol=0 if exact else 1e-7, equal_nan=True)


def samples(name):
    """Argument lists for one function; made inside, so that collecting needs no torch."""
    import torch

    g = torch.Generator().manual_seed(0)
    x = torch.randn(6, 5, generator=g)
    cube = torch.randn(2, 3, 9, generator=g)
    whole = torch.tensor([1, 1, 2, 2, 2, 3, 1, 1])
    rows = torch.tensor([[1, 2], [1, 2], [3, 4], [1, 2]])
    anchor, near, far = (torch.randn(4, 8, generator=g) for _ in range(3))
    return {
        "std_mean": [((x,), {}), ((x, 1), {}), ((x, (0, 1)), {"keepdim": True}), ((x, False), {}), ((x, 0), {"correction": 2})],
        "var_mean": [((x,), {}), ((x, 1, False), {}), ((x,), {"dim": [0], "unbiased": True})],
        "heaviside": [((torch.tensor([-1.5, 0, 2, float("nan")]), torch.tensor([0.5])), {}), ((whole - 2, whole), {})],
        "unique_consecutive": [
            ((whole,), {}), ((whole, True, True), {}), ((rows,), {"return_inverse": True, "return_counts": True, "dim": 0}),
            ((rows,), {"dim": 1}), ((torch.tensor([]), True, True), {}), ((rows,), {"return_inverse": True}),
        ],
        "max_pool1d": [((cube, 3), {}), ((cube, 3, 2, 1), {"return_indices": True}), ((cube[0], (2,)), {"ceil_mode": True}), ((cube, 2), {"dilation": 3})],
        "adaptive_max_pool1d": [((cube, 4), {}), ((cube, (2,)), {"return_indices": True})],
        "pdist": [((x,), {}), ((x, 1.0), {}), ((x, float("inf")), {})],
        "triplet_margin_loss": [((anchor, near, far), {}), ((anchor, near, far), {"swap": True, "margin": 0.3, "reduction": "none"}), ((anchor, near, far), {"p": 1, "reduction": "sum"})],
        "triplet_margin_with_distance_loss": [((anchor, near, far), {}), ((anchor, near, far), {"swap": True, "reduction": "sum"})],
        "multilabel_soft_margin_loss": [((x, (x > 0).float()), {}), ((x, (x > 0).float(), torch.rand(5, generator=g)), {"reduction": "none"})],
        "fftfreq": [((8,), {}), ((9, 0.5), {}), ((4,), {"dtype": torch.float64})],
        "rfftfreq": [((8,), {}), ((9, 0.25), {}), ((1,), {})],
        "fftshift": [((x,), {}), ((cube, 1), {}), ((cube, [0, 2]), {})],
        "ifftshift": [((x,), {}), ((cube, 2), {})],
    }[name]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "module", "exact"),
    [
        ("std_mean", "torch", False), ("var_mean", "torch", False), ("heaviside", "torch", True),
        ("unique_consecutive", "torch", True), ("fftfreq", "torch.fft", True), ("rfftfreq", "torch.fft", True),
        ("fftshift", "torch.fft", True), ("ifftshift", "torch.fft", True), ("max_pool1d", "torch.nn.functional", True),
        ("adaptive_max_pool1d", "torch.nn.functional", True), ("pdist", "torch.nn.functional", False),
        ("triplet_margin_loss", "torch.nn.functional", False),
        ("triplet_margin_with_distance_loss", "torch.nn.functional", False),
        ("multilabel_soft_margin_loss", "torch.nn.functional", False),
    ],
)  # fmt: skip
def test_equivalent(ascend_function, name, module, exact):
    original = getattr(importlib.import_module(module), name)
    for arguments, options in samples(name):
        close(getattr(ascend_function, name)(*arguments, **options), original(*arguments, **options), exact)


def test_copies_between_devices(ascend_function):
    import torch

    x = torch.arange(10.0)
    assert [t.tolist() for t in ascend_function.scatter(x, ["cpu", "cpu"], [4, 6])] == [x[:4].tolist(), x[4:].tolist()]
    close(ascend_function.gather([x, x], destination="cpu"), torch.cat([x, x]))
    close(ascend_function.reduce_add([x, x, x], "cpu"), 3 * x)
    close(ascend_function.broadcast(x, ["cpu", "cpu"]), (x, x))
    out = torch.empty(20)
    assert ascend_function.gather([x, x], out=out) is out and out[10:].equal(x)


def test_ranges_nest(ascend_function):
    assert [ascend_function.range_push("a"), ascend_function.range_push("b")] == [0, 1]
    assert [ascend_function.range_pop(), ascend_function.range_pop(), ascend_function.range_pop()] == [1, 0, -1]
    with ascend_function.named_range("{} {}", 1, 2):
        assert ascend_function.range_push("c") == 1
        ascend_function.range_pop()
    ascend_function.range_end(ascend_function.range_start("d"))


def test_every_equivalent_in_the_table_exists(ascend_function):
    table = TEMPLATES.parent / "data" / "equivalents.tsv"
    names = [line.split("\t")[1] for line in table.read_text(encoding="utf-8").splitlines()]
    assert [name for name in names if not callable(getattr(ascend_function, name, None))] == []


def test_scripts_call_them(run, tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.py").write_text(
        "import torch\nimport torch.nn.functional as F\nfrom torch import heaviside\n"
        "s, m = torch.std_mean(x)\nF.pdist(x)\nheaviside(a, b)\nwith torch.cuda.nvtx.range('x'):\n    torch.cuda.nvtx.mark('y')\n"
    )
    run("-i", "in", "-o", "out", "-s", "-v", "2.1.0")
    result = tmp_path / "out" / "in_msft"
    assert (result / "a.py").read_text() == (
        "import torch_npu\nimport ascend_function\nimport torch\nimport torch.nn.functional as F\nfrom torch import heaviside\n"
        "s, m = ascend_function.std_mean(x)\nascend_function.pdist(x)\nascend_function.heaviside(a, b)\n"
        "with ascend_function.named_range('x'):\n    torch.npu.mstx.mark('y')\n"
    )
    assert (result / "ascend_function" / "functional.py").exists()
    assert (result / "unsupported_api.csv").read_text() == "File,Start Line,End Line,OP,Tips\n"


def test_paths_on_modelarts(run, tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.py").write_text(
        "'''Doc.'''\nimport torch, os\nwith open('/data/set/list.txt') as f:\n    text = f.read()\n"
        "torch.save({}, '/ckpt/a.pt')\nprint(text, os.path.exists('/ckpt/a.pt'), torch.load(f='/ckpt/a.pt'))\n"
    )
    run("-i", "in", "-o", "out", "-m")
    result = tmp_path / "out" / "in_msft"
    text = (result / "a.py").read_text()
    assert text.startswith(
        "'''Doc.'''\nfrom ascend_modelarts_function.modelarts_path_manager import ModelArtsPathManager\n"
    )
    assert "torch.save({}, ModelArtsPathManager().get_path('/ckpt/a.pt'))" in text
    assert "torch.load(f=ModelArtsPathManager().get_path('/ckpt/a.pt'))" in text
    # It runs, with folders of this machine in the place of ModelArts'.
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "list.txt").write_text("words")
    config = result / "ascend_modelarts_function" / "path_mapping_config.py"
    config.write_text(
        f"input_path_mapping = {{'/data/set': '{tmp_path}/set'}}\noutput_path_mapping = {{'/ckpt': '{tmp_path}/saved'}}\n"
        f"local_root = '{tmp_path}/cache'\n"
    )
    import os
    import subprocess

    done = subprocess.run(
        [sys.executable, result / "a.py"], capture_output=True, text=True, timeout=600,
        env=os.environ | {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"},
    )  # fmt: skip
    assert done.stdout == "words True {}\n", done.stderr
    assert (tmp_path / "saved" / "a.pt").exists()
    run("-i", result / "a.py", "--check", "--quiet")  # and a second run finds nothing to do

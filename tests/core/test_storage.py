"""Storages, resizing, and checkpoints both ways: csrc/core/storage.cpp and PyTorch's serialization."""

from __future__ import annotations

import io
import subprocess
import sys
from collections.abc import Callable

import pytest
import torch


def test_a_storage_knows_where_it_is():
    storage = torch.ones(4, device="npu:1").untyped_storage()
    assert storage.is_npu and storage.device == torch.device("npu:1")
    assert not torch.ones(4).untyped_storage().is_npu


def test_a_storage_moves_both_ways():
    host = torch.arange(6, dtype=torch.uint8).untyped_storage()
    device = host.npu()
    assert device.device == torch.device("npu:0")
    assert device.cpu().tolist() == device.tolist() == list(range(6))
    assert device.npu() is device


def test_a_storage_keeps_its_bytes_when_resized():
    tensor = torch.arange(10.0, device="npu")
    storage = tensor.untyped_storage()
    storage.resize_(400)
    assert storage.nbytes() == 400
    assert tensor.tolist() == list(range(10))
    storage.resize_(8)
    assert storage.nbytes() == 8


def test_a_storage_may_be_freed_and_filled_again():
    tensor = torch.ones(10, device="npu")
    tensor.untyped_storage().resize_(0)
    assert tensor.untyped_storage().data_ptr() == 0
    tensor.untyped_storage().resize_(40)
    tensor.copy_(torch.full((10,), 3.0))
    assert tensor.sum().item() == 30


def test_storages_copy_fill_and_clone():
    storage = torch.zeros(4, dtype=torch.uint8, device="npu").untyped_storage()
    storage.fill_(7)
    clone = storage.clone()
    storage.copy_(torch.arange(4, dtype=torch.uint8).untyped_storage())
    assert clone.tolist() == [7] * 4 and storage.tolist() == [0, 1, 2, 3]


def test_resizing_a_tensor_grows_its_storage():
    tensor = torch.arange(4.0, device="npu")
    tensor.resize_(2, 8)
    assert tensor.shape == (2, 8) and tensor.flatten()[:4].tolist() == [0, 1, 2, 3]


def saved(thing) -> io.BytesIO:
    buffer = io.BytesIO()
    torch.save(thing, buffer)
    buffer.seek(0)
    return buffer


@pytest.mark.parametrize("weights_only", [True, False])
@pytest.mark.parametrize(
    ("map_location", "expected"),
    [
        (None, "npu:1"),
        ("cpu", "cpu"),
        ("npu", "npu:0"),
        ("npu:2", "npu:2"),
        (torch.device("npu:0"), "npu:0"),
        ({"npu:1": "npu:3"}, "npu:3"),
        (lambda storage, location: storage, "cpu"),
        (lambda storage, location: storage.npu(), "npu:0"),
    ],
)
def test_a_checkpoint_of_the_npu_is_loaded_where_it_is_asked(map_location, expected, weights_only):
    loaded = torch.load(saved(torch.arange(5.0).npu(1)), map_location=map_location, weights_only=weights_only)
    assert str(loaded.device) == expected
    assert loaded.tolist() == [0, 1, 2, 3, 4]


def test_a_checkpoint_of_the_cpu_is_loaded_on_the_npu():
    loaded = torch.load(saved({"a": torch.arange(5.0)}), map_location="npu:0", weights_only=True)
    assert loaded["a"].device == torch.device("npu:0") and loaded["a"].sum().item() == 10


def test_views_share_their_storage_after_loading():
    base = torch.arange(10.0).npu()
    loaded = torch.load(saved([base, base[5:]]), weights_only=True)
    loaded[0].fill_(1)
    assert loaded[1].tolist() == [1] * 5


def test_a_module_and_its_optimizer_go_through_a_checkpoint():
    model = torch.nn.Linear(3, 2).npu()
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(1, 3, device="npu")).sum().backward()
    optimizer.step()
    state = torch.load(saved({"model": model.state_dict(), "optimizer": optimizer.state_dict()}), weights_only=True)
    other = torch.nn.Linear(3, 2)
    other.load_state_dict(state["model"])
    assert torch.equal(other.weight.detach(), model.weight.detach().cpu())
    again = torch.optim.Adam(model.parameters())
    again.load_state_dict(state["optimizer"])
    assert again.state[model.weight]["exp_avg"].device == torch.device("npu:0")


def test_a_device_that_is_not_there_is_named():
    buffer = saved(torch.ones(2).npu())
    with pytest.raises(RuntimeError, match="device_count"):
        torch.load(buffer, map_location="npu:99", weights_only=True)


def test_a_checkpoint_of_the_npu_loads_in_plain_pytorch(tmp_path):
    path = tmp_path / "model.pt"
    torch.save({"weight": torch.arange(5.0).npu()}, path)
    program = f"""
import sys, torch
assert "torch_npu" not in sys.modules
print(torch.load({str(path)!r}, map_location="cpu", weights_only=True)["weight"].tolist())
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"},
        cwd="/",
        capture_output=True,
        text=True,
    )
    assert done.stdout.strip() == "[0.0, 1.0, 2.0, 3.0, 4.0]", done.stderr


def test_deep_copies_and_pickles():
    import copy
    import pickle

    tensor = torch.arange(3.0).npu()
    assert copy.deepcopy(tensor).tolist() == pickle.loads(pickle.dumps(tensor)).tolist() == [0, 1, 2]
    assert pickle.loads(pickle.dumps(tensor)).device == tensor.device


@pytest.mark.parametrize("import_", [torch.from_dlpack, torch.utils.dlpack.from_dlpack])
@pytest.mark.parametrize("export", [torch.utils.dlpack.to_dlpack, torch.Tensor.__dlpack__])
def test_a_dlpack_capsule_shares_memory(import_: Callable, export: Callable) -> None:
    x = torch.arange(6.0, device="npu").view(2, 3).t()[1:]
    other = import_(export(x))
    assert other.device == x.device and other.stride() == x.stride() and torch.equal(other, x)
    other.add_(1)
    assert x.tolist() == [[2.0, 5.0], [3.0, 6.0]]

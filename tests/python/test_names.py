"""The names programs use: torch.npu's and those PyTorch generates for a back end."""

from __future__ import annotations

import csv

import pytest
import torch

import torch_npu

OLD_TYPES = [f"{kind}Tensor" for kind in "BFloat16 Bool Byte Char Double Float Half Int Long Short".split()]


def _resolve(name: str):
    value = {"torch": torch, "torch_npu": torch_npu}[name.split(".")[0]]
    for part in name.split(".")[1:]:
        value = getattr(value, part)
    return value


def test_every_first_tier_name_of_torch_npu_exists(facts):
    with (facts / "torch_npu" / "api.tsv").open(newline="") as file:
        rows = [row for row in csv.DictReader(file, delimiter="\t") if row["tier"] == "1"]
    names = [row["name"] for row in rows if row["name"].startswith("torch.npu.") and " " not in row["name"]]
    assert len(names) > 100
    missing = []
    for name in names:
        try:
            _resolve(name)
        except AttributeError:
            missing.append(name)
    assert missing == []


def test_generated_methods():
    tensor = torch.ones(3)
    assert tensor.npu().is_npu and not tensor.is_npu
    assert tensor.npu(1).device == tensor.npu("npu:1").device == tensor.npu(torch.device("npu:1")).device
    assert torch.nn.Linear(2, 2).npu(1).weight.device == torch.device("npu:1")
    packed = torch.nn.utils.rnn.pack_sequence([torch.ones(3), torch.ones(2)])
    assert packed.npu().is_npu


@pytest.mark.parametrize("name", OLD_TYPES)
def test_an_old_tensor_type_is_on_the_npu_and_nowhere_else(name):
    made = getattr(torch.npu, name)
    for tensor in (made(1), made(1, device=None), made([1], device=None), made(2, 3, device="npu:0")):
        assert tensor.device == torch.device("npu:0") and isinstance(tensor, made)
    assert made([1, 0], device=None).tolist() == [1, 0]
    with pytest.raises(RuntimeError, match="expects device type: npu but device type: cpu"):
        made(1, device="cpu")


def test_torch_npu_is_the_device_module():
    assert torch.npu is torch_npu.npu
    assert torch.get_device_module("npu") is torch.npu
    assert torch._C._get_privateuse1_backend_name() == "npu"


def test_the_names_of_the_enumerations():
    assert torch._C._autograd.DeviceType.NPU.name == "NPU"
    assert torch.profiler.ProfilerActivity.NPU.name == "NPU"


@pytest.mark.parametrize("switch", ["allow_internal_format"])
def test_switches_keep_their_value_and_refuse_errors(switch):
    before = getattr(torch.npu.config, switch)
    try:
        setattr(torch.npu.config, switch, not before)
        assert getattr(torch.npu.config, switch) is not before
        with pytest.raises(TypeError, match="bool"):
            setattr(torch.npu.config, switch, "yes")
        with pytest.raises(AttributeError, match="no attribute 'alow'"):
            torch.npu.config.alow = True
    finally:
        setattr(torch.npu.config, switch, before)


def test_sync_debug_mode_takes_names_and_numbers():
    torch.npu.set_sync_debug_mode("warn")
    assert torch.npu.get_sync_debug_mode() == 1
    torch.npu.set_sync_debug_mode(0)
    assert torch.npu.get_sync_debug_mode() == 0
    with pytest.raises(RuntimeError, match="debug_mode"):
        torch.npu.set_sync_debug_mode("loud")


def test_fallbacks_are_counted():
    assert isinstance(torch_npu.npu.fallback_counts(), dict)

"""Devices as threads see them: csrc/core/device.cpp, torch_npu/npu/devices.py, torch.accelerator."""

from __future__ import annotations

import threading

import pytest
import torch

from tests.core.tools import output


@pytest.fixture(autouse=True)
def first_device():
    torch.npu.set_device(0)
    yield
    torch.npu.set_device(0)


def test_eight_devices_unless_told_otherwise():
    assert output("import torch; print(torch.npu.device_count())", ANYCEND_DEVICES=None) == "8"


def test_visible_devices_are_counted_and_renumbered():
    text = output(
        "import torch; print(torch.npu.device_count(), torch.UntypedStorage(8, device='npu:1').device)",
        ASCEND_RT_VISIBLE_DEVICES="2,3",
    )
    assert text == "2 npu:1"


def test_the_accelerator_is_the_npu():
    assert torch.accelerator.current_accelerator() == torch.device("npu")
    assert torch.accelerator.device_count() == torch.npu.device_count()
    assert torch.accelerator.is_available()


def test_set_device_takes_index_string_and_device():
    for device in (1, "npu:1", torch.device("npu:1")):
        torch.npu.set_device(0)
        torch.npu.set_device(device)
        assert torch.npu.current_device() == 1


def test_the_accelerators_device_is_torch_npus():
    torch.accelerator.set_device_index(1)
    assert torch.npu.current_device() == 1
    with torch.accelerator.device_index(0):
        assert torch.npu.current_device() == 0
    assert torch.accelerator.current_device_index() == 1


def test_device_context_restores_after_an_exception():
    with pytest.raises(KeyError), torch.npu.device(1):
        assert torch.npu.current_device() == 1
        raise KeyError
    assert torch.npu.current_device() == 0


def test_device_context_with_minus_one_or_none_changes_nothing():
    for nothing in (-1, None):
        with torch.npu.device(nothing):
            assert torch.npu.current_device() == 0


def test_device_of_follows_its_object():
    with torch.npu.device_of(torch.UntypedStorage(8, device="npu:1")):
        assert torch.npu.current_device() == 1
    with torch.npu.device_of(torch.UntypedStorage(8)):
        assert torch.npu.current_device() == 0


def test_each_thread_has_a_current_device_of_its_own():
    seen = []
    torch.npu.set_device(1)
    thread = threading.Thread(target=lambda: seen.append(torch.npu.current_device()))
    thread.start()
    thread.join()
    assert seen == [0]
    assert torch.npu.current_device() == 1


@pytest.mark.parametrize("index", [8, 77, 127])
def test_an_unknown_index_is_one_error_that_says_what_there_is(index):
    count = torch.npu.device_count()
    if index < count:
        pytest.skip(f"this process sees {count} devices")
    for use in (
        lambda: torch.npu.set_device(index),
        lambda: torch.ones(2, device=f"npu:{index}"),
        lambda: torch.UntypedStorage(8, device=f"npu:{index}"),
        lambda: torch.npu.synchronize(index),
        lambda: torch.npu.memory_stats(index),
        lambda: torch.npu.get_device_name(index),
        lambda: torch.npu.current_stream(index),
        lambda: torch.npu.get_rng_state(index),
        lambda: torch.accelerator.set_device_index(index),
    ):
        with pytest.raises(RuntimeError, match=rf"invalid device index {index}.*npu:0.*ASCEND_RT_VISIBLE_DEVICES"):
            use()
    assert torch.npu.current_device() == 0


def test_a_device_of_another_type_is_refused_by_name():
    with pytest.raises(ValueError, match="Expected an npu device, but got: cpu"):
        torch.npu.set_device("cpu")


def test_choosing_a_device_makes_no_context():
    text = output(
        """
        import torch
        from torch_npu import _C
        torch.npu.device(3).__enter__()
        print(torch.npu.is_initialized(), _C._has_context(3))
        torch.UntypedStorage(8, device="npu")
        print(torch.npu.is_initialized(), _C._has_context(3), _C._has_context(0))
        """
    )
    assert text.split() == ["False", "False", "True", "True", "False"]


def test_properties_name_the_chip():
    properties = torch.npu.get_device_properties(0)
    assert properties.name == torch.npu.get_device_name() == torch.npu.get_device_name("npu:0")
    assert properties.name.startswith("Ascend")
    assert properties.total_memory == torch.npu.mem_get_info(0)[1] > 0
    assert properties.cube_core_num > 0 and properties.vector_core_num > 0
    assert properties.name in repr(properties)


@pytest.mark.parametrize(("soc", "number", "bf16"), [("Ascend910B3", 223, True), ("Ascend910A", 102, False)])
def test_the_chip_decides_number_and_bfloat16(soc, number, bf16):
    text = output("import torch; print(torch.npu.get_soc_version(), torch.npu.is_bf16_supported())", ANYCEND_SOC=soc)
    assert text == f"{number} {bf16}"


def test_peers_can_reach_each_other():
    assert torch.npu.can_device_access_peer(0, 1)
    assert not torch.npu.can_device_access_peer(0, 0)


def test_capability_is_what_the_variable_says(monkeypatch):
    monkeypatch.delenv("TORCH_NPU_DEVICE_CAPABILITY", raising=False)
    with pytest.warns(UserWarning, match="TORCH_NPU_DEVICE_CAPABILITY"):
        assert torch.npu.get_device_capability() is None
    monkeypatch.setenv("TORCH_NPU_DEVICE_CAPABILITY", "9.0")
    assert torch.npu.get_device_capability() == (9, 0)
    monkeypatch.setenv("TORCH_NPU_DEVICE_CAPABILITY", "nine")
    with pytest.raises(ValueError, match="TORCH_NPU_DEVICE_CAPABILITY=nine"):
        torch.npu.get_device_capability()

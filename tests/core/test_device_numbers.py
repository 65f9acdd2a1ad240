"""A device's number past its type's range is refused; it never names another device (256 would be device 0)."""

from __future__ import annotations

import pytest
import torch

BY_NUMBER = {
    "synchronize": torch.npu.synchronize,
    "set_device": torch.npu.set_device,
    "device": lambda number: torch.npu.device(number).__enter__(),
    "get_device_properties": torch.npu.get_device_properties,
    "get_device_name": torch.npu.get_device_name,
    "can_device_access_peer": lambda number: torch.npu.can_device_access_peer(number, 0),
    "current_stream": torch.npu.current_stream,
    "default_stream": torch.npu.default_stream,
    "Stream": torch.npu.Stream,
    "mem_get_info": torch.npu.mem_get_info,
    "memory_allocated": torch.npu.memory_allocated,
    "memory_stats": torch.npu.memory_stats,
    "reset_peak_memory_stats": torch.npu.reset_peak_memory_stats,
    "set_per_process_memory_fraction": lambda number: torch.npu.set_per_process_memory_fraction(0.5, number),
    "utilization": torch.npu.utilization,
    "get_device_limit": torch.npu.get_device_limit,
    "stop_device": torch.npu.stop_device,
}


@pytest.mark.parametrize("number", [128, 256, 257, 1 << 20])
@pytest.mark.parametrize("name", BY_NUMBER)
def test_a_number_past_the_range_is_refused(name, number):
    now = torch.npu.current_device()
    with pytest.raises((RuntimeError, ValueError), match=f"{number}"):
        BY_NUMBER[name](number)
    assert torch.npu.current_device() == now


@pytest.mark.parametrize("number", [-1, -256])
def test_a_negative_number_is_the_current_device(number):
    assert torch.npu.current_stream(number) == torch.npu.current_stream()
    torch.npu.synchronize(number)

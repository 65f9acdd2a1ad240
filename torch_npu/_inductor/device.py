"""The npu as Dynamo and Inductor see a device at compile time: torch.npu under the names of their DeviceInterface.
What it is not: the text of generated code (op_overrides.py). Dynamo alone imports it, without Inductor."""

from __future__ import annotations

from typing import Any

import torch
from torch._dynamo.device_interface import DeviceInterface

from torch_npu import _C, npu


class NpuInterface(DeviceInterface):
    device = npu.device
    Event = npu.Event
    Stream = npu.Stream

    class Worker:
        """Asked in processes that compile: they use no device."""

        @staticmethod
        def set_device(device: int) -> None:
            npu.set_device(device)

        @staticmethod
        def current_device() -> int:
            return npu.current_device()

        @staticmethod
        def get_device_properties(device: torch.types.Device = None) -> Any:
            return npu.get_device_properties(device)

    current_device = staticmethod(npu.current_device)
    set_device = staticmethod(npu.set_device)
    device_count = staticmethod(npu.device_count)
    is_available = staticmethod(npu.is_available)
    exchange_device = staticmethod(_C._exchange_device)
    maybe_exchange_device = staticmethod(_C._exchange_device)
    stream = staticmethod(npu.stream)
    current_stream = staticmethod(npu.current_stream)
    set_stream = staticmethod(npu.set_stream)
    get_raw_stream = staticmethod(_C._current_raw_stream)
    synchronize = staticmethod(npu.synchronize)
    get_device_properties = staticmethod(npu.get_device_properties)
    memory_allocated = staticmethod(npu.memory_allocated)
    is_bf16_supported = staticmethod(npu.is_bf16_supported)

    @staticmethod
    def _set_stream_by_id(stream_id: int, device_index: int, device_type: int) -> None:
        _C._set_stream(stream_id, device_index)

    @staticmethod
    def get_compute_capability(device: torch.types.Device = None) -> str:
        return npu.get_device_name(device)

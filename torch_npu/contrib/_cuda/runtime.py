"""Parts of torch.cuda that are more than another name: streams, events, properties, the libcudart and nvtx modules."""

from __future__ import annotations

import functools
import operator
import warnings
from collections.abc import Callable
from typing import Any

import torch

from torch_npu._torch_version import with_names_of_pools

from .patches import to_npu


def npu(name: str) -> Any:
    """torch.npu.<name>, looked up when called; one clear error where this release does not have it."""
    try:
        return operator.attrgetter(name)(torch.npu)
    except AttributeError:
        raise NotImplementedError(f"npu: torch.cuda's counterpart torch.npu.{name} does not exist yet") from None


def device_index(stock: Callable) -> Callable:
    @functools.wraps(stock)
    def get_device_index(device: Any, optional: bool = False, allow_cpu: bool = False) -> int:
        if isinstance(device, str):
            device = torch.device(device)
        if isinstance(device, torch.device) and device.type == "npu":
            device = torch.device("cuda") if device.index is None else torch.device("cuda", device.index)
        return stock(device, optional, allow_cpu)

    return get_device_index


def device_of_init(self: torch.cuda.device_of, obj: Any) -> None:
    torch.cuda.device.__init__(self, obj.get_device() if obj.device.type == "npu" else -1)


# --- what torch.cuda calls in torch._C and torch.npu has no function for ---
def _cuda_exchangeDevice(index: int) -> int:  # noqa: N802
    return -1 if index < 0 else torch._C._accelerator_exchangeDevice(index)


def _cuda_maybeExchangeDevice(index: int) -> int:  # noqa: N802
    return -1 if index < 0 else torch._C._accelerator_maybeExchangeDevice(index)


def _cuda_memoryStats(device: int) -> dict[str, Any]:  # noqa: N802
    return with_names_of_pools(torch.npu.memory_stats_as_nested_dict(device))


def _identity(stream: torch.Stream) -> tuple[int, int, int]:
    return stream.stream_id, stream.device_index, stream.device_type


def _cuda_getCurrentStream(index: int) -> tuple[int, int, int]:  # noqa: N802
    return _identity(torch.npu.current_stream(index))


def _cuda_getDefaultStream(index: int) -> tuple[int, int, int]:  # noqa: N802
    return _identity(torch.npu.default_stream(index))


def _cuda_getCurrentRawStream(index: int) -> int:  # noqa: N802
    return torch.npu.current_stream(index).npu_stream


def _cuda_setStream(stream_id: int, device_index: int, device_type: int) -> None:  # noqa: N802
    torch.npu.set_stream(torch.npu.Stream(stream_id=stream_id, device_index=device_index, device_type=device_type))


def _cuda_cudaCachingAllocator_raw_alloc(size: int, stream: int) -> int:  # noqa: N802
    return npu("caching_allocator_alloc")(size, stream=stream)


_CYCLES_PER_MS = 1_500_000  # a GPU's clock
_sleep_piece: dict[int, tuple[torch.Tensor, float]] = {}


def _cuda_sleep(cycles: int) -> None:
    """Keeps the current stream busy for at least about as long as a GPU takes for so many cycles: work that takes some
    time, measured at the first call on each device."""
    index = torch.npu.current_device()
    if index not in _sleep_piece:
        piece = torch.full((1 << 18,), 0.5, device=torch.device("npu", index))
        events = [torch.npu.Event(enable_timing=True) for _ in range(9)]
        piece.sin_()
        for event in events:
            event.record()
            piece.sin_()
        events[-1].synchronize()
        # The least of them: a busy machine makes single ones longer, and every sleep after it shorter. None is believed
        # to take longer than half a millisecond: where it does, sleeps are longer than asked for.
        took = min(began.elapsed_time(ended) for began, ended in zip(events, events[1:], strict=False))
        _sleep_piece[index] = (piece, min(max(took, 0.01), 0.5))
    piece, milliseconds = _sleep_piece[index]
    for _ in range(max(1, round(cycles / _CYCLES_PER_MS / milliseconds))):
        piece.sin()


def _cuda_memorySnapshot(arg: Any = None) -> dict[str, Any]:  # noqa: N802
    return npu("memory._snapshot")()


def _cuda_getArchFlags() -> str | None:  # noqa: N802
    return None  # no kernel was compiled for a CUDA architecture


class Stream(torch.npu.Stream):
    """torch.cuda.Stream: the npu's, with CUDA's names for its handle."""

    def __new__(cls, device: Any = None, priority: int = 0, **kwargs: Any) -> torch.Stream:
        return super().__new__(cls, to_npu(device), priority, **kwargs)

    @property
    def cuda_stream(self) -> int:
        return self.npu_stream


class ExternalStream(Stream):
    def __new__(cls, stream_ptr: int, device: Any = None, **kwargs: Any) -> torch.Stream:
        return npu("ExternalStream")(stream_ptr, device=to_npu(device), **kwargs)


class Event(torch.npu.Event):
    """torch.cuda.Event: the npu's, with CUDA's names for its handle and its arguments."""

    def __new__(cls, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False,
                external: bool = False) -> torch.Event:  # fmt: skip
        return super().__new__(cls, enable_timing=enable_timing, blocking=blocking, interprocess=interprocess)

    @property
    def cuda_event(self) -> int:
        return self.npu_event


class DeviceProperties:
    """The npu's properties, and CUDA's that scripts read. The capability is TORCH_NPU_DEVICE_CAPABILITY, or that of a
    GPU which can do what the npu can: 8.0 with bfloat16, else 7.0."""

    def __init__(self, index: int) -> None:
        self._npu = npu("get_device_properties")(index)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it warns that an npu has none
            capability = npu("get_device_capability")(index)
        self.major, self.minor = capability or ((8, 0) if torch.npu.is_bf16_supported() else (7, 0))
        self.is_integrated = False
        self.is_multi_gpu_board = False
        self.warp_size = 32

    @property
    def multi_processor_count(self) -> int:
        return getattr(self._npu, "cube_core_num", 1)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._npu, name)

    def __repr__(self) -> str:
        return f"_CudaDeviceProperties(name={self.name!r}, major={self.major}, minor={self.minor}, npu={self._npu})"


def device_properties(index: int) -> DeviceProperties:
    return DeviceProperties(index)


class DefaultGenerators:
    """torch.cuda.default_generators, filled when it is read: the number of devices is not asked at import. The npu's
    generators exist before its devices are initialized, so that a seed leaves a later fork possible, as on CUDA."""

    def _all(self) -> tuple[torch.Generator, ...]:
        return torch.npu.random._generators()

    def __getitem__(self, index: int) -> torch.Generator:
        return self._all()[index]

    def __len__(self) -> int:
        return len(self._all())


class Cudart:
    """torch.cuda.cudart(): memory figures are the npu's; profiler marks for CUDA's tools do nothing."""

    class cudaError(int):  # noqa: N801  (torch.cuda.CudaError makes one of a code)
        success = 0

    @staticmethod
    def cudaGetErrorString(code: int) -> str:  # noqa: N802
        return "no error" if code == 0 else f"error {code}"

    @staticmethod
    def cudaMemGetInfo(device: int) -> tuple[int, int]:  # noqa: N802
        return npu("mem_get_info")(device)

    @staticmethod
    def cudaProfilerStart() -> int:  # noqa: N802
        return 0

    @staticmethod
    def cudaProfilerStop() -> int:  # noqa: N802
        return 0


class Nvtx:
    """Ranges and marks: those of torch_npu.npu.mstx."""

    def rangePushA(self, message: str) -> int:  # noqa: N802
        return torch.npu.mstx.range_push(message)

    def rangePop(self) -> int:  # noqa: N802
        return max(torch.npu.mstx.range_pop(), 0)

    def rangeStartA(self, message: str) -> int:  # noqa: N802
        return torch.npu.mstx.range_start(message)

    def rangeEnd(self, handle: int) -> None:  # noqa: N802
        torch.npu.mstx.range_end(handle)

    def markA(self, message: str) -> None:  # noqa: N802
        torch.npu.mstx.mark(message)

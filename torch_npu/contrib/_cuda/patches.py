"""What must be replaced in Python because nothing below can be told: few rows, each with its reason."""

from __future__ import annotations

import functools
import os
import re
from typing import Any

import torch

from torch_npu.npu import _spread, tensor_types

from ._attributes import Attributes


def to_npu(device: Any) -> Any:
    """'cuda', 'cuda:1' and torch.device('cuda') as the npu's; anything else as it is."""
    if isinstance(device, torch.device) and device.type == "cuda":
        return torch.device("npu") if device.index is None else torch.device("npu", device.index)
    if isinstance(device, str) and re.fullmatch(r"cuda(:\d+)?", device):
        return "npu" + device[4:]
    return device


def install(attributes: Attributes) -> None:
    _tensor(attributes)
    _accelerator(attributes)
    _tensor_types(attributes)
    _allocator(attributes)
    _amp(attributes)
    _fake_tensor(attributes)
    _compiler(attributes)
    _data_parallel(attributes)
    _serialization(attributes)
    _profiler(attributes)
    if torch.distributed.is_available():
        _distributed(attributes)


def _tensor(attributes: Attributes) -> None:
    # Scripts ask `x.is_cuda` where they mean "on the accelerator". Storages keep saying no: PyTorch chooses CUDA's
    # interprocess sharing by it.
    stock = torch._C.TensorBase.is_cuda
    attributes.set(torch.Tensor, "is_cuda", property(lambda self: self.device.type == "npu" or stock.__get__(self)))


def _accelerator(attributes: Attributes) -> None:
    # It compares a device's type with the accelerator's. Dynamo asks it, too, for torch.cuda.synchronize.
    stock = torch.accelerator._utils._get_device_index

    @functools.wraps(stock)
    def _get_device_index(device: Any, optional: bool = False) -> int:
        return stock(to_npu(device), optional)

    for module in (torch.accelerator._utils, torch.accelerator, torch.accelerator.memory):
        attributes.set(module, "_get_device_index", _get_device_index)


def _tensor_types(attributes: Attributes) -> None:
    # The stock ones refuse to be called without CUDA.
    for name in tensor_types.__all__:
        attributes.set(torch.cuda, name, getattr(tensor_types, name))

    # Deprecated, but the first line of many a script. The device is set as set_default_device does it.
    stock = torch.set_default_tensor_type

    @functools.wraps(stock)
    def set_default_tensor_type(t: Any) -> None:
        name = t if isinstance(t, str) else getattr(t, "__qualname__", "")
        kind = getattr(tensor_types, name.rpartition(".")[2], None)
        if kind is None or not (t is kind or name.startswith(("torch.cuda.", "torch.npu."))):
            torch.set_default_device(None)
            stock(t)
            return
        torch.set_default_dtype(kind.dtype)
        torch.set_default_device("npu")

    attributes.set(torch, "set_default_tensor_type", set_default_tensor_type)


def _amp(attributes: Attributes) -> None:
    # custom_fwd(device_type='cuda', cast_inputs=…) casts tensors whose device type is the one named.
    cast = torch.amp.autocast_mode._cast

    @functools.wraps(cast)
    def cast_of_npu(value: Any, device_type: str, dtype: torch.dtype) -> Any:
        return cast(value, to_npu(device_type), dtype)

    attributes.set(torch.amp.autocast_mode, "_cast", cast_of_npu)

    # It compares the device type of tensors with its own.
    init = torch.amp.GradScaler.__init__

    @functools.wraps(init)
    def init_for_npu(self: torch.amp.GradScaler, device: str = "cuda", *args: Any, **kwargs: Any) -> None:
        init(self, to_npu(device), *args, **kwargs)

    attributes.set(torch.amp.GradScaler, "__init__", init_for_npu)

    attributes.set(torch, "get_autocast_gpu_dtype", lambda: torch.get_autocast_dtype("npu"))
    attributes.set(torch, "set_autocast_gpu_dtype", lambda dtype: torch.set_autocast_dtype("npu", dtype))


def _allocator(attributes: Attributes) -> None:
    # Inductor asks CUDA's allocator before it makes graphs (mode="reduce-overhead"), as soon as CUDA is there.
    attributes.set(
        torch._C,
        "_cuda_cudaCachingAllocator_is_enabled",
        lambda: os.environ.get("PYTORCH_NO_NPU_MEMORY_CACHING", "0") != "1",
    )


def _fake_tensor(attributes: Attributes) -> None:
    # torch.compile and torch.export: a fake factory keeps the device it was asked for; the real one does not.
    from torch._subclasses.fake_tensor import FakeTensor

    if normalize := getattr(FakeTensor, "_normalize_fake_device", None):
        attributes.set(FakeTensor, "_normalize_fake_device", staticmethod(lambda device: normalize(to_npu(device))))
    else:  # PyTorch 2.10 does that where it makes one
        make = FakeTensor.__new__

        def make_on_npu(cls: type, fake_mode: Any, elem: torch.Tensor, device: Any, *args: Any, **kwargs: Any) -> Any:
            return make(cls, fake_mode, elem, to_npu(torch.device(device)), *args, **kwargs)

        attributes.set(FakeTensor, "__new__", staticmethod(make_on_npu))

    # Dynamo answers `x.is_cuda` itself.
    def is_cuda(variable: Any, tx: Any) -> Any:
        from torch._dynamo.variables import ConstantVariable

        return None if variable.device is None else ConstantVariable.create(variable.device.type in ("cuda", "npu"))

    attributes.when_imported(
        "torch._dynamo.variables.tensor",
        lambda module: attributes.set(module.TensorVariable, "method_attr_is_cuda", is_cuda),
    )


def _compiler(attributes: Attributes) -> None:
    # backend="cudagraphs" has no name for other devices: it would say "multiple devices" and run without graphs.
    def cudagraphs(module: torch.fx.GraphModule, inputs: Any) -> Any:
        from torch._dynamo.eval_frame import cached_backends

        from torch_npu.dynamo import npugraphs_entry

        cached_backends.setdefault(id(npugraphs_entry), npugraphs_entry)  # torch._dynamo.reset() resets those
        return npugraphs_entry(module, inputs)

    attributes.when_imported(
        "torch._dynamo.backends.cudagraphs", lambda module: attributes.set(module, "cudagraphs", cudagraphs)
    )


def _data_parallel(attributes: Attributes) -> None:
    # DataParallel compares devices of this type with those of the module's parameters.
    attributes.rebind("torch.nn.parallel", torch._utils._get_available_device_type, lambda: "npu")
    attributes.set(torch._utils, "_get_available_device_type", lambda: "npu")
    for function in _spread.FUNCTIONS:  # a PyTorch with CUDA has its own, for its own devices
        if getattr(torch._C, function.__name__) is not function:
            attributes.set(torch._C, function.__name__, function)
    attributes.set(torch.cuda.nccl, "is_available", lambda tensors: False)
    # NCCL's release whose features libhccl has: averages and bfloat16 (2.10), factors (2.11), splitting (2.18).
    attributes.set(torch.cuda.nccl, "version", lambda: (2, 18, 0))


def _serialization(attributes: Attributes) -> None:
    # torch.load(map_location={"cuda:0": "cuda:1"}) looks the name up that the file has: of one saved here, the npu's.
    choose = torch.serialization._get_restore_location

    @functools.wraps(choose)
    def choose_for_npu(map_location: Any) -> Any:
        if isinstance(map_location, dict):
            map_location = {to_npu(name): place for name, place in map_location.items()} | map_location
        return choose(map_location)

    attributes.set(torch.serialization, "_get_restore_location", choose_for_npu)


def _profiler(attributes: Attributes) -> None:
    # ProfilerActivity.CUDA and use_cuda=True ask for CUDA events, which fail once an operator; the npu's are meant.
    profile = torch.autograd.profiler.profile
    init = profile.__init__

    @functools.wraps(init)
    def init_for_npu(self: Any, enabled: bool = True, *, use_cuda: bool = False, **kwargs: Any) -> None:
        if use_cuda or kwargs.get("use_device") == "cuda":
            kwargs.update(use_device="npu", use_kineto=True)
        init(self, enabled, **kwargs)

    attributes.set(profile, "__init__", init_for_npu)


def _distributed(attributes: Attributes) -> None:
    import torch.distributed as dist
    from torch.distributed import distributed_c10d as c10d

    # 'nccl' → 'hccl', 'cpu:gloo,cuda:nccl' → 'cpu:gloo,npu:hccl'. Every way in parses the name here; Backend.NCCL
    # stays what it is.
    parse = dist.Backend.__new__

    def parse_for_npu(cls: type, name: str) -> str:
        return parse(cls, backend_for_npu(name) if isinstance(name, str) else name)

    attributes.set(dist.Backend, "__new__", staticmethod(parse_for_npu))
    attributes.set(dist, "is_nccl_available", lambda: hasattr(dist.Backend, "HCCL"))

    init = c10d.init_process_group

    @functools.wraps(init)
    def init_process_group(*args: Any, **kwargs: Any) -> None:
        if "device_id" in kwargs:
            kwargs["device_id"] = to_npu(kwargs["device_id"])
        init(*args, **kwargs)

    attributes.rebind("torch.distributed", init, init_process_group)

    mesh = dist.device_mesh.init_device_mesh

    @functools.wraps(mesh)
    def init_device_mesh(device_type: str, *args: Any, **kwargs: Any) -> Any:
        return mesh(to_npu(device_type), *args, **kwargs)

    attributes.rebind("torch.distributed", mesh, init_device_mesh)

    mesh_init = dist.DeviceMesh.__init__

    @functools.wraps(mesh_init)
    def init_mesh_for_npu(self: dist.DeviceMesh, device_type: str, *args: Any, **kwargs: Any) -> None:
        mesh_init(self, to_npu(device_type), *args, **kwargs)

    attributes.set(dist.DeviceMesh, "__init__", init_mesh_for_npu)


def backend_for_npu(name: str) -> str:
    parts = []
    for part in name.split(","):
        device, colon, backend = part.rpartition(":")
        if device.lower() == "cuda":
            device = "npu"
        if backend.lower() == "nccl":
            backend = "hccl"
        parts.append(f"{device}{colon}{backend}")
    return ",".join(parts)

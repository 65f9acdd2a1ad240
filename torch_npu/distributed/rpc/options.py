"""torch_npu.distributed.rpc.options: the vendor's options of torch.distributed.rpc, which say what there is instead."""

from __future__ import annotations

from typing import Any, NoReturn

_WHY = (
    "torch.distributed.rpc carries no npu tensors here; send copies on the CPU with TensorPipeRpcBackendOptions, or "
    "use hccl's send and recv"
)


class NPUTensorPipeRpcBackendOptions:
    """Raises NotImplementedError: RPC carries no npu tensors here."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError(f"NPUTensorPipeRpcBackendOptions is not implemented: {_WHY}")

    def set_device_map(self, to: str, device_map: Any) -> NoReturn:
        """Raises NotImplementedError, as the class does."""
        raise NotImplementedError(f"NPUTensorPipeRpcBackendOptions.set_device_map is not implemented: {_WHY}")

    def set_devices(self, devices: Any) -> NoReturn:
        """Raises NotImplementedError, as the class does."""
        raise NotImplementedError(f"NPUTensorPipeRpcBackendOptions.set_devices is not implemented: {_WHY}")

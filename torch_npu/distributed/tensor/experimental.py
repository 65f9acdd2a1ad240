"""torch_npu.distributed.tensor.experimental: the vendor's name of PyTorch's context_parallel."""

from torch.distributed.tensor.experimental import context_parallel

__all__ = ["context_parallel"]

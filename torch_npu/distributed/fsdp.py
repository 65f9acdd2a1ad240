"""torch_npu.distributed.fsdp: the vendor's name of PyTorch's fully_shard, which needs no other on npu."""

from torch.distributed.fsdp import fully_shard

__all__ = ["fully_shard"]

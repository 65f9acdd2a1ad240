"""torch_npu.distributed.tensor: the vendor's name of what is PyTorch's; see experimental."""

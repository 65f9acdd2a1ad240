"""torch_npu.distributed.pipelining: PyTorch's pipeline by the vendor's name.

What the vendor's version adds (a split by modes and atomic units) is not here: those arguments are an error of
PyTorch's that names them.
"""

from torch.distributed.pipelining import pipeline

__all__ = ["pipeline"]

"""The end of a program that takes gradients, under the vendor's plugin.

A thread of autograd's drops a gradient's Python objects after the caller has the result. If the interpreter ends
meanwhile, it ends that thread in a destructor, and the process with "terminate called without an active exception": a
race of PyTorch's, one run in a hundred on a busy machine. Our plugin settles it at exit, the vendor's does not.
"""

from __future__ import annotations

import torch


def settle() -> None:
    """Waits until autograd's thread of this device has dropped the last gradient: by one more, without objects."""
    torch.ones(1, device="npu", requires_grad=True).sum().backward()

"""torch_npu.Format: CANN's names of the layouts of a tensor (aclFormat of cann/abi/enums.yaml); get_npu_format.

Data is always ND here; the format is a tag that torch_npu.npu_format_cast sets. torch_npu/__init__.py shows both names.
"""

from __future__ import annotations

from enum import IntEnum

import torch

__all__ = ["Format", "get_npu_format"]


class Format(IntEnum):
    """The layouts of CANN, by the vendor's names; str() gives the name, and each equals its number."""

    UNDEFINED = -1
    NCHW = 0
    NHWC = 1
    ND = 2
    NC1HWC0 = 3
    FRACTAL_Z = 4
    NC1HWC0_C04 = 12
    HWCN = 16
    NDHWC = 27
    FRACTAL_NZ = 29
    NCDHW = 30
    NDC1HWC0 = 32
    FRACTAL_Z_3D = 33
    NC = 35
    NCL = 47
    FRACTAL_NZ_C0_16 = 50
    FRACTAL_NZ_C0_32 = 51
    FRACTAL_NZ_C0_2 = 52
    FRACTAL_NZ_C0_4 = 53
    FRACTAL_NZ_C0_8 = 54

    def __str__(self) -> str:
        return self.name


def get_npu_format(tensor: torch.Tensor) -> Format:
    """The format that an npu tensor is tagged with: ND, unless npu_format_cast gave it another."""
    return Format(torch.ops.npu.get_npu_format(tensor))

"""Whether AMP can work at all."""

import torch

__all__ = ["amp_definitely_not_available"]


def amp_definitely_not_available() -> bool:
    """Whether there is no npu, so that a scaler must be off."""
    return not torch.npu.is_available()

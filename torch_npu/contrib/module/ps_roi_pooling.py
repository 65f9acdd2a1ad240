"""Position-sensitive pooling. Its operator is not there: it is refused by name."""

from __future__ import annotations

from torch import nn

from torch_npu.contrib._missing import refuse


class PSROIPool(nn.Module):
    """Position-sensitive pooling of regions. Raises NotImplementedError."""

    def __init__(
        self, pooled_height: int = 7, pooled_width: int = 7, spatial_scale: float = 1 / 16.0, group_size: int = 7,
        output_dim: int = 22,
    ) -> None:  # fmt: skip
        super().__init__()
        refuse("PSROIPool", "npu_ps_roi_pooling", "compose it of torch.nn.functional.adaptive_avg_pool2d")

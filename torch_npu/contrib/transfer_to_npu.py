"""Importing this runs a script written for CUDA on the npu: `from torch_npu.contrib import transfer_to_npu`.

What it does is in torch_npu/contrib/_cuda; docs/transfer_to_npu.md tells the user. `disable()` undoes it,
`enable()` does it again, `with disabled():` runs a block as if it had not been imported.
"""

from torch_npu.contrib._cuda import disable, disabled, enable, is_enabled, replaced

__all__ = ["disable", "disabled", "enable", "is_enabled", "replaced"]

enable()

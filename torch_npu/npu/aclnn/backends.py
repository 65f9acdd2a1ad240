"""What is known of CANN's operators."""

from __future__ import annotations

import warnings


def version() -> None:
    """None, with a warning: CANN's operators have no version of their own. torch.version.cann is that of CANN."""
    warnings.warn("npu: CANN's operators have no version of their own; torch.version.cann is CANN's", stacklevel=2)

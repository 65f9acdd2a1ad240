"""apex.amp: mixed precision by levels. O1 is autocast of this thread, O2 half precision with float32 master copies."""

from torch_npu.contrib.apex.amp._amp_state import _amp_state, master_params
from torch_npu.contrib.apex.amp.frontend import initialize, load_state_dict, state_dict
from torch_npu.contrib.apex.amp.functions import (
    disable_casts,
    float_function,
    half_function,
    promote_function,
    register_float_function,
    register_half_function,
    register_promote_function,
)
from torch_npu.contrib.apex.amp.handle import scale_loss

__all__ = [
    "disable_casts",
    "float_function",
    "half_function",
    "initialize",
    "load_state_dict",
    "master_params",
    "promote_function",
    "register_float_function",
    "register_half_function",
    "register_promote_function",
    "scale_loss",
    "state_dict",
]

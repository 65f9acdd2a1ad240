"""The Ascend extension for PyTorch: the device "npu", `torch.npu` and what programs written for it import.

`import torch` loads it by itself (the entry point torch.backends names `_autoload`); TORCH_DEVICE_BACKEND_AUTOLOAD=0
turns that off. Importing replaces nothing of PyTorch's but what torch.utils.rename_privateuse1_backend itself does,
opens no device and starts no thread. It names the CANN root in ASCEND_HOME_PATH where no toolkit is named.
"""


def _autoload() -> None:
    """Called by `import torch`, also while this module is being imported first; importing it is the work."""


import torch  # noqa: E402, F401

from torch_npu._clone import use_installed as _use_installed  # noqa: E402

_use_installed(__path__)

from torch_npu._vendor import refuse_beside_vendor as _refuse_beside_vendor  # noqa: E402

_refuse_beside_vendor(__path__[0])

from torch_npu import _C  # noqa: E402  (registers the device with PyTorch)
from torch_npu._startup import compare_if_asked as _compare_if_asked  # noqa: E402
from torch_npu._startup import name_root as _name_root  # noqa: E402
from torch_npu._startup import profile_if_asked as _profile_if_asked  # noqa: E402
from torch_npu._startup import register as _register  # noqa: E402
from torch_npu._startup import transfer_if_asked as _transfer_if_asked  # noqa: E402
from torch_npu._startup import warn_of_unknown_variables as _warn_of_unknown_variables  # noqa: E402
from torch_npu._startup import watch_if_asked as _watch_if_asked  # noqa: E402

_register()
_name_root(__path__[0])

from torch_npu import _torch_version, npu  # noqa: E402  (needs the name of the device)
from torch_npu._operators import find as __getattr__  # noqa: E402, F401  (torch_npu.npu_swiglu and the like)
from torch_npu._operators import names as __dir__  # noqa: E402, F401
from torch_npu.npu._format import Format, get_npu_format  # noqa: E402, F401

__version__ = f"{_torch_version.MAJOR}.{_torch_version.MINOR}.0"
# PyTorch's quantized types: no tensor of them is made on the npu. Programs that list what they can send ask for it.
unsupported_dtype = [torch.quint8, torch.quint4x2, torch.quint2x4, torch.qint32, torch.qint8]

_warn_of_unknown_variables(__path__[0])
_transfer_if_asked()
_compare_if_asked()
_profile_if_asked()
_watch_if_asked(__path__[0])

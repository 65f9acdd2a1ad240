"""NVIDIA Apex's interface, as scripts for Ascend cards call it: `from torch_npu.contrib import apex`.

A script that says `import apex` finds it after `torch_npu.contrib.apex.install()`, or with the file that
`python -m torch_npu.contrib.apex FOLDER` writes into a folder on its path. Nothing is installed without being asked.

Written from Apex's documentation and the interface that scripts use. What is not here raises AttributeError or
NotImplementedError by name.
"""

from torch_npu.contrib.apex import amp, contrib, multi_tensor_apply, normalization, optimizers, parallel
from torch_npu.contrib.apex._install import install

__all__ = ["amp", "contrib", "install", "multi_tensor_apply", "normalization", "optimizers", "parallel"]

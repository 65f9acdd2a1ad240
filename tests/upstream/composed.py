"""The plugin with its compositions instead of the processor's kernels (docs/adr/0010): what CANN on hardware would run.

python -m tests.upstream.run --plugin tests.upstream.composed --ops '^(fft|linalg|special)'
"""

import torch_npu

torch_npu._C._prefer_compositions(True)
npu = torch_npu.npu

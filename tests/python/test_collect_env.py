"""torch_npu.utils.collect_env: the report of an environment, and its lines in PyTorch's own."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import torch

import torch_npu
from tests.core import tools
from torch_npu.utils import collect_env

VERSION = re.compile(r"\d+\.\d+\.\d+")


def test_the_report():
    info = collect_env.get_env_info()
    assert (info.torch_version, info.torch_npu_version) == (torch.__version__, torch_npu.__version__)
    assert f"numpy=={__import__('numpy').__version__}" in info.pip_packages.splitlines()
    text = collect_env.pretty_str(info)
    assert f"\nTorch-npu version: {torch_npu.__version__}\n" in text and f"\nCANN:\n{info.cann_version}\n" in text
    assert f"\n[{info.pip_version}] torch=={metadata.version('torch')}\n" in text
    nothing = collect_env.pretty_str(info._replace(gcc_version=None, pip_packages="", caching_allocator_config={}))
    assert "\nGCC version: Could not collect\n" in nothing and "\nCaching allocator config: N/A\n" in nothing
    assert f"\n[{info.pip_version}] No relevant packages\n" in nothing


def test_the_cann_in_use():
    version = collect_env.get_cann_version()
    root = Path(torch_npu.__path__[0]) / "softnpu"
    assert VERSION.fullmatch(version) and f"version={version}\n" in (root / "ascend_toolkit_install.info").read_text()
    assert f"CANN: {version} in {root}, the software NPU" in collect_env.summary().splitlines()
    assert collect_env.get_torch_npu_install_path() == str(Path(torch_npu.__path__[0]).parent)


def test_devices_are_counted_by_name():
    code = "from torch_npu.utils import collect_env; print(collect_env.summary())"
    assert tools.output(code, ANYCEND_DEVICES="3").splitlines()[-1] == "NPU devices: 3 Ascend910B3"


def test_a_wrong_root_is_said_and_the_report_goes_on():
    code = "from torch_npu.utils import collect_env; print(collect_env.summary())"
    lines = tools.output(code, ASCEND_HOME_PATH="/no/such/cann").splitlines()
    assert lines[-2].startswith("CANN: none: ") and "/no/such/cann is not a directory" in lines[-2]
    assert lines[-1] == "NPU devices: none"


def test_torchs_own_report_ends_with_ours():
    done = subprocess.run([sys.executable, "-W", "ignore", "-m", "torch.utils.collect_env"],
                          capture_output=True, text=True, cwd="/")  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.rstrip().endswith(collect_env.summary())

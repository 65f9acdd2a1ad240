"""What a report of an error should say about this environment: `python -m torch_npu.utils.collect_env`.

PyTorch's own report, torch.utils.collect_env, with the plugin and CANN in the place of CUDA. `python -m
torch.utils.collect_env` ends with the lines of `summary()`.
"""

from __future__ import annotations

import re
import sys
from collections import namedtuple
from pathlib import Path

import torch

import torch_npu
from torch_npu import _C

__all__ = [
    "SystemEnv", "get_cann_version", "get_env_info", "get_pretty_env_info", "get_torch_npu_install_path",
    "get_torch_npu_version", "main", "pretty_str", "summary",
]  # fmt: skip

SystemEnv = namedtuple(
    "SystemEnv",
    [
        "torch_version", "torch_npu_version", "is_debug_build", "gcc_version", "clang_version", "cmake_version", "os",
        "libc_version", "python_version", "python_platform", "pip_version", "pip_packages", "conda_packages",
        "caching_allocator_config", "is_xnnpack_available", "cpu_info", "cann_version",
    ],
)  # fmt: skip

PACKAGES = ["torch", "numpy", "anycend", "triton"]
FORMAT = """\
PyTorch version: {torch_version}
Torch-npu version: {torch_npu_version}
Is debug build: {is_debug_build}

OS: {os}
GCC version: {gcc_version}
Clang version: {clang_version}
CMake version: {cmake_version}
Libc version: {libc_version}

Python version: {python_version}
Python platform: {python_platform}
Is XNNPACK available: {is_xnnpack_available}
Caching allocator config: {caching_allocator_config}

CPU:
{cpu_info}

CANN:
{cann_version}

Versions of relevant libraries:
{pip_packages}
{conda_packages}"""


def get_torch_npu_version() -> str:
    """torch_npu.__version__."""
    return torch_npu.__version__


def get_torch_npu_install_path() -> str:
    """The folder in which the package torch_npu lies."""
    return str(Path(torch_npu.__path__[0]).parent)


def _root() -> tuple[Path, bool]:
    """The CANN root in use, and whether it is the software NPU. Raises RuntimeError for one that is named and wrong."""
    place, soft = _C._cann_root()
    return (Path(place) / "softnpu" if soft else Path(place)), soft


def get_cann_version() -> str:
    """The version in the root's ascend_*_install.info. Empty where the root has none. Raises RuntimeError for a root
    that is named and wrong."""
    place, _ = _root()
    for folder in (place, *place.glob("*-linux")):
        for info in sorted(folder.glob("ascend_*_install.info")):
            if found := re.search(r"^version=(.*)$", info.read_text(encoding="utf-8"), re.M):
                return found[1].strip()
    return ""


def _cann() -> str:
    """Version and root, or why there is none: a report is written where something is wrong."""
    try:
        place, soft = _root()
        return f"{get_cann_version() or 'unknown version'} in {place}{', the software NPU' if soft else ''}"
    except RuntimeError as error:
        return f"none: {str(error).splitlines()[0]}"


def get_env_info() -> SystemEnv:
    """What the report says, field by field; None where a tool could not be asked. Runs programs such as gcc and pip."""
    from torch.utils import collect_env as of_torch

    pip_version, pip_packages = of_torch.get_pip_packages(of_torch.run, PACKAGES)
    return SystemEnv(
        torch_version=torch.__version__,
        torch_npu_version=get_torch_npu_version(),
        is_debug_build=str(torch.version.debug),
        gcc_version=of_torch.get_gcc_version(of_torch.run),
        clang_version=of_torch.get_clang_version(of_torch.run),
        cmake_version=of_torch.get_cmake_version(of_torch.run),
        os=of_torch.get_os(of_torch.run),
        libc_version=of_torch.get_libc_version(),
        python_version=f"{sys.version} ({sys.maxsize.bit_length() + 1}-bit runtime)".replace("\n", " "),
        python_platform=of_torch.get_python_platform(),
        pip_version=pip_version,
        pip_packages=pip_packages,
        conda_packages=of_torch.get_conda_packages(of_torch.run, PACKAGES),
        caching_allocator_config=of_torch.get_cachingallocator_config(),
        is_xnnpack_available=of_torch.is_xnnpack_available(),
        cpu_info=of_torch.get_cpu_info(of_torch.run),
        cann_version=_cann(),
    )


def pretty_str(envinfo: SystemEnv) -> str:
    """The report as text."""
    fields = {name: "Could not collect" if value is None else value for name, value in envinfo._asdict().items()}
    for name, tag in (("pip_packages", envinfo.pip_version), ("conda_packages", "conda")):
        fields[name] = "\n".join(f"[{tag}] {line}" for line in (fields[name] or "No relevant packages").splitlines())
    fields["caching_allocator_config"] = fields["caching_allocator_config"] or "N/A"
    return FORMAT.format(**fields)


def get_pretty_env_info() -> str:
    """The report of this environment as text."""
    return pretty_str(get_env_info())


def summary() -> str:
    """Plugin, CANN and devices, a line each: what PyTorch's report has no place for."""
    devices = [torch.npu.get_device_name(i) for i in range(torch.npu.device_count())]
    return "\n".join((
        f"Torch-npu version: {get_torch_npu_version()} in {get_torch_npu_install_path()}", f"CANN: {_cann()}",
        f"NPU devices: {', '.join(f'{devices.count(name)} {name}' for name in dict.fromkeys(devices)) or 'none'}",
    ))  # fmt: skip


def main() -> None:
    print("Collecting environment information...")
    print(f"{get_pretty_env_info()}\n\n{summary()}")


if __name__ == "__main__":
    main()

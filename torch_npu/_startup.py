"""What `import torch_npu` tells PyTorch, once: the device's name, its module, its tag in checkpoints, what to do at
exit, what to say beside errors; that "cuda" means the npu, or that operators are compared with the CPU, if the
environment asks for it; and it tells programs which CANN root is in use."""

from __future__ import annotations

import atexit
import importlib
import importlib.util
import multiprocessing.util
import os
import sys
import warnings
from importlib.machinery import ModuleSpec
from types import ModuleType

import torch

from torch_npu import _C


def _complete_torchs_report() -> None:
    """`python -m torch.utils.collect_env` asks no device of another name: our lines follow its own."""
    if getattr(getattr(sys.modules.get("__main__"), "__spec__", None), "name", None) == "torch.utils.collect_env":
        from torch_npu.utils import collect_env

        print(f"\n{collect_env.summary()}", flush=True)


def _exit() -> None:
    _complete_torchs_report()
    _C._settle_autograd()
    if waiting := len(_C._waiting_messages()):
        warnings.warn(
            f"npu: the process ends while {waiting} of the tensors it sent to other processes were not received: they "
            "are lost. Let it live until they were, see anycend docs sharing",
            stacklevel=2,
        )
    _C._finalize()


def _in_child(_: object) -> None:
    """A child that multiprocessing forks ends by os._exit: its finalizers do what atexit does elsewhere."""
    multiprocessing.util.Finalize(None, _C._drain, exitpriority=-100)


def _version(name: str) -> str | None:
    """torch.version.cann: the version of the CANN root in use, None where it does not say. Read when asked for."""
    if name != "cann":
        raise AttributeError(f"module 'torch.version' has no attribute '{name}'")
    from torch_npu.utils.collect_env import get_cann_version

    try:
        torch.version.cann = get_cann_version() or None
    except RuntimeError:  # a root that is named and wrong: the first use of the npu says so
        return None
    return torch.version.cann


def _register_with_lightning(module: ModuleType) -> None:
    try:
        importlib.import_module("torch_npu.contrib.lightning")
    except (ImportError, AttributeError) as error:  # another Lightning than it was written for
        warnings.warn(f'npu: {module.__name__.split(".trainer")[0]} gets no accelerator "npu": {error}', stacklevel=2)


class _Torchair:
    """`import torchair`, as with the vendor's torch_npu. The last finder: another package of that name wins."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        if name != "torchair":
            return None
        folder = os.path.join(os.path.dirname(__file__), "dynamo", "torchair")
        init = os.path.join(folder, "__init__.py")
        return importlib.util.spec_from_file_location(name, init, submodule_search_locations=[folder])


def warn_of_unknown_variables(package: str) -> None:
    """A variable of ours that nobody reads does nothing, silently: mostly it is misspelt. One warning for all."""
    ours = [name for name in os.environ if name.startswith("ANYCEND_")]
    if not ours:
        return
    with open(os.path.join(package, "variables.txt"), encoding="utf-8") as table:
        known = set(table.read().split())
    if unknown := sorted(set(ours) - known):
        import difflib

        near = {name: difflib.get_close_matches(name, known, 1, 0.85) for name in unknown}
        told = [name + (f" (did you mean {near[name][0]}?)" if near[name] else "") for name in unknown]
        warnings.warn(f"npu: nobody reads {', '.join(told)}; anycend docs env lists the variables", stacklevel=2)


def watch_if_asked(package: str) -> None:
    """ANYCEND_CHECK=race, memory: they learn the program's lines and blocks. Loads the chosen libascendcl. Without them
    lines are looked for only while a graph is captured."""
    _C._find_lines([f"{folder}{os.sep}" for folder in (os.path.dirname(torch.__file__), package)])
    checks = os.environ.get("ANYCEND_CHECK", "").split(",")
    if "race" in checks or "memory" in checks:
        _C._watch("race" in checks, "memory" in checks)
    if "race" in checks:
        from torch_npu import _host_reads

        _host_reads.watch()


def register() -> None:
    torch.utils.rename_privateuse1_backend("npu")
    from torch_npu import npu
    from torch_npu.npu import _spread

    _spread.supply()
    torch._register_device_module("npu", npu)
    torch.utils.generate_methods_for_privateuse1_backend(for_storage=True)
    # Lazy modules move before their parameters have sizes: .npu() is one of the methods allowed then, as .cuda() is.
    torch.nn.parameter.UninitializedTensorMixin._allowed_methods.append(torch.Tensor.npu)
    from torch_npu import _compile, _fake, _higher_order

    _higher_order.register()
    _compile.register()
    _fake.register()
    from torch_npu import _dlpack, _hints
    from torch_npu._when_imported import WhenImported
    from torch_npu.multiprocessing import reductions

    _dlpack.register()
    reductions.register()
    torch.version.__getattr__ = _version
    _hints.install()
    _hints.warn_of_variables()
    for name in ("lightning.pytorch", "pytorch_lightning"):  # behind accelerators and strategies, before a Trainer
        WhenImported(f"{name}.trainer.connectors.accelerator_connector", _register_with_lightning)
    sys.meta_path.append(_Torchair)
    atexit.register(_exit)
    multiprocessing.util.register_after_fork(sys.modules[__name__], _in_child)
    if multiprocessing.parent_process() is not None:
        _in_child(None)
    if torch.distributed.is_available():
        from torch_npu import distributed

        distributed._register()


def name_root(package: str) -> None:
    """ASCEND_HOME_PATH, if no variable names a toolkit: the root in use.

    On an Ascend server set_env.sh has set it, and frameworks that build operators read it while they are imported,
    unasked whether it is there. csrc/cann/root.cpp knows its own root, so that child processes decide as this one does.
    """
    if os.environ.get("ASCEND_HOME_PATH") or os.environ.get("ASCEND_TOOLKIT_HOME"):
        return
    choice = os.environ.get("ANYCEND_CANN", "auto")
    root = os.path.join(os.path.abspath(package), "softnpu") if choice in ("", "auto", "soft") else choice
    if os.path.isdir(root):
        os.environ["ASCEND_HOME_PATH"] = root


def transfer_if_asked() -> None:
    """TORCH_TRANSFER_TO_NPU=1: as if the script imported torch_npu.contrib.transfer_to_npu first."""
    asked = os.environ.get("TORCH_TRANSFER_TO_NPU") or "0"
    if asked not in ("0", "1"):
        raise ValueError(f"npu: TORCH_TRANSFER_TO_NPU={asked} is neither 0 nor 1")
    if asked == "1":
        from torch_npu.contrib import transfer_to_npu  # noqa: F401


def profile_if_asked() -> None:
    """PROF_CONFIG_PATH=folder: torch_npu.profiler.dynamic_profile without a line in the program."""
    if folder := os.environ.get("PROF_CONFIG_PATH"):
        from torch_npu.profiler import dynamic_profile

        dynamic_profile.from_environment(folder)


def compare_if_asked() -> None:
    """ANYCEND_COMPARE=folder, set by `anycend compare`: operators are compared with the CPU until the process ends."""
    if folder := os.environ.get("ANYCEND_COMPARE"):
        from torch_npu.utils.compare import program

        program.begin(folder)

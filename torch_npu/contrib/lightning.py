"""Lightning's Trainer on the NPU: Trainer(accelerator="npu", devices=2, strategy="ddp", precision="16-mixed").

Nothing need be imported: importing lightning.pytorch (or pytorch_lightning, the first of the two in a process) after
torch registers the accelerator "npu" and, for each of Lightning's ddp strategies, one whose name begins with "npu_".
Lightning has no entry point for accelerators, and where it decides by the names of devices it takes an unknown one for
the CPU or for CUDA. Three decisions of its connector are therefore made here when the accelerator is the NPU:

    strategy    "auto" on one device trains there; the name of a ddp strategy means the one of the NPU
    precision   "16-mixed" and "bf16-mixed" are autocast and GradScaler of the NPU; so they are for a
                SingleDeviceStrategy there with somebody's own accelerator: Lightning takes CUDA's, which do nothing
    refused     a DDPStrategy object, which would open a stream of CUDA: use NPUDDPStrategy

Not there: Lightning's FSDP, DeepSpeed and bitsandbytes, which it allows for CUDA alone, and Fabric. Raises ImportError
where Lightning is not installed. Source: Lightning 2.6, tests/clients.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from typing import Any

import torch
from torch.nn.parallel import DistributedDataParallel

PACKAGES = ("lightning.pytorch", "pytorch_lightning")
CONNECTOR = "trainer.connectors.accelerator_connector"
_PACKAGE = next(
    (name for name in PACKAGES if f"{name}.{CONNECTOR}" in sys.modules),
    PACKAGES[0] if importlib.util.find_spec("lightning") else PACKAGES[1],
)


def _part(name: str) -> Any:
    return importlib.import_module(f"{_PACKAGE}.{name}")


_accelerators, _strategies = _part("accelerators"), _part("strategies")
_connector, _ddp = _part(CONNECTOR), _part("strategies.ddp")
MisconfigurationException = _part("utilities.exceptions").MisconfigurationException

__all__ = ["NPUAccelerator", "NPUDDPStrategy"]


class NPUAccelerator(_accelerators.Accelerator):
    """The NPUs of this process. devices: a number, "auto" or -1 for all, a list of numbers, or such a text ("0,2")."""

    def setup_device(self, device: torch.device) -> None:
        """Raises MisconfigurationException for a device that is no npu."""
        if device.type != "npu":
            raise MisconfigurationException(
                f"NPUAccelerator was given the device {device}: a strategy object names its device, such as "
                'SingleDeviceStrategy("npu:0")'
            )
        torch.npu.set_device(device)

    def teardown(self) -> None:
        torch.npu.empty_cache()

    def get_device_stats(self, device: Any) -> dict[str, Any]:
        """torch.npu.memory_stats: bytes and counts, by name."""
        return torch.npu.memory_stats(device)

    @staticmethod
    def parse_devices(devices: int | str | list[int]) -> list[int]:
        """The devices' numbers. Raises MisconfigurationException for one that does not exist or is named twice."""
        count = torch.npu.device_count()
        try:
            if isinstance(devices, str):
                words = devices.split(",")
                chosen = [int(word) for word in words if word.strip()] if len(words) > 1 else int(devices)
            else:
                chosen = devices
            chosen = list(range(count if chosen == -1 else chosen)) if isinstance(chosen, int) else list(chosen)
        except (TypeError, ValueError):
            chosen = []
        wrong = [number for number in chosen if not isinstance(number, int) or not 0 <= number < count]
        if not chosen or wrong or len(set(chosen)) < len(chosen):
            raise MisconfigurationException(
                f"devices={devices!r} does not name NPUs of this machine, each once; it has {count}"
            )
        return chosen

    @staticmethod
    def get_parallel_devices(devices: list[int]) -> list[torch.device]:
        return [torch.device("npu", number) for number in devices]

    @staticmethod
    def auto_device_count() -> int:
        return torch.npu.device_count()

    @staticmethod
    def is_available() -> bool:
        return torch.npu.is_available()

    @staticmethod
    def name() -> str:
        return "npu"

    @classmethod
    def register_accelerators(cls, accelerator_registry: Any) -> None:
        accelerator_registry.register(cls.name(), cls, description="Ascend NPU", override=True)


class NPUDDPStrategy(_strategies.DDPStrategy):
    """Lightning's DDPStrategy with its arguments; the backend is "hccl"."""

    def _setup_model(self, model: torch.nn.Module) -> DistributedDataParallel:
        return DistributedDataParallel(module=model, device_ids=self.determine_ddp_device_ids(), **self._ddp_kwargs)

    def _register_ddp_hooks(self) -> None:
        _ddp._register_ddp_comm_hook(
            model=self.model, ddp_comm_state=self._ddp_comm_state, ddp_comm_hook=self._ddp_comm_hook,
            ddp_comm_wrapper=self._ddp_comm_wrapper,
        )  # fmt: skip

    @classmethod
    def register_strategies(cls, strategy_registry: Any) -> None:
        """One for each of DDPStrategy's names."""
        for name, entry in list(strategy_registry.items()):
            if entry["strategy"] is _strategies.DDPStrategy:
                strategy_registry.register(
                    f"npu_{name}", cls, description=f"{name} on NPUs", override=True, **entry["init_params"]
                )


_Connector = _connector._AcceleratorConnector
_theirs = {
    name: getattr(_Connector, name)
    for name in ("_choose_strategy", "_check_strategy_and_fallback", "_check_and_init_precision")
}


def _on_npu(connector: Any) -> bool:
    return isinstance(connector.accelerator, NPUAccelerator)


def _choose_strategy(self: Any) -> Any:
    if _on_npu(self) and self._num_nodes_flag == 1 and len(self._parallel_devices) == 1:
        return _strategies.SingleDeviceStrategy(device=self._parallel_devices[0])
    return _theirs["_choose_strategy"](self)


def _check_strategy_and_fallback(self: Any) -> None:
    _theirs["_check_strategy_and_fallback"](self)
    flag = self._strategy_flag
    if not _on_npu(self):
        return
    if isinstance(flag, str) and f"npu_{flag}" in _strategies.StrategyRegistry:
        self._strategy_flag = f"npu_{flag}"
    elif type(flag) is _strategies.DDPStrategy:
        raise MisconfigurationException(
            "DDPStrategy opens a stream of CUDA: on NPUs pass torch_npu.contrib.lightning.NPUDDPStrategy, which takes "
            'the same arguments, or strategy="ddp"'
        )


def _check_and_init_precision(self: Any) -> Any:
    mixed = self._precision_flag in ("16-mixed", "bf16-mixed") and self._precision_plugin_flag is None
    single = isinstance(self.strategy, _strategies.SingleDeviceStrategy) and self.strategy.root_device.type == "npu"
    if not (mixed and (_on_npu(self) or single)):
        return _theirs["_check_and_init_precision"](self)
    self._validate_precision_choice()
    return _connector.MixedPrecision(self._precision_flag, "npu")


for _replacement in (_choose_strategy, _check_strategy_and_fallback, _check_and_init_precision):
    setattr(_Connector, _replacement.__name__, _replacement)
NPUAccelerator.register_accelerators(_accelerators.AcceleratorRegistry)
NPUDDPStrategy.register_strategies(_strategies.StrategyRegistry)

"""The vendor's torch_npu owns the same module name: where both are installed, two packages lie in one folder."""

from __future__ import annotations

import os


def refuse_beside_vendor(package: str) -> None:
    """An ImportError with the remedy, before a library of the wrong one is loaded."""
    site = os.path.dirname(os.path.abspath(package))
    for name in os.listdir(site):
        if name.startswith("torch_npu-") and name.endswith(".dist-info"):
            raise ImportError(
                f"{site} has two packages of the module torch_npu: anycend and the vendor's ({name[:-10]}). "
                "Remove both with `pip uninstall anycend torch-npu`, then install the one you want; the vendor's runs "
                "on the software NPU with `pip install anycend-softnpu`"
            )

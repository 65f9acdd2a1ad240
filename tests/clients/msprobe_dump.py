"""One step of a model under msprobe's dump: python -m tests.clients.msprobe_dump DEVICE LEVEL FOLDER [TASK] [overflow]

Not a training program of clients.yaml: tests/clients/test_msprobe.py starts it and looks at the files.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch


def made(overflow: bool = False) -> tuple[torch.nn.Module, torch.Tensor, torch.Tensor]:
    """The model and its data, on the CPU. `overflow`: finite weights whose sums are infinite, in the second layer."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.GELU(), torch.nn.Linear(5, 3))
    x, y = torch.randn(4, 6), torch.randn(4, 3)
    if overflow:
        torch.nn.init.constant_(model[0].bias, 5)
        torch.nn.init.constant_(model[2].weight, 3e38)
    return model, x, y


def main(device: str, level: str, folder: Path, task: str, overflow: bool) -> None:
    from msprobe.pytorch import PrecisionDebugger

    model, x, y = (one.to(device) for one in made(overflow))
    # Of level L2 the list names the one call whose kernels are dumped.
    chosen = {"scope": [], "list": ["Functional.linear.0.forward"] if level == "L2" else [], "data_mode": ["all"]}
    settings = {"task": task, "dump_path": str(folder / "dump"), "rank": [], "step": [], "level": level}
    file = folder / "config.json"
    file.write_text(json.dumps({**settings, task: chosen}), encoding="utf-8")
    debugger = PrecisionDebugger(config_path=str(file))
    debugger.start(model=model)
    torch.nn.functional.mse_loss(model(x), y).backward()
    debugger.stop()
    debugger.step()


if __name__ == "__main__":
    task, *more = sys.argv[4:] or ["tensor"]
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), task, more == ["overflow"])

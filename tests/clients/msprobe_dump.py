"""One step of a model under msprobe's dump: python -m tests.clients.msprobe_dump DEVICE LEVEL FOLDER

Not a training program of clients.yaml: tests/clients/test_msprobe.py starts it and looks at the files.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch
from msprobe.pytorch import PrecisionDebugger


def main(device: str, level: str, folder: Path) -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.GELU(), torch.nn.Linear(5, 3)).to(device)
    x, y = torch.randn(4, 6).to(device), torch.randn(4, 3).to(device)
    # Of level L2 the list names the one call whose kernels are dumped.
    chosen = {"scope": [], "list": ["Functional.linear.0.forward"] if level == "L2" else [], "data_mode": ["all"]}
    settings = {"task": "tensor", "dump_path": str(folder / "dump"), "rank": [], "step": [], "level": level}
    file = folder / "config.json"
    file.write_text(json.dumps({**settings, "tensor": chosen}), encoding="utf-8")
    debugger = PrecisionDebugger(config_path=str(file))
    debugger.start(model=model)
    torch.nn.functional.mse_loss(model(x), y).backward()
    debugger.stop()
    debugger.step()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))

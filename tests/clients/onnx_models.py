"""Models on a device, exported to ONNX by either exporter, against ONNX Runtime. Run by test_onnx.py:

    python -m tests.clients.onnx_models DEVICE dynamo|script MODEL ...

Prints a row for each: the model, its number of nodes, the largest difference from the device's own result.
"""

from __future__ import annotations

import sys
import tempfile
import warnings
from pathlib import Path

import onnx
import onnxruntime
import torch
from torch import nn

from bench.models import GPT, LSTM, MLP, QuickStartCNN, ResNet18

MODELS = {
    "MLP": (lambda: MLP(32), lambda n: torch.randn(n, 1, 28, 28)),
    "CNN": (QuickStartCNN, lambda n: torch.randn(n, 1, 28, 28)),
    "ResNet18": (ResNet18, lambda n: torch.randn(n, 3, 64, 64)),
    "GPT": (lambda: GPT(64, 32, 16, 2, 4), lambda n: torch.randint(64, (n, 16))),
    "LSTM": (lambda: LSTM(16, 24), lambda n: torch.randn(n, 12, 16)),
    "half": (lambda: nn.Sequential(nn.Linear(16, 8), nn.GELU()).half(), lambda n: torch.randn(n, 16).half()),
}


def exported(model: nn.Module, x: torch.Tensor, file: Path, dynamo: bool) -> None:
    rows = {0: torch.export.Dim("rows", min=1, max=64)}
    free = {"dynamic_shapes": (rows,)} if dynamo else {"dynamic_axes": {"x": {0: "rows"}, "y": {0: "rows"}}}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the older exporter's: it is deprecated
        torch.onnx.export(
            model, (x,), file, input_names=["x"], output_names=["y"], dynamo=dynamo, verbose=False, **free
        )


def main(device: str, exporter: str, *names: str) -> None:
    for name in names:
        make, data = MODELS[name]
        torch.manual_seed(0)
        model, x, other = make().to(device).eval(), data(4).to(device), data(7).to(device)
        with torch.no_grad(), tempfile.TemporaryDirectory() as folder:
            exported(model, x, file := Path(folder) / "model.onnx", exporter == "dynamo")
            onnx.checker.check_model(file)
            session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
            differences = []
            for given in (x, other):
                (result,) = session.run(None, {"x": given.cpu().numpy()})
                wanted = model(given).float().cpu()
                differences.append((torch.from_numpy(result).float() - wanted).abs().max() / wanted.abs().max())
            nodes = len(onnx.load(file).graph.node)
            assert next(model.parameters()).device.type == device  # it stays where it was
        print(name, nodes, float(max(differences)), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])

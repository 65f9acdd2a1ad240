"""Is an NPU there, and does it compute? The first thing to run on a new machine.

    python examples/verify/verify.py

Each device adds, multiplies matrices and trains one step; the results are compared with the CPU's. Exit code 1 if one
differs. What is wrong with an environment where this does not start: `anycend doctor`.
"""

import argparse
import sys

import torch
import torch.nn as nn

import torch_npu


def difference(found: torch.Tensor, right: torch.Tensor) -> float:
    """The largest, relative to the largest right value."""
    return ((found.cpu().double() - right.double()).abs().max() / right.double().abs().max()).item()


def gradient(device: str) -> torch.Tensor:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 14 * 14, 10))
    images, labels = torch.randn(4, 3, 16, 16), torch.arange(4)
    model.to(device)
    nn.functional.cross_entropy(model(images.to(device)), labels.to(device)).backward()
    return model[0].weight.grad


def main() -> int:
    print(f"torch {torch.__version__}, torch_npu {torch_npu.__version__}, {torch.npu.device_count()} devices")
    worst = 0.0
    a, b = torch.randn(3, 4), torch.randn(3, 4)
    m, n = torch.randn(64, 64), torch.randn(64, 64)
    for index in range(torch.npu.device_count()):
        device = f"npu:{index}"
        differences = {
            "a + b": difference(a.to(device) + b.to(device), a + b),
            "m @ n": difference(m.to(device) @ n.to(device), m @ n),
            "a step's gradient": difference(gradient(device), gradient("cpu")),
        }
        print(
            f"{device} {torch.npu.get_device_name(index)}: " + ", ".join(f"{k} {v:.0e}" for k, v in differences.items())
        )
        worst = max(worst, *differences.values())
    right = torch.npu.device_count() > 0 and worst < 1e-4
    print("right" if right else "WRONG: no device, or one that computes something else than the CPU")
    return 0 if right else 1


if __name__ == "__main__":
    argparse.ArgumentParser(description="Is an NPU there, and does it compute?").parse_args()
    sys.exit(main())

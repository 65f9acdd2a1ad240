"""Train a small network on the NPU with whatever torch_npu is here, and compare with the CPU.

    python trained.py [libraries]      libraries: libopapi is loaded before torch is imported

Prints the largest difference of a loss, and how many copies of torch's library the process has: one.
"""

import ctypes
import sys
from pathlib import Path


def main() -> None:
    if sys.argv[1:] == ["libraries"]:
        (package,) = (Path(p) / "softnpu" for p in sys.path if (Path(p) / "softnpu" / "lib64").is_dir())
        ctypes.CDLL(str(package / "lib64" / "libopapi.so"))
        assert "torch" not in sys.modules
    import torch

    def losses(device: str) -> list[float]:
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 3)).to(device)
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
        x, y = torch.randn(32, 8).to(device), torch.randint(3, (32,)).to(device)
        found = []
        for _ in range(5):
            loss = torch.nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            found.append(loss.item())
        return found

    cpu, npu = losses("cpu"), losses("npu")
    assert cpu[-1] < cpu[0], cpu
    maps = Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()
    copies = {line.split()[4] for line in maps if line.endswith("libtorch_cpu.so")}  # inodes
    print("DIFFERENCE", max(abs(a - b) for a, b in zip(cpu, npu, strict=True)), "COPIES", len(copies))


if __name__ == "__main__":
    main()

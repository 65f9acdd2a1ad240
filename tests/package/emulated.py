"""What is tried of a build for another processor, without pytest: under an emulator that is too slow.

    python emulated.py sum               import torch, a + a
    python emulated.py step              one step of a CNN: the parameters equal the CPU's
    python emulated.py kernel LIBRARY        emulated.asc, compiled
    python emulated.py reduce PYTHON     all_reduce of two ranks; PYTHON is the command for another Python, a JSON list
    python emulated.py rank RANK PORT    one of them

tools/dev/aarch64.py runs it. It imports nothing of the tests.
"""

from __future__ import annotations

import ctypes
import json
import os
import platform
import socket
import subprocess
import sys

import torch


def sum() -> None:
    a = torch.arange(4.0, device="npu")
    assert (a + a).tolist() == [0, 2, 4, 6]
    print(platform.machine(), torch.__version__, a + a)


def stepped(device: str) -> list[torch.Tensor]:
    torch.manual_seed(1)
    model = torch.nn.Sequential(
        torch.nn.Conv2d(1, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
        torch.nn.Flatten(), torch.nn.Linear(36, 10),
    ).to(device)  # fmt: skip
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    images, labels = torch.randn(16, 1, 8, 8).to(device), torch.arange(16).remainder(10).to(device)
    loss = torch.nn.functional.cross_entropy(model(images), labels)
    loss.backward()
    optimizer.step()
    return [loss.detach().cpu(), *(parameter.detach().cpu() for parameter in model.parameters())]


def step() -> None:
    got, expected = stepped("npu"), stepped("cpu")
    torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-5)
    assert torch.npu.fallback_counts() == {}, torch.npu.fallback_counts()
    print("a step of a CNN: loss", got[0].item(), "on the NPU,", expected[0].item(), "on the CPU, no fallback")


def kernel(library: str) -> None:
    tiles = 5
    x, y = torch.randn(2, tiles * 1024).half().npu()
    z = torch.empty_like(x)
    stream = ctypes.c_void_p(torch.npu.current_stream().npu_stream)
    addresses = [ctypes.c_void_p(tensor.data_ptr()) for tensor in (x, y, z)]
    ctypes.CDLL(library).scaled_npu(ctypes.c_uint32(2), stream, *addresses, ctypes.c_uint32(tiles))
    torch.npu.synchronize()
    assert torch.equal(z.cpu(), x.cpu() * y.cpu() + y.cpu())
    print("a kernel in Ascend C:", z.numel(), "halves")


def rank(number: str, port: str) -> None:
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=port, RANK=number, WORLD_SIZE="2", LOCAL_RANK=number)
    torch.npu.set_device(int(number))
    torch.distributed.init_process_group("hccl")
    for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.int32):
        for size in (3, 100_000):
            values = torch.full((size,), int(number) + 1, dtype=dtype, device="npu")
            torch.distributed.all_reduce(values)
            assert bool((values == 3).all()), (dtype, size, values)
    torch.distributed.destroy_process_group()


def reduce(python: str) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    ranks = [subprocess.Popen([*json.loads(python), __file__, "rank", str(n), port]) for n in range(2)]
    assert [process.wait() for process in ranks] == [0, 0]
    print("all_reduce of two ranks: float32, float16, bfloat16, int32, of 3 and 100000 elements")


if __name__ == "__main__":
    {"sum": sum, "step": step, "kernel": kernel, "reduce": reduce, "rank": rank}[sys.argv[1]](*sys.argv[2:])

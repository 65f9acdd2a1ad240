"""AscendC kernels compiled by `bisheng` against ATen's kernels of the CPU: Add, Mul and Exp of floats.

Each in two ways: a block takes one part of the vector, or blocks take tiles in turn.

    python bench/kernels.py [--rounds 15] [--elements 1048576,16777216] [--only Mul]

Both run on the same numbers in turns, with as many threads; a kernel's time is from its launch to the end of the
stream's work. Nothing is asserted but that the results agree.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:] = [entry for entry in sys.path if entry not in ("", str(ROOT), str(ROOT / "bench"))] + [str(ROOT)]

import torch  # noqa: E402

from bench import timing  # noqa: E402

KERNEL = """
extern "C" __global__ __aicore__ void bench_{name}(GM_ADDR x, GM_ADDR y, GM_ADDR z, uint32_t total) {{
  TPipe pipe;
  TQue<TPosition::VECIN, 2> in_x, in_y;
  TQue<TPosition::VECOUT, 2> out;
  pipe.InitBuffer(in_x, 2, kTile * sizeof(float));
  pipe.InitBuffer(in_y, 2, kTile * sizeof(float));
  pipe.InitBuffer(out, 2, kTile * sizeof(float));
  GlobalTensor<float> gx, gy, gz;
  gx.SetGlobalBuffer((__gm__ float*)x);
  gy.SetGlobalBuffer((__gm__ float*)y);
  gz.SetGlobalBuffer((__gm__ float*)z);
  {tiles} {{
    const uint32_t n = end - i < kTile ? end - i : kTile;
    const DataCopyExtParams piece(1, n * sizeof(float), 0, 0, 0);
    auto a = in_x.AllocTensor<float>(), b = in_y.AllocTensor<float>();
    DataCopyPad(a, gx[i], piece, DataCopyPadExtParams<float>());
    DataCopyPad(b, gy[i], piece, DataCopyPadExtParams<float>());
    in_x.EnQue(a);
    in_y.EnQue(b);
    a = in_x.DeQue<float>();
    b = in_y.DeQue<float>();
    auto c = out.AllocTensor<float>();
    {call};
    out.EnQue(c);
    in_x.FreeTensor(a);
    in_y.FreeTensor(b);
    c = out.DeQue<float>();
    DataCopyPad(gz[i], c, piece);
    out.FreeTensor(c);
  }}
}}
"""
HEAD = '#include "kernel_operator.h"\nusing namespace AscendC;\nconstexpr uint32_t kTile = 4096;\n'
BLOCKS = 8
TILES = {
    "": """
  const uint32_t part = (total + GetBlockNum() - 1) / GetBlockNum(), begin = GetBlockIdx() * part;
  const uint32_t end = total - begin < part ? total : begin + part;
  for (uint32_t i = begin; i < end; i += kTile)""",
    "_turns": """
  const uint32_t end = total;
  for (uint32_t i = GetBlockIdx() * kTile; i < end; i += GetBlockNum() * kTile)""",
}
CALLS: dict[str, tuple[str, Callable[..., torch.Tensor]]] = {
    "Add": ("Add(c, a, b, n)", torch.add),
    "Mul": ("Mul(c, a, b, n)", torch.mul),
    "Exp": ("Exp(c, a, n)", lambda x, y, out: torch.exp(x, out=out)),
}


def library(folder: Path) -> ctypes.CDLL:
    import torch_npu

    bisheng = Path(torch_npu.__file__).parent / "softnpu" / "bin" / "bisheng"
    source = folder / "kernels.asc"
    kernels = [
        KERNEL.format(name=name + way, call=call, tiles=tiles)
        for name, (call, _) in CALLS.items()
        for way, tiles in TILES.items()
    ]
    source.write_text(HEAD + "".join(kernels))
    made = folder / "libkernels.so"
    subprocess.run([sys.executable, bisheng, "-shared", "-fPIC", source, "-o", made], check=True)
    return ctypes.CDLL(str(made))


def launched(launch: Callable[..., int], *arguments: object) -> None:
    if code := launch(*arguments):
        raise RuntimeError(f"the launch was refused with {code}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--elements", default=f"{1 << 20},{1 << 24}")
    parser.add_argument("--only", default="", help="a regular expression")
    options = parser.parse_args()
    torch.set_num_threads(min(len(os.sched_getaffinity(0)), BLOCKS))
    with tempfile.TemporaryDirectory(prefix="anycend-bench-") as folder:
        kernels = library(Path(folder))
        stream = ctypes.c_void_p(torch.npu.current_stream().npu_stream)
        print(f"{'ms':24}{'kernel':>11}{'ATen':>11}{'ratio':>9}")
        for total in map(int, options.elements.split(",")):
            x, y, z = torch.rand(total), torch.rand(total), torch.empty(total)
            tensors = x.npu(), y.npu(), torch.empty(total, device="npu")
            pointers = [ctypes.c_void_p(t.data_ptr()) for t in tensors]
            for name, aten in ((name + way, aten) for name, (_, aten) in CALLS.items() for way in TILES):
                if not re.search(options.only, name, re.I):
                    continue
                launch = getattr(kernels, f"aclrtlaunch_bench_{name}")
                ours = partial(launched, launch, ctypes.c_uint32(BLOCKS), stream, *pointers, ctypes.c_uint32(total))
                repeat = max(1, (1 << 29) // total)  # OpenMP's threads look for work for some 10 ms
                result = timing.compare(
                    ours, partial(aten, x, y, out=z), torch.npu.synchronize, repeat=repeat, rounds=options.rounds
                )
                torch.testing.assert_close(tensors[2].cpu(), z, rtol=1e-6, atol=0)
                row = f"{result.ours * 1e3:11.2f}{result.theirs * 1e3:11.2f}{result.ratio:9.2f}"
                print(f"{f'{name}, {total} floats':24}{row}", flush=True)


if __name__ == "__main__":
    main()

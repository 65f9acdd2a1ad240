"""What the fused operators gain: training steps with them against the same steps composed of PyTorch's operators.

    python bench/fused.py [--rounds 9] [--only llama]

GPT-2 style: scaled_dot_product_attention and cross_entropy as they are dispatched, against PyTorch's composed forms
(SDPBackend.MATH; log_softmax and nll_loss). BERT style: the same with masked padding and dropout. LLaMA: npu_rms_norm,
npu_rotary_mul, npu_fusion_attention and npu_swiglu against the formulas of their pages. Then the step with the fused
operators against the CPU's. Speed: above 1 the fused side is quicker; nothing is asserted.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from unittest import mock

ROOT = Path(__file__).resolve().parents[1]
sys.path[:] = [entry for entry in sys.path if entry not in ("", str(ROOT), str(ROOT / "bench"))] + [str(ROOT)]

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn.attention import SDPBackend, sdpa_kernel  # noqa: E402

from bench import timing  # noqa: E402
from bench.models import FULL, Workload, adamw, text, token_loss  # noqa: E402
from bench.training import step  # noqa: E402
from tests.training import parts  # noqa: E402
from tests.training.language import Llama  # noqa: E402


class Bert(nn.Module):
    """Sequences of which the last quarter is padding, and dropout."""

    def __init__(self, vocabulary: int = 512, width: int = 256, layers: int = 4, heads: int = 8) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(width, heads, 4 * width, 0.1, "gelu", batch_first=True)
        self.words = nn.Embedding(vocabulary, width)
        self.layers = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        padded = torch.arange(ids.shape[1], device=ids.device).expand(ids.shape) >= ids.shape[1] * 3 // 4
        return self.head(self.layers(self.words(ids), src_key_padding_mask=padded))


BERT = Workload(Bert, text(8, 128, 512), token_loss, adamw)
LLAMA = Workload(lambda: Llama(512, 256, layers=4), text(8, 128, 512), token_loss, adamw)


def loss_of_parts(logits: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return F.nll_loss(F.log_softmax(logits, -1), target)


@contextmanager
def composed():
    with sdpa_kernel(SDPBackend.MATH), mock.patch.object(F, "cross_entropy", loss_of_parts):
        yield


@contextmanager
def formulas():
    parts.formulas_everywhere = True
    try:
        yield
    finally:
        parts.formulas_everywhere = False


# Name → the workload, and what composes it of PyTorch's operators.
CASES: dict[str, tuple[Workload, Callable[[], AbstractContextManager]]] = {
    "GPT-2 style": (FULL["GPT-2 style"], composed),
    "BERT style": (BERT, composed),
    "LLaMA style": (LLAMA, formulas),
}


def waited(run: Callable[[], None], around: Callable[[], AbstractContextManager] = nullcontext) -> Callable[[], None]:
    def one() -> None:
        with around():
            run()
            torch.npu.synchronize()

    return one


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    print(f"{'ms a step':42}{'fused':>10}{'other':>10}{'speed':>8}")
    for name, (workload, parts_of_it) in CASES.items():
        if not re.search(options.only, name, re.I):
            continue
        torch.manual_seed(0)
        model = workload.make()
        for precision, dtype in {"fp32": None, "bf16": torch.bfloat16, "fp16": torch.float16}.items():
            fused = waited(step(workload, model, "npu", dtype))
            cpus = None if dtype == torch.float16 else dtype  # nobody trains in fp16 on a CPU
            others = {
                "composed": waited(step(workload, model, "npu", dtype), parts_of_it),
                "CPU": step(workload, model, "cpu", cpus),
            }
            for against, other in others.items():
                result = timing.compare(fused, other, torch.npu.synchronize, repeat=1, rounds=options.rounds)
                title = f"{name}, {precision}, against {against}"
                print(
                    f"{title:42}{result.ours * 1e3:10.1f}{result.theirs * 1e3:10.1f}{1 / result.ratio:8.2f}", flush=True
                )


if __name__ == "__main__":
    main()

"""docs/training.md: networks that were trained on the NPU, from tests/training/record.yaml; gen_docs.py writes it."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from tools.codegen import tables

ROOT = Path(__file__).resolve().parents[2]


def allowed() -> dict[str, float]:
    """ALLOWED of tests/training/zoo.py, which needs torch to be imported."""
    text = (ROOT / "tests" / "training" / "zoo.py").read_text(encoding="utf-8")
    return ast.literal_eval(re.search(r"^ALLOWED = (\{.*\})$", text, re.M)[1])


def grouped() -> list[str]:
    """The section with GroupedMatmul of tests/training/parts.py, as the networks have it."""
    text = (ROOT / "tests" / "training" / "parts.py").read_text(encoding="utf-8")
    (found,) = (node for node in ast.parse(text).body if getattr(node, "name", "") == "GroupedMatmul")
    return [
        "",
        "## A gradient for grouped products",
        "",
        "`npu_grouped_matmul` has none here, as it has none in Huawei's package: `loss.backward()` says",
        "`derivative for npu::npu_grouped_matmul is not implemented`. Both of its gradients are grouped products",
        "again, as frameworks write them:",
        "",
        "```python",
        "import torch, torch_npu",
        "",
        "",
        *ast.get_source_segment(text, found).splitlines(),
        "```",
    ]


def line(name: str, precision: str, what: dict) -> str:
    first, last, cpu = what["loss"]
    seconds = ", ".join(f"{of:g}" for of in what.get("seconds", ())) or "–"
    fell = ", ".join(f"{name} ×{count}" for name, count in what["fallbacks"].items()) or "none"
    loss = f"{first:g} → {last:g} | {cpu:g} | {what['difference']:.1e}"
    return f"| {name} | {precision} | {loss} | {fell} | {seconds} |"


def page() -> str:
    record = tables.load(ROOT / "tests" / "training" / "record.yaml")
    lines = [
        "# Networks trained on the NPU",
        "",
        "Small networks with the structure of the published ones ([vision.py](../tests/training/vision.py),",
        "[language.py](../tests/training/language.py)), trained for 20 steps on the NPU and on the CPU from the same",
        "weights: the last run of `python -m tests.training.record`, whose record this shows.",
        "LLaMA and Mixtral call `npu_rms_norm`, `npu_rotary_mul`, `npu_fusion_attention` and `npu_swiglu`, Mixtral",
        "`npu_moe_token_permute`, `npu_grouped_matmul` and `npu_moe_token_unpermute`, too; the CPU computes the",
        "formulas of their pages instead. Elsewhere the code is the same on both devices. `npu_grouped_matmul` has no",
        "gradient; the networks wrap it, [below](#a-gradient-for-grouped-products).",
        "",
        "The difference is the largest of any step's loss, relative to the CPU's in the same precision or, near zero,",
        "to a tenth of the first. `bf16 weights` is `model.bfloat16()`; with `fp32 copies` the optimizer works on",
        "single precision copies and the loss is scaled; `fp16 autocast` has a GradScaler. The test allows",
        f"{', '.join(f'{limit:.1%} ({name})' for name, limit in allowed().items())}.",
        "Both devices round every layer to 16 bits, but not the same way, and the differences feed back through the",
        "weights: compare the last loss with that of fp32. Worry where it is off by more than the CPU's in the same",
        "precision, or where fp32 itself differs by more than 1e-3. Seconds are those of the 20 steps on the NPU and",
        "on the CPU; – is not measured.",
        "",
        "| network | precision | loss | CPU's last | difference | fallbacks | seconds |",
        "|---|---|---|---|---|---|---|",
        *(line(name, precision, what) for name, rows in record.items() for precision, what in rows.items()),
    ]
    return "\n".join([*lines, *grouped()]) + "\n"

"""What rows of ops/aten.yaml with `compose:` have besides: the kernel of the CPU for pointwise ones, outputs apart from
inputs. Who uses it: aten_calls.py, aten_wrapper.py, aten.py."""

from __future__ import annotations

from aten_operator import Operator
from torchgen.model import NativeFunction


def on_processor(w: Operator) -> list[str]:
    """Pointwise: PyTorch's kernel of the CPU, where the NPU's memory is the processor's (composed/processor.h)."""
    if not w.row.compose or not w.is_pointwise or w.row.traps:
        return []
    tensors = w.tensors()
    numbers = [b.name for b in w.inputs if b.name not in tensors]
    given = [f"ins[{tensors.index(b.name)}]" if b.name in tensors else b.name for b in w.inputs]
    kernel = f"[{', '.join(numbers)}](Tensors& outs, const Tensors& ins)"
    name, outs, ins = w.base.root_name, ", ".join(w.outputs), ", ".join(tensors)
    return [
        "if (has_processor_kernels()) {",
        f'  run_on_processor("{name}", {{{outs}}}, {{{ins}}}, {kernel} {{',
        f"    at::cpu::{name}_outf({', '.join([*given, 'outs[0]'])});",
        "  });",
        "  return;",
        "}",
    ]


def apart(w: Operator, kind: str, f: NativeFunction) -> str:
    """PyTorch's compositions write an output before they have read an input for the last time."""
    if kind != "out" or not w.is_native:
        return ""
    outs = [a.name for a in f.func.arguments.out]
    results = ["made"] if len(outs) == 1 else [f"std::get<{i}>(made)" for i in range(len(outs))]
    pairs = list(zip(outs, results, strict=True))
    shares = " || ".join(f"shares_memory({out}, {x})" for out in outs for x in w.tensors())
    lines = [f"const auto made = functional({w.pass_args()});"]
    lines += [f"check_output({out}, {result}.options());" for out, result in pairs]
    lines += [f"give_output({out}, {result});" for out, result in pairs]
    lines.append(f"return {outs[0] if len(outs) == 1 else '{' + ', '.join(outs) + '}'};")
    return f"  if ({shares}) {{\n" + "".join(f"    {line}\n" for line in lines) + "  }\n"

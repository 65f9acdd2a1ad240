"""The calls into CANN of a row of ops/aten.yaml, its arguments bound by name, and the composition where CANN has no
function. Who uses it: aten_wrapper.py, aten_foreach.py."""

from __future__ import annotations

import aten_composed
from abi import normal
from aten_operator import Operator
from aten_row import RowError

VARIANT_KEYS = {"if", "aclnn", "args"}
# What aclnn calls an argument whose ATen name differs: normalized aclnn name -> normalized ATen names, first match
# wins.
ALIASES = {
    "input": ["self"],
    "x": ["self"],
    "dims": ["dim"],
    "axis": ["dim"],
    "keepdims": ["keepdim"],
    "strides": ["stride"],
    "paddings": ["padding"],
    "gradoutput": ["gradout", "grad"],
    "gradout": ["gradoutput", "grad"],
    "dy": ["gradoutput"],
    "clipvaluemin": ["min"],
    "clipvaluemax": ["max"],
}
# The same for lists: aclnnForeach* number their operands.
FOREACH_ALIASES = {
    "x": ["self"],
    "x1": ["self"],
    "x2": ["other", "tensors1", "tensor1", "exponent"],
    "x3": ["tensor2"],
    "scalar": ["value", "exponent", "weight", "self"],
    "scalars": ["exponent"],
    "weight": ["weights"],
}


def bind(w: Operator, op: str, given: dict[str, str], replaced: dict[str, str]) -> str:
    """The call of `op`: an expression for each of its parameters, by name."""
    if op not in w.signatures:
        raise RowError(w.row, f"{op} is not in cann/abi/aclnn.yaml")
    names = {normal(b.name): b.name for b in w.inputs}
    outs = {normal(o): o for o in w.outputs}
    ordinal = iter(w.outputs)
    unused = set(given)
    exprs = []
    for p in w.signatures[op]:
        key = normal(p.name)
        candidates = [key, *w.aliases.get(key, [])]
        position = next(ordinal, None) if p.way in ("out", "inout") and "Tensor" in p.type else None
        source = next((names[c] for c in candidates if c in names), None)
        if p.name in given:
            unused.discard(p.name)
            expr = str(given[p.name])
        elif key in outs and not (source and p.way == "in"):
            expr = outs[key]
        elif position and (p.way == "out" or not source):
            expr = position
        elif source:
            expr = replaced.get(source, source)
        elif p.name == "cubeMathType":
            expr = "cube_math_type()"
        else:
            raise RowError(w.row, f"nothing to give to parameter `{p.name}` of {op}; name it in `args:`")
        if expr in w.row.int32:
            expr = f"{expr}_int32"
        exprs.append(expr)
    if unused:
        raise RowError(w.row, f"`args:` names {sorted(unused)}, which {op} does not have")
    return f"ACLNN({op})({', '.join(exprs)});"


def in_int32(w: Operator, call: str) -> list[str]:
    """The call, with operands converted before it and results after it: `int32:` of a row."""
    before, after = [], []
    for name, end in w.row.int32.items():
        make = "room_in_int32" if name in w.outputs else "in_int32"
        if f"{name}_int32" not in call:
            raise RowError(w.row, f"`int32:` names `{name}`, which the call does not have")
        before.append(f"const at::Tensor {name}_int32 = {make}({name}, {end});")
        if name in w.outputs:
            after.append(f"{name}.copy_({name}_int32);")
    return [*before, call, *after]


def calls(w: Operator) -> list[str]:
    out = []
    for v in w.row.variants:
        if set(v) - VARIANT_KEYS:
            raise RowError(w.row, f"unknown keys in a variant: {sorted(set(v) - VARIANT_KEYS)}")
        out.append(f"if ({v['if']}) {{ {bind(w, v['aclnn'], v.get('args', {}), {})} return; }}")
    for arg, op in w.row.scalar.items():
        others = [b.name for b in w.inputs if b.nctype.type.cpp_type() == "const at::Tensor &" and b.name != arg]
        given = {k: v for k, v in w.row.args.items() if any(p.name == k for p in w.signatures.get(op, []))}
        call = bind(w, op, given, {arg: f"number_of({arg})"})
        out.append(f"if (takes_number({', '.join([arg, *others])})) {{ {call} return; }}")
    if w.row.aclnn:
        out.extend(in_int32(w, bind(w, w.row.aclnn, w.row.args, {})))
    if w.row.compose and not w.is_native:
        out.extend(aten_composed.on_processor(w))
        out.append(f"give({w.row.compose}, {', '.join(w.outputs)});")
    return out

"""Data types of a row of ops/aten.yaml: the check of `types:` (of a composed operator, what phase one is to a function
of CANN: opapi_types.py has those), and operands given in their common type. Who uses it: aten_wrapper.py."""

from __future__ import annotations

import opapi_types
from aten_operator import Operator

# Of one tensor and numbers that take part in the type; others, as an alpha, do not.
PROMOTING_NUMBERS = {"lt", "le", "gt", "ge", "clamp", "clamp_min", "clamp_max", "pow"}
PROMOTING = {"Binary", "BinaryFloat", "Compare", "Ternary", "Addr"}  # of csrc/ops/meta.h: operands of several types


def check(w: Operator, pointwise: bool) -> str:
    """What phase one is to a function of CANN: a type that is not computed is refused before anything runs.
    Pointwise operators compute in their operands' common type, others in that of the first tensor, if it has
    elements.
    """
    if not w.row.types or pointwise != w.is_pointwise:
        return ""
    tensors, takes = w.tensors(), opapi_types.members(w.row.types)
    names = tensors if pointwise else tensors[:1]
    given = "op.common_dtype()" if pointwise else names[0]
    listed = ", ".join(f"at::ScalarType::{opapi_types.SCALAR_TYPES[name]}" for name in takes)
    return f'check_type("{w.base.root_name}", "{" and ".join(names)}", {given}, {{{listed}}});'


def promote(w: Operator, results: list[str]) -> str:
    """Pointwise, of several operands: those that CANN takes alone only are given in the common type. A number that
    becomes an aclScalar keeps its own.
    """
    operands = [b.name for b in w.inputs if b.nctype.type.cpp_type() == "const at::Tensor &"]
    inherits = w.group.out.structured_inherits if w.group else None
    own = (w.row.meta or "").split("(")[0] in PROMOTING
    numbers = [b.name for b in w.inputs if "at::Scalar" in b.nctype.type.cpp_type()]
    with_numbers = len(operands) == 1 and numbers and w.base.root_name in PROMOTING_NUMBERS
    of_tensors = len(operands) > 1 and (own or (inherits == "TensorIteratorBase" and not w.row.meta))
    if not (with_numbers or of_tensors):
        return ""
    promoted = {name: "promoted_tensor" if name in w.row.scalar else "promoted" for name in operands}
    given = ", ".join(
        [f"{promoted[b.name]}({b.name}, type)" if b.name in operands else b.name for b in w.inputs] + results
    )
    names = ", ".join(operands)
    type_of = f"common_type_of({names}, {{{', '.join(numbers)}}})" if with_numbers else f"common_type({{{names}}})"
    return (
        f"    if (C10_UNLIKELY(wants_promotion({names}))) {{\n"
        f"      const at::ScalarType type = {type_of};\n      call({given});\n    }} else\n"
    )

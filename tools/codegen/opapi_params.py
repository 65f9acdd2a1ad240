"""How an expression of ops/aclnn.yaml sees the parameters of its function."""

from __future__ import annotations

import re

import abi

# How a parameter of each C type is seen in an expression, given its index in the executor.
SEEN = {
    ("aclTensor", False): "const at::Tensor& {n} = frame.tensor({i});",
    ("aclTensor", True): "const std::optional<at::Tensor> {n} = frame.optional({i});",
    ("aclScalar", False): "const at::Scalar {n} = frame.scalar({i});",
    ("aclScalar", True): "const std::optional<at::Scalar> {n} = frame.optional_scalar({i});",
}
for kind, call in {
    "aclTensorList": "at::TensorList|tensors",
    "aclScalarList": "at::ArrayRef<at::Scalar>|scalars",
}.items():
    view, getter = call.split("|")
    for way in (False, True):
        SEEN[kind, way] = f"auto {{n}}_ = frame.{getter}({{i}}); const {view} {{n}}({{n}}_);"
for kind, call in {
    "aclIntArray": "at::IntArrayRef {n} = frame.ints",
    "aclFloatArray": "at::ArrayRef<float> {n} = frame.floats",
    "aclBoolArray": "at::ArrayRef<bool> {n} = frame.bools",
    "char": "std::string_view {n} = frame.string",
    "aclDataType": "at::ScalarType {n} = to_dtype(frame.integer",
    "bool": "bool {n} = frame.integer",
    "double": "double {n} = frame.real",
    "float": "double {n} = frame.real",
    **dict.fromkeys(
        ("int64_t", "int32_t", "int8_t", "int16_t", "int", "uint64_t", "uint32_t", "uint8_t", "size_t"),
        "int64_t {n} = frame.integer",
    ),
}.items():
    for way in (False, True):
        SEEN[kind, way] = f"const {call}({{i}})" + (");" if "to_dtype" in call else ";")


def kind_of(param: abi.Param) -> str:
    return re.sub(r"\bconst\b|\*|\s", "", param.type)

"""Numbers of data types, torch_npu.float4_e2m1fn_x2 and its kin: for arguments that name a type torch may not have.

256 and CANN's number of the type (aclDataType), as the vendor's. Which operator takes which is in its docstring.
"""

from __future__ import annotations

DATA_TYPES = {
    "float32": 256,
    "float16": 257,
    "int8": 258,
    "int32": 259,
    "uint8": 260,
    "int16": 262,
    "uint16": 263,
    "uint32": 264,
    "int64": 265,
    "uint64": 266,
    "float64": 267,
    "bool": 268,
    "string": 269,
    "complex64": 272,
    "complex128": 273,
    "bfloat16": 283,
    "int4": 285,
    "uint1": 286,
    "complex32": 289,
    "hifloat8": 290,
    "float8_e5m2": 291,
    "float8_e4m3fn": 292,
    "float8_e8m0fnu": 293,
    "float6_e3m2": 294,
    "float6_e2m3": 295,
    "float4_e2m1fn_x2": 296,
    "float4_e1m2fn_x2": 297,
}

"""Generate the C++ of users' operators from a file in the manner of op-plugin's npu_custom.yaml.

    python -m torch_npu.utils.custom_ops npu_custom.yaml --derivatives derivatives.yaml -o npu_custom.cpp

which calls it where it is installed, in torch_npu/_codegen. The format is in docs/guide/custom_operators.md. Each row
becomes what a row of ops/npu.yaml becomes (npu_row.py): a schema, a kernel for the device, a meta kernel with the same
results, a gradient, a refusal of CPU tensors.
"""

from __future__ import annotations

import argparse
import difflib
import re
import sys
import warnings
from pathlib import Path
from typing import Any

import torch

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import custom_functions  # noqa: E402
import custom_gradients  # noqa: E402
import custom_names  # noqa: E402
from cpp_text import line_directive, split  # noqa: E402
from custom_file import VERSION, Entry, entries  # noqa: E402
from npu_grad import BACK  # noqa: E402
from npu_row import Row, Wrapper  # noqa: E402
from npu_schema import Argument, Schema  # noqa: E402

# A row's other keys say by which of the vendor's ways it runs, which here is always aclnn.
KEYS = {"func", "op_api", "acl_op", "gen_opapi", "exposed", "internal_format_opapi", "impl_ns"}
# What a schema's argument may not be where the function takes it as it is: there is no value for "not given".
UNGIVEN = {"int?", "float?", "bool?", "str?", "ScalarType?", "Generator?", "Tensor[]?"}
HELPERS = ("broadcast", "sizes_of", "with_size", "without_last", "halved", "reduced")
NUMBERS = {"int64_t", "int32_t", "int16_t", "int8_t", "uint64_t", "uint32_t", "bool", "float", "double", "int"}


# The vendor's headers have no custom_op.h: what g++ says of that names no cure.
OWN = [
    '#if !__has_include("torch_npu/csrc/extension/custom_op.h")',
    "#error \"this was written for anycend's torch_npu, and these headers are another's: "
    'its own generator, torchnpugen, reads the same YAML"',
    "#endif",
    '#include "torch_npu/csrc/extension/custom_op.h"',
]


class Custom:
    """One file of operators, with its derivatives: text in, C++ out. Errors are ValueError that name file and line."""

    def __init__(
        self,
        text: str,
        table: str,
        derivatives: str | None = None,
        library: str = "npu",
        formulas: str = "derivatives.yaml",
    ) -> None:
        if not re.fullmatch(r"[A-Za-z_]\w*", library):
            raise ValueError(f"{library!r} cannot be a namespace of torch.ops: it must be a name")
        self.table, self.library = table, library
        self.derivatives = custom_gradients.read(derivatives, formulas) if derivatives else {}
        found = entries(text, table, ("custom", "symint"), "func")
        found_here = [entry for entry in found if entry.applies("op_api")]
        self.operators = {entry.schema("func").ident for entry in found_here}
        self.rows = [self.row(entry) for entry in found_here]
        if not self.rows:
            raise ValueError(f"{table}: no operator for torch {VERSION[0]}.{VERSION[1]}: {nothing(found)}")
        known: dict[str, Row] = {}
        for row in self.rows:
            if (first := known.setdefault(row.schema.full, row)) is not row:
                raise ValueError(
                    f"{table}:{row.line}: {row.schema.full} is defined in line {first.line} as well: an operator has "
                    "one row (another overload has a name of its own: f.name(...))"
                )
        self.idents()
        for name, entry in self.derivatives.items():
            if name not in known:
                raise entry.wrong(f"derivatives are given for {name}, which {table} does not define")

    def idents(self) -> None:
        """f.out and f_out are one name in C++: the first of them has it, a name without overload before others."""
        seen: dict[str, int] = {}
        for row in sorted(self.rows, key=lambda row: bool(row.schema.overload)):
            ident = row.schema.ident
            seen[ident] = seen.get(ident, 0) + 1
            row.data["ident"] = ident if seen[ident] == 1 else f"{seen[ident]}_{ident}"

    def row(self, entry: Entry) -> Row:
        data, wrong = entry.data, entry.wrong
        if unknown := [key for key in data if key not in KEYS]:
            raise wrong(f"unknown keys {', '.join(map(str, unknown))}: {keys_like(str(unknown[0]))}")
        schema = entry.schema("func")
        try:  # PyTorch reads it where the operator is registered, which ends the process of what it does not take
            read = torch._C.parse_schema(f"{self.library}::{schema.text}")
        except IndexError:
            raise wrong(f"{schema.full}: a default value is beyond the numbers of its type") from None
        except (RuntimeError, UnicodeDecodeError) as error:
            raise wrong(f"{schema.full}: PyTorch does not read the schema: {str(error).strip()}") from None
        custom_names.check_arguments(schema.arguments, lambda text: wrong(f"{schema.full}: {text}"))
        for a in read.arguments:
            if str(a.type) == "int" and isinstance(a.default_value, float):
                raise wrong(f"{schema.full}: the default value of {a.name}, {a.default_value}, is no int")
        rules = data.get("gen_opapi")
        if not isinstance(rules, dict) or "exec" not in rules:
            raise wrong(f"{schema.full}: `gen_opapi:` with `out:` and `exec: aclnnX` is needed: it says what to call")
        if "structured_inherit" in rules:
            raise wrong(f"{schema.full}: structured_inherit is for operators of PyTorch's own: write out and exec")
        given = {key: rule for key, rule in rules.items() if key != "exec"}
        if foreign := [
            key for key, rule in given.items() if not isinstance(rule, dict) or not {"size", "dtype"} & set(rule)
        ]:
            raise wrong(
                f"{schema.full}: gen_opapi: {', '.join(map(str, foreign))}: what is not `exec:` is a result, which is "
                f"described by `size:` and `dtype:`, not by {given[foreign[0]]!r}"
            )
        made = [r for r in schema.returns if not r.alias]
        if any(r.type != "Tensor" for r in made):
            raise wrong(f"{schema.full}: results must be tensors")
        written = {a.name for a in schema.arguments if a.alias and a.type == "Tensor"}
        fitted = [key for key in given if key in written]  # of an out= variant: what its caller brings
        if len(given) - len(fitted) != len(made):
            described = f"{len(given)} are described in gen_opapi: {', '.join(map(str, given)) or 'none'}"
            raise wrong(f"{schema.full}: {len(made)} results that are not arguments, but {described}")
        names = {a.name: a for a in schema.arguments}
        cpp = custom_names.Names(names, self.operators)
        results, outputs = {}, {}
        for key, rule in given.items():
            results[key] = self.result(rule, names, cpp, lambda text, key=key: wrong(f"{schema.full}: {key}: {text}"))
            if key not in fitted:
                name = str(rule.get("name", key))
                custom_names.check_result(name, {*names, *outputs}, lambda text: wrong(f"{schema.full}: {text}"))
                outputs[name] = results[key]
        row = Row(entry.line, schema, {"call": "", "as_written": ",".join(names)}, outputs, self.table)
        if fitted:
            tensors = {key: [cpp[a.name] for a in schema.arguments if a.is_tensor and a.name != key] for key in fitted}
            row.data["check"] = "; ".join(f"fit({', '.join([cpp[k], results[k], *tensors[k]])})" for k in fitted)
        row.data["exec"] = rules["exec"]
        if schema.full in self.derivatives:
            formulas = custom_gradients.Formulas(row, self.derivatives[schema.full])
            row.data["grad"], row.data["grad_places"] = formulas.text(self.operators), formulas.places()
        return row

    @staticmethod
    def result(rule: Any, names: dict[str, Argument], cpp: custom_names.Names, wrong: Any) -> str:
        """The Result (csrc/ops/npu/result.h) of `{size: ..., dtype: ...}`."""
        if not isinstance(rule, dict) or set(rule) - {"size", "dtype", "name"} or not {"size", "dtype"} <= set(rule):
            raise wrong(f"a result is described by `size:` and `dtype:`, not by {rule!r}")

        def tensor(name: str) -> str:
            if names[name].type != "Tensor":
                raise wrong(f"{name} is a {names[name].type}: size and dtype are taken from a Tensor")
            return cpp[name]

        size, dtype = rule["size"], str(rule["dtype"])
        if dtype in names and names[dtype].type == "ScalarType":
            kind = cpp[dtype]
        elif dtype in names:
            kind = f"{tensor(dtype)}.scalar_type()"
        elif re.fullmatch(r"(?:at::)?k[A-Z]\w*", dtype):
            kind = "at::" + dtype.removeprefix("at::")
        else:
            raise wrong(f"dtype: {dtype!r} is neither an argument nor a type such as at::kFloat")
        if isinstance(size, list):
            size = "[" + ", ".join(map(str, size)) + "]"
        size = str(size).strip()
        if size in names:
            return f"sized(sizes_of({tensor(size)}), {kind})"
        listed = re.fullmatch(r"[\[{](.*)[\]}]", size, re.S)
        try:
            if listed:
                sizes = re.sub(r"[.]size[(]", ".sym_size(", cpp.cpp(listed[1], HELPERS))
                return f"sized({{{sizes}}}, {kind})"
            if re.match(rf"(?:{'|'.join(HELPERS)})\(", size):
                return f"sized({cpp.cpp(size, HELPERS)}, {kind})"
        except ValueError as error:
            raise wrong(f"size: {error}") from None
        raise wrong(
            f"size: {size!r} is neither an argument, a list such as [x.size(0), 4], nor one of {', '.join(HELPERS)}"
        )

    def text(self, functions: custom_functions.Functions, output: str) -> str:
        """The C++ file, which is to be called `output`. Numbers get the types that `functions` say."""
        schemas = {r.schema.full: r.schema for r in self.rows}
        wrappers = [self.wrapper(row, self.call(row, functions), schemas) for row in self.rows]
        libraries: dict[str, list[str]] = {}
        for w in wrappers:
            for key, line in w.registrations().items():
                libraries.setdefault(key, []).append(line)
        space = f"custom_{self.library}"
        text = "\n".join(
            [
                f"// Generated from {self.table} by torch_npu.utils.custom_ops: torch.ops.{self.library}.",
                *OWN,
                f"#undef {self.library}",  # linux is a macro
                "",
                f"namespace {space} {{",
                "using namespace torch_npu::custom_op;",
                *(w.declarations() for w in wrappers),
                "namespace {",
                *(w.text() for w in wrappers),
                "}  // namespace",
                *(w.caller() for w in wrappers),
                f"TORCH_LIBRARY_FRAGMENT({self.library}, m) {{",
                *(w.definition() for w in wrappers),
                "}",
                *(
                    f"TORCH_LIBRARY_IMPL({self.library}, {key}, m) {{\n" + "\n".join(lines) + "\n}"
                    for key, lines in libraries.items()
                ),
                f"}}  // namespace {space}",
                "",
            ]
        )
        lines = enumerate(text.split("\n"), 1)
        return "\n".join(line_directive(number + 1, output) if line == BACK else line for number, line in lines)

    def wrapper(self, row: Row, call: str, schemas: dict[str, Schema]) -> Wrapper:
        """With the names of C++."""
        outputs = {f"{name}_v": rule for name, rule in row.outputs.items()}
        data = dict(row.data)
        expressions = [call, data.get("check", ""), *outputs.values(), *data.get("grad", {}).values()]
        if any(custom_names.DIVISION in text for text in expressions):
            name = row.schema.full if self.library == "npu" else f"{self.library}.{row.schema.full}"
            data["constant"] = f'constexpr Division {custom_names.DIVISION}{{"{name}"}};'
        named = row._replace(schema=custom_names.in_cpp(row.schema), outputs=outputs, data=data)
        return Wrapper(named, call, schemas, users=self.library)

    def call(self, row: Row, functions: custom_functions.Functions) -> str:
        def wrong(text: str) -> ValueError:
            return ValueError(f"{self.table}:{row.line}: {row.schema.full}: {text}")

        function, _, listed = str(row.data["exec"]).partition(",")
        function = function.strip()
        if not re.fullmatch(r"acl\w+", function):
            raise wrong(f"exec: {function!r} is no function such as aclnnAdd")
        arguments = {a.name: a for a in row.schema.arguments}
        values = split(listed) or [*arguments, *row.outputs]
        for name in values:
            if name in arguments and arguments[name].type in UNGIVEN:
                raise wrong(
                    f"{name} is a {arguments[name].type}: {function} cannot be given nothing. List the "
                    f"values in `exec:`, such as {name}.value_or(...)"
                )
            known = [*arguments, *row.outputs]
            if re.fullmatch(r"[A-Za-z_]\w*", name) and name not in [*known, "true", "false", "nullptr"]:
                raise wrong(f"exec: {name} is neither an argument nor a result: {', '.join(known)}")
        parameters, owner = functions.parameters(function)
        if parameters is None and owner == "CANN" and (near := functions.nearest(function)):
            said = f"neither CANN nor a package that ASCEND_CUSTOM_OPP_PATH names has {function}: is {near[0]} meant"
            warnings.warn(f"{wrong(said)}{', '.join(['', *near[1:]])}?", stacklevel=2)
        if parameters:
            listed = ", ".join(p.text for p in parameters)
            if len(parameters) != len(values):
                cure = "; a package's own counts where ASCEND_CUSTOM_OPP_PATH names it" if owner == "CANN" else ""
                raise wrong(
                    f"{function} of {owner} takes {len(parameters)} values, {listed}; the row gives "
                    f"{', '.join(values)}{cure}"
                )
            const = owner == "CANN" or any(p.is_read for p in parameters)  # or a header that says nothing
            for place, (p, name) in enumerate(zip(parameters, values, strict=True), 1):
                if p.is_written and const and name in arguments and not arguments[name].alias:
                    raise wrong(
                        f"exec: {name} is not written (Tensor(a!)), and parameter {place} of {function}({listed}) is: "
                        f"is the order right? If {name} is to change, write Tensor(a!) in its place"
                    )
            pairs = zip(parameters, values, strict=True)
            values = [f"static_cast<{p.type}>({v})" if p.type in NUMBERS else v for p, v in pairs]
        try:
            text = custom_names.Names([*arguments, *row.outputs], self.operators).cpp(", ".join(values))
        except ValueError as error:
            raise wrong(f"exec: {error}") from None
        return f"EXEC_NPU_CMD_EXT({function}, {text})"


def keys_like(key: str) -> str:
    """What a row may have in the place of a key that it may not."""
    near = difflib.get_close_matches(key, sorted(KEYS), 1)
    return f"is {near[0]} meant?" if near else f"a row has {', '.join(sorted(KEYS))}"


def nothing(found: list[Entry]) -> str:
    """Why no row is left, and what to do."""
    if not found:
        return "it has no rows, which are `- func: <schema>` below `custom:`"
    versions = ", ".join(dict.fromkeys(str(entry.data["op_api"]) for entry in found))
    all_of_them = "its only row is" if len(found) == 1 else f"all its {len(found)} rows are"
    return f"{all_of_them} for other versions ({versions}): write `op_api: all_version`, or leave the key out"


def text_of(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path.name}: is no text in UTF-8: {error}") from error


def generate(
    path: Path, derivatives: Path | None, library: str, functions: custom_functions.Functions, output: str = ""
) -> tuple[str, dict[str, int]]:
    """The C++ of a file, to be called `output` or as the file is, and its operators with their lines. ValueError names
    file, line and what is wrong; OSError of what cannot be read."""
    formulas = text_of(derivatives) if derivatives else None
    named = derivatives.name if derivatives else ""
    try:
        custom = Custom(text_of(path), path.name, formulas, library, named)
        output = output or path.with_suffix(".cpp").name
        return custom.text(functions, output), {row.schema.full: row.line for row in custom.rows}
    except SystemExit as error:  # of what it shares with torch_npu's own build
        raise ValueError(str(error)) from error


def main(functions: custom_functions.Functions) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m torch_npu.utils.custom_ops",
        description="The C++ of operators described in a file in the manner of npu_custom.yaml.",
    )
    parser.add_argument("file", type=Path, help="npu_custom.yaml: schema, results, aclnn function of each operator")
    parser.add_argument("--derivatives", type=Path, help="derivatives.yaml: the formulas of gradients")
    parser.add_argument("--library", default="npu", help="the namespace of torch.ops (default: npu)")
    parser.add_argument("-o", "--output", type=Path, help="the C++ file (default: beside the file)")
    arguments = parser.parse_args()
    try:
        output = arguments.output or arguments.file.with_suffix(".cpp")
        text, _ = generate(arguments.file, arguments.derivatives, arguments.library, functions, output.name)
        output.write_text(text, encoding="utf-8")
    except (OSError, ValueError) as error:
        print(error, file=sys.stderr)
        return 1
    print(f"{output}: {text.count('// ' + arguments.file.name + ':')} operators; build it with NpuExtension")
    return 0

"""An operator of a package: what its OpDef says, and the C++ that is written from it. Built by package.py."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from string import Template

import tiling

# ge::DataType: as the kernel has it, and the name that #if compares ORIG_DTYPE_X with.
TYPES = {
    0: ("float", "DT_FLOAT"),
    1: ("half", "DT_FLOAT16"),
    2: ("int8_t", "DT_INT8"),
    3: ("int32_t", "DT_INT32"),
    4: ("uint8_t", "DT_UINT8"),
    6: ("int16_t", "DT_INT16"),
    7: ("uint16_t", "DT_UINT16"),
    8: ("uint32_t", "DT_UINT32"),
    9: ("int64_t", "DT_INT64"),
    10: ("uint64_t", "DT_UINT64"),
    11: ("double", "DT_DOUBLE"),
    12: ("bool", "DT_BOOL"),
    27: ("bfloat16_t", "DT_BF16"),
}
OPTIONAL, REQUIRED, DYNAMIC = 1, 2, 3
# ge::Format whose memory is that of ND: NCHW, ND, NCDHW, NCL. Kernels are given no other.
ND = 2
PLAIN = {0, ND, 30, 47}

# The three files' texts; $x is filled in.
HEADER = Template("""#ifndef $guard
#define $guard
#include "acl/acl.h"
#include "aclnn/acl_meta.h"

#ifdef __cplusplus
extern "C" {
#endif
$first;
$second;
#ifdef __cplusplus
}
#endif
#endif
""")
HEAD = """#include "package.h"
#define EXPORT extern "C" __attribute__((visibility("default")))
using namespace ascendc_host;

"""
FUNCTION = Template("""namespace {
const Operator k$type{"$type", {$operands}, {$as_it_lies}, {$zeroed}, {
    $kinds}};
}
EXPORT $first {
  return first(k$type, workspaceSize, executor, [&](Call& call) {
    $steps
  });
}
EXPORT $second {
  return second(workspace, workspaceSize, executor, stream);
}

""")
# Beside a kernel in its library: the launch, by pointers and with the tiling's key.
ENTRY = Template("""#include "ascendc/launch.h"
extern "C" uint32_t aclrtlaunch_$kernel(uint32_t, void*$types);
extern "C" __attribute__((visibility("default"))) uint32_t ascendc_opp_enter(
    uint64_t key, uint32_t blocks, void* stream, void* const* a) {
  ::AscendC::detail::t_launch_key = key;
  const uint32_t code = aclrtlaunch_$kernel(blocks, stream, $given);
  ::AscendC::detail::t_launch_key = 0;
  return code;
}
""")


class BuildError(Exception):
    """One sentence, or what the compiler said."""


def camel(name: str) -> str:
    first, *rest = name.split("_")
    return first[:1].lower() + first[1:] + "".join(part[:1].upper() + part[1:] for part in rest)


def nth(values: list[int], i: int) -> int:
    return values[min(i, len(values) - 1)]


def is_plain(p: dict, i: int) -> bool:
    """In the i-th set of types and formats this operand is ND."""
    known = p["formats"] or [ND]
    may = not PLAIN.isdisjoint(known) if p["any_format"] else nth(known, i) in PLAIN
    return may and nth(p["unknown_formats"] or [ND], i) in PLAIN


@dataclass
class Operator:
    type: str
    file: str  # of the kernel, without .cpp
    inputs: list[dict]
    outputs: list[dict]
    attrs: list[dict]
    socs: list[str]
    tiling: bool
    mc2: bool
    _combinations: list[tuple[int, ...]] = field(default_factory=list)

    @classmethod
    def of(cls, told: dict, soc: str) -> Operator:
        config = told["configs"].get(soc) or {}
        return cls(
            told["type"],
            config.get("file") or tiling.snake(told["type"]),
            config.get("inputs") or told["inputs"],
            config.get("outputs") or told["outputs"],
            told["attrs"],
            list(told["configs"]),
            bool(told["tiling"]),
            bool(told["mc2"]),
        )

    def check(self, soc: str) -> None:
        operands = self.inputs + self.outputs
        for wrong, why in (
            (self.mc2, "it communicates with other chips, which no kernel does here"),
            (not self.tiling, "it has no tiling function"),
            (soc not in self.socs, f"it is for {', '.join(self.socs) or 'no chip'}, not for {soc}"),
            (not self.outputs, "it has no output"),
        ):
            if wrong:
                raise BuildError(f"{self.type}: {why}")
        for p in operands:
            if p["kind"] == DYNAMIC:
                raise BuildError(
                    f"{self.type}: {p['name']} is a list of tensors (DYNAMIC), which opp_build does not know"
                )
            if p["by_value"]:
                known = f"{p['name']} is known by its values (ValueDepend, Scalar)"
                raise BuildError(f"{self.type}: {known}, which opp_build does not know")
            if unknown := [t for t in p["types"] if t not in TYPES]:
                raise BuildError(f"{self.type}: {p['name']} has a type that kernels do not have here ({unknown[0]})")
            if p["zeroed"] and p["name"] in {i["name"] for i in self.inputs}:
                raise BuildError(
                    f"{self.type}: {p['name']} is an input, too, and would begin as 0 (InitValue): leave that out"
                )
            if p["filled"]:
                raise BuildError(
                    f"{self.type}: {p['name']} begins as another value than 0 (InitValue), which opp_build does not "
                    "know: let the kernel write it"
                )
        listed = {p["name"]: len(p["types"]) for p in operands if p["types"] and not p["product"]}
        if len(set(listed.values())) > 1:
            counts = ", ".join(f"{name} {count}" for name, count in listed.items())
            raise BuildError(
                f"{self.type}: its lists of types differ in length ({counts}): give each a type for each set"
            )
        if not self.combinations():
            foreign = [p["name"] for p in operands if not PLAIN.issuperset(p["formats"] + p["unknown_formats"])]
            raise BuildError(
                f"{self.type}: {', '.join(foreign)} may not be ND (Format), and kernels are given no other format: "
                "add a set with FORMAT_ND"
            )

    def leader(self, p: dict) -> dict:
        """Whose types it has: its own, or by Follow those of another, which may follow a third."""
        named = {other["name"]: other for other in self.outputs + self.inputs}
        for _ in named:
            if p["types"] or p["follows"] not in named:
                break
            p = named[p["follows"]]
        return p

    def combinations(self) -> list[tuple[int, ...]]:
        """Types of inputs and outputs together: the n-th of each list, or of DataTypeList each with each.

        Sets in which an operand is not ND are left out.
        """
        if self._combinations:
            return self._combinations
        operands = self.inputs + self.outputs
        leaders = [self.leader(p) for p in operands]
        listed = [p["types"] for p in operands if p["types"] and not p["product"]]
        listed += [p[f] for p in operands for f in ("formats", "unknown_formats") if not p["any_format"]]
        found: dict[tuple[int, ...], None] = {}
        for i in range(max((len(values) for values in listed), default=1) or 1):
            if not all(is_plain(p, i) for p in operands):
                continue
            # One choice for each that has types of its own; who follows has its leader's.
            own = {id(p): p for p in leaders}
            choices = [p["types"] if p["product"] else [nth(p["types"] or [-1], i)] for p in own.values()]
            for types in itertools.product(*choices):
                chosen = dict(zip(own, types, strict=True))
                found[tuple(chosen[id(p)] for p in leaders)] = None
        self._combinations = list(found)
        return self._combinations

    def macros(self, number: int) -> list[str]:
        defined = [f"-D{name}={value}" for value, (_, name) in TYPES.items()]
        for p, t in zip(self.inputs + self.outputs, self.combinations()[number], strict=True):
            if t >= 0:
                name = p["name"].upper()
                defined += [f"-DDTYPE_{name}={TYPES[t][0]}", f"-DORIG_DTYPE_{name}={t}"]
        return defined

    def parameters(self) -> list[tuple[str, str]]:
        """C++ types and names, in the order of aclnn functions: inputs, attributes, outputs. What is both is a Ref."""
        both = {p["name"] for p in self.inputs} & {p["name"] for p in self.outputs}
        given = [
            ("aclTensor*", camel(p["name"]) + "Ref")
            if p["name"] in both
            else ("const aclTensor*", camel(p["name"]) + ("Optional" if p["kind"] == OPTIONAL else ""))
            for p in self.inputs
        ]
        given += [(a["type"], camel(a["name"])) for a in self.attrs]
        return given + [("const aclTensor*", camel(p["name"])) for p in self.outputs if p["name"] not in both]

    def declarations(self) -> dict[str, str]:
        listed = "".join(f"{t} {n}, " for t, n in self.parameters())
        last = "void* workspace, uint64_t workspaceSize, aclOpExecutor* executor, aclrtStream stream"
        name = f"aclnnStatus aclnn{self.type}"
        return {
            "first": f"{name}GetWorkspaceSize({listed}uint64_t* workspaceSize, aclOpExecutor** executor)",
            "second": f"{name}({last})",
        }

    def header(self) -> str:
        return HEADER.substitute(guard=f"ACLNN_{self.file.upper()}_H_", **self.declarations())

    def function(self, variants: list[str]) -> str:
        names = [name for _, name in self.parameters()]
        given = dict(zip((p["name"] for p in self.inputs), names, strict=False))
        attrs = names[len(given) : len(given) + len(self.attrs)]
        optional = {p["name"]: str(p["kind"] == OPTIONAL).lower() for p in self.inputs}
        steps = [f"call.input({given[name]}, {optional[name]});" for name in given]
        steps += [f"call.attr({name});" for name in attrs]
        places = {name: place for place, name in enumerate(given)}
        steps += [
            f"call.same({places[p['name']]});" if p["name"] in places else f"call.output({camel(p['name'])});"
            for p in self.outputs
        ]
        kinds = [
            f'{{{{{", ".join(map(str, types))}}}, "{place}"}}'
            for types, place in zip(self.combinations(), variants, strict=True)
        ]
        return FUNCTION.substitute(
            type=self.type,
            operands=", ".join(f'"{p["name"]}"' for p in self.inputs + self.outputs),
            as_it_lies=", ".join(str(bool(p["as_it_lies"])).lower() for p in self.inputs + self.outputs),
            zeroed=", ".join(str(bool(p["zeroed"])).lower() for p in self.outputs),
            kinds=",\n    ".join(kinds),
            steps="\n    ".join(steps),
            **self.declarations(),
        )


def functions(made: list[tuple[Operator, list[str]]]) -> str:
    return HEAD + "".join(op.function(variants) for op, variants in made)


def entry(op: Operator, kernel: str) -> str:
    count = len(op.inputs) + len(op.outputs) + 2
    given = ", ".join(f"a[{i}]" for i in range(count))
    return ENTRY.substitute(kernel=kernel, types=", void*" * count, given=given)

"""An operator of a package: what its OpDef says, and the C++ that is written from it. Built by package.py."""

from __future__ import annotations

import itertools
import re
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
$declared
#ifdef __cplusplus
}
#endif
#endif
""")
HEAD = """#include "package.h"
#define EXPORT extern "C" __attribute__((visibility("default")))
using namespace ascendc_host;

"""
OPERATOR = Template("""namespace {
const Operator k$type{"$type", {$operands}, {$as_it_lies}, {$zeroed}, $launch_empty, $reads_tiling, {
    $kinds}};
}
""")
FUNCTION = Template("""EXPORT $first {
  return first(k$type, workspaceSize, executor, [&](Call& call) {
    $steps
  });
}
EXPORT $second {
  return second(workspace, workspaceSize, executor, stream);
}

""")
# Beside a kernel in its library: the launch, by pointers and with the tiling's key.
ENTRY = Template("""#include "ascendc/launch_key.h"
extern "C" uint32_t aclrtlaunch_$kernel(uint32_t, void*$types);
extern "C" __attribute__((visibility("default"))) uint32_t ascendc_opp_enter(
    uint64_t key, uint32_t blocks, void* stream, void* const* a) {
  ::AscendC::detail::t_launch_key = key;
  const uint32_t code = aclrtlaunch_$kernel(blocks, stream, $given);
  ::AscendC::detail::t_launch_key = 0;
  return code;
}
""")


# Names that a parameter may not have: C++'s own, and those of what stands around it.
RESERVED = frozenset(
    "alignas alignof and and_eq asm auto bitand bitor bool break case catch char class compl const constexpr continue "
    "decltype default delete do double else enum explicit export extern false float for friend goto if inline int long "
    "mutable namespace new noexcept not not_eq nullptr operator or or_eq private protected public register requires "
    "return short signed sizeof static struct switch template this throw true try typedef typeid typename union "
    "unsigned using virtual void volatile while xor xor_eq concept workspace workspaceSize executor stream call first "
    "second int64_t uint64_t aclTensor aclIntArray aclFloatArray aclBoolArray aclOpExecutor aclrtStream aclnnStatus "
    "linux unix".split()
)
_WORD = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_FILE = re.compile(r"\w[\w.+-]*", re.ASCII)


class BuildError(Exception):
    """One sentence, or what the compiler said."""


def camel(name: str) -> str:
    first, *rest = name.split("_")
    return first[:1].lower() + first[1:] + "".join(part[:1].upper() + part[1:] for part in rest)


def plain(name: str) -> str:
    return name.lower().replace("_", "")


def nth(values: list, i: int):
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
    launch_empty: bool
    kernel: str  # its name, if the definition says it
    reads_tiling: bool = False  # its kernel begins with GET_TILING_DATA
    _combinations: dict[tuple[int, ...], tuple[int, ...]] = field(default_factory=dict)

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
            bool(told["launch_empty"]),
            config.get("kernel") or "",
        )

    @property
    def name(self) -> str:
        """Of its files in the package: several operators may have one kernel's file."""
        return tiling.snake(self.type)

    @property
    def both(self) -> set[str]:
        """What is an input and an output: written in place."""
        return {p["name"] for p in self.inputs} & {p["name"] for p in self.outputs}

    @property
    def versions(self) -> int:
        """How many later ones there are (Version)."""
        return len({p["version"] for p in self.inputs + self.attrs + self.outputs} - {0})

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
        if wrong := [p["name"] for p in operands + self.attrs if not _WORD.fullmatch(p["name"])]:
            raise BuildError(f"{self.type}: {wrong[0]!r} is no name of an input, an attribute or an output")
        if not _FILE.fullmatch(self.file):
            raise BuildError(f"{self.type}: {self.file!r} (opFile.value) is no name of a file in op_kernel")
        if wrong := [a["name"] for a in self.attrs if not a["type"]]:
            raise BuildError(f"{self.type}: the attribute {wrong[0]} has no type (Int, Float, Bool, String, List…)")
        self.check_versions()
        for p in operands:
            if p["kind"] not in (OPTIONAL, REQUIRED, DYNAMIC):
                raise BuildError(f"{self.type}: {p['name']} is neither REQUIRED nor OPTIONAL (ParamType)")
            if p["kind"] == DYNAMIC:
                raise BuildError(
                    f"{self.type}: {p['name']} is a list of tensors (DYNAMIC), which opp_build does not know"
                )
            if p["by_value"]:
                known = f"{p['name']} is known by its values (ValueDepend, Scalar)"
                raise BuildError(f"{self.type}: {known}, which opp_build does not know")
            if p["computed_shape"]:
                found = f"the kernel finds the shape of {p['name']} (OutputShapeDependOnCompute)"
                raise BuildError(f"{self.type}: {found}: give {p['name']} the largest, and a count beside it")
            if unknown := [t for t in p["types"] + p["compiled"] if t not in TYPES]:
                raise BuildError(f"{self.type}: {p['name']} has a type that kernels do not have here ({unknown[0]})")
            if p["compiled"] and len(p["compiled"]) != len(p["types"]):
                counts = f"{len(p['compiled'])} types in DataTypeForBinQuery and {len(p['types'])} of its own"
                raise BuildError(f"{self.type}: {p['name']} has {counts}: give one for each")
            if p["follows"] and not p["types"] and not self.leader(p)["types"]:
                raise BuildError(f"{self.type}: {p['name']} follows {p['follows']}, which has no types")
            if p["zeroed"] and p["name"] in self.both:
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

    def check_versions(self) -> None:
        """Parameters of later versions may be left out, and the versions have no gap."""
        said = sorted({p["version"] for p in self.inputs + self.attrs + self.outputs} - {0})
        for p in self.inputs + self.outputs:
            if p["version"] and p["kind"] != OPTIONAL:
                raise BuildError(f"{self.type}: {p['name']} has a Version and is not OPTIONAL")
        if gaps := [n for n, version in enumerate(said, 1) if n != version]:
            raise BuildError(f"{self.type}: nothing has the Version {gaps[0]}, and others are of a later one")

    def other_order(self, given: list[str]) -> str:
        """Where a kernel's parameters have names of the definition's in another order: both orders, else nothing."""
        names = [p["name"] for p in self.inputs + self.outputs] + ["workspace", "tiling"]
        own = [name for name in names if plain(name) in map(plain, given)]
        theirs = [name for name in given if plain(name) in map(plain, own)]
        same = [plain(name) for name in theirs] == [plain(name) for name in own]
        if self.both or same or len(theirs) != len(own):
            return ""
        return f"{', '.join(theirs)}; it is given {', '.join(own)}"

    def leader(self, p: dict) -> dict:
        """Whose types it has: its own, or by Follow those of another, which may follow a third."""
        named = {other["name"]: other for other in self.outputs + self.inputs}
        for _ in named:
            if p["types"] or p["follows"] not in named:
                break
            p = named[p["follows"]]
        return p

    def combinations(self) -> dict[tuple[int, ...], tuple[int, ...]]:
        """Types of inputs and outputs together: the n-th of each list, or of DataTypeList each with each. By them the
        types that the kernel is compiled for, which are others where DataTypeForBinQuery says so.

        Sets in which an operand is not ND are left out.
        """
        if self._combinations:
            return self._combinations
        operands = self.inputs + self.outputs
        leaders = [self.leader(p) for p in operands]
        listed = [p["types"] for p in operands if p["types"] and not p["product"]]
        listed += [p[f] for p in operands for f in ("formats", "unknown_formats") if not p["any_format"]]
        found: dict[tuple[int, ...], tuple[int, ...]] = {}
        for i in range(max((len(values) for values in listed), default=1) or 1):
            if not all(is_plain(p, i) for p in operands):
                continue
            # One choice for each that has types of its own; who follows has its leader's.
            own = {id(p): p for p in leaders}
            pairs = [
                list(zip(p["types"], p["compiled"] or p["types"], strict=True)) or [(-1, -1)] for p in own.values()
            ]
            choices = [all_ if p["product"] else [nth(all_, i)] for p, all_ in zip(own.values(), pairs, strict=True)]
            for chosen in itertools.product(*choices):
                by_leader = dict(zip(own, chosen, strict=True))
                types, compiled = zip(*(by_leader[id(p)] for p in leaders), strict=True)
                found[types] = compiled
        self._combinations = found
        return found

    def macros(self, number: int) -> list[str]:
        defined = [f"-D{name}={value}" for value, (_, name) in TYPES.items()]
        compiled = list(self.combinations().values())[number]
        for p, t in zip(self.inputs + self.outputs, compiled, strict=True):
            if t >= 0:
                name = p["name"].upper()
                defined += [f"-DDTYPE_{name}={TYPES[t][0]}", f"-DORIG_DTYPE_{name}={t}"]
        return defined

    def parameters(self) -> list[tuple[dict, str, str]]:
        """What each is of, its C++ type and name, in the order of aclnn functions: inputs, attributes, outputs."""
        given = [
            (p, "aclTensor*", camel(p["name"]) + "Ref")
            if p["name"] in self.both
            else (p, "const aclTensor*", camel(p["name"]) + ("Optional" if p["kind"] == OPTIONAL else ""))
            for p in self.inputs
        ]
        given += [(a, a["type"], camel(a["name"])) for a in self.attrs]
        given += [
            (p, "const aclTensor*", camel(p["name"]) + ("Optional" if p["kind"] == OPTIONAL else ""))
            for p in self.outputs
            if p["name"] not in self.both
        ]
        taken, free = set(RESERVED), []
        for p, kind, name in given:
            while name in taken:
                name += "_"
            taken.add(name)
            free.append((p, kind, name))
        return free

    def functions(self) -> list[str]:
        """One for each version: aclnnOp, aclnnOpV1, ..."""
        return [f"aclnn{self.type}{f'V{n}' if n else ''}" for n in range(self.versions + 1)]

    def declarations(self, version: int) -> dict[str, str]:
        listed = "".join(f"{t} {n}, " for p, t, n in self.parameters() if p["version"] <= version)
        last = "void* workspace, uint64_t workspaceSize, aclOpExecutor* executor, aclrtStream stream"
        name = f"aclnnStatus {self.functions()[version]}"
        return {
            "first": f"{name}GetWorkspaceSize({listed}uint64_t* workspaceSize, aclOpExecutor** executor)",
            "second": f"{name}({last})",
        }

    def header(self) -> str:
        declared = [f"{d};" for n in range(self.versions + 1) for d in self.declarations(n).values()]
        return HEADER.substitute(guard=f"ACLNN_{self.name.upper()}_H_", declared="\n".join(declared))

    def steps(self, version: int) -> list[str]:
        """What the call is told, in order. Of what belongs to a later version: that it is absent."""
        names = {id(p): name for p, _, name in self.parameters() if p["version"] <= version}
        places = {p["name"]: place for place, p in enumerate(self.inputs)}
        told = []
        for p in self.inputs:
            told.append(f"input({names.get(id(p), 'nullptr')}, {str(p['kind'] == OPTIONAL).lower()})")
        for i, a in enumerate(self.attrs):
            told.append(f"attr({names[id(a)]})" if id(a) in names else f"absent_attr({i})")
        for p in self.outputs:
            if p["name"] in self.both:
                told.append(f"same({places[p['name']]})")
            else:
                told.append(f"output({names.get(id(p), 'nullptr')}, {str(p['kind'] == OPTIONAL).lower()})")
        return [f"call.{step};" for step in told]

    def code(self, variants: list[str]) -> str:
        kinds = [
            f'{{{{{", ".join(map(str, types))}}}, "{place}"}}'
            for types, place in zip(self.combinations(), variants, strict=True)
        ]
        text = OPERATOR.substitute(
            type=self.type,
            operands=", ".join(f'"{p["name"]}"' for p in self.inputs + self.outputs),
            as_it_lies=", ".join(str(bool(p["as_it_lies"])).lower() for p in self.inputs + self.outputs),
            zeroed=", ".join(str(bool(p["zeroed"])).lower() for p in self.outputs),
            launch_empty=str(self.launch_empty).lower(),
            reads_tiling=str(self.reads_tiling).lower(),
            kinds=",\n    ".join(kinds),
        )
        for n in range(self.versions + 1):
            steps = "\n    ".join(self.steps(n))
            text += FUNCTION.substitute(type=self.type, steps=steps, **self.declarations(n))
        return text


def functions(made: list[tuple[Operator, list[str]]]) -> str:
    return HEAD + "".join(op.code(variants) for op, variants in made)


def entry(op: Operator, kernel: str) -> str:
    count = len(op.inputs) + len(op.outputs) + 2
    given = ", ".join(f"a[{i}]" for i in range(count))
    return ENTRY.substitute(kernel=kernel, types=", void*" * count, given=given)

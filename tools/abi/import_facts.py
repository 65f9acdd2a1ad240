"""Turn tables of facts about CANN's C ABI into the rows of cann/abi.

Run once per new set of facts:  python tools/abi/import_facts.py FACTS_DIR
What a row says wins over this import: rows already present are kept, so a
correction made in cann/abi (with its reason in a comment) survives.
"""

from __future__ import annotations

import argparse
import csv
import re
from pathlib import Path

ABI = Path(__file__).resolve().parents[2] / "cann" / "abi"
LIBRARY_OF_HEADER = {
    "acl_op_compiler.h": "acl_op_compiler",
    "acl_tdt.h": "acl_tdt_channel",
    "acl_tdt_queue.h": "acl_tdt_channel",
    "acl_prof.h": "msprofiler",
    "aprof_pub.h": "profapi",
    "prof_api.h": "profapi",
    "acl_meta.h": "nnopbase",
    "aclnn_base.h": "nnopbase",
    "aml_fwk_detect.h": "ascend_ml",
    "acl_dump.h": "ascend_dump",
}


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as f:
        return list(csv.DictReader(f, delimiter="\t", quoting=csv.QUOTE_NONE))


def clean(text: str) -> str:
    return re.sub(r"\s+", " ", text.replace('"', "'")).strip()


def acl(facts: Path) -> list[str]:
    out, seen = [], set()
    for r in rows(facts / "acl.tsv"):
        name, lib = r["function"], LIBRARY_OF_HEADER.get(r["header"], "ascendcl")
        if name in seen:
            continue
        seen.add(name)
        ret = re.sub(r"^return\s+", "", clean(r["return"])) or "aclError"
        out.append(f'{name}: {{lib: {lib}, ret: "{ret}", args: "{clean(r["params"])}", soft: stub}}')
    for r in rows(facts / "dlsym.tsv"):
        lib = re.sub(r"^lib|\.so$", "", r["library"])
        name = r["function"]
        if (
            name in seen
            or lib in ("soName", "hccl", "opapi", "nnopbase", "mspti", "ms_tools_ext")
            or not name.isidentifier()
        ):
            continue
        seen.add(name)
        ret = clean(r["caller_typedef_return"]) or "int"
        out.append(f'{name}: {{lib: {lib}, ret: "{ret}", args: "{clean(r["caller_typedef_params"])}", soft: stub}}')
    return out


def hccl(facts: Path) -> list[str]:
    return [
        f'{r["function"]}: {{lib: hccl, ret: "{clean(r["return"])}", args: "{clean(r["params"])}", soft: stub}}'
        for r in rows(facts / "hccl.tsv")
        if r["function"].isidentifier()
        and r["params"] != "?"
        and (not r["source"].startswith("cannmirror") or r["wheel_string"])
    ]


def aclnn(facts: Path) -> list[str]:
    out = []
    for r in rows(facts / "aclnn.tsv"):
        params = []
        for p in filter(
            None, (x.strip() for x in r["params(type name [io?optional-evidence D=doc H=header N=name])"].split(";"))
        ):
            m = re.match(r"(.*?)(\w+) \[([a-z/]+)[^\]]*?(\?[DHN]*)?\]$", p)
            if not m:
                raise SystemExit(f"{r['op']}: cannot read {p!r}")
            kind, name, way, optional = m.group(1).strip(), m.group(2), m.group(3), m.group(4)
            prefix = {"in": "", "out": "out ", "in/out": "inout "}[way]
            params.append(f"{prefix}{kind} {name}{'?' if optional else ''}")
        out.append(f'{r["op"]}: "{"; ".join(params)}"')
    return out


def enums(facts: Path) -> list[str]:
    groups: dict[str, list[str]] = {}
    for r in rows(facts / "enums.tsv"):
        value = clean(r["value"])
        if r["enum"] in ("const", "#define", "enum"):
            if not re.fullmatch(r"-?(0x[0-9a-fA-F]+|\d+)[uUlL]*", value):
                continue
            r["enum"] = "constants"
        groups.setdefault(r["enum"], []).append(f'{r["name"]}: "{value}"')
    return [f"{k}: {{{', '.join(v)}}}" for k, v in groups.items()]


def write(name: str, head: str, lines: list[str]) -> None:
    path = ABI / name
    kept = {}
    if path.exists():
        for line in path.read_text(encoding="utf-8").splitlines():
            if m := re.match(r"(\w+): ", line):
                kept[m.group(1)] = line
    merged = [kept.pop(line.split(":", 1)[0], line) for line in lines] + list(kept.values())
    path.write_text(f"# {head}\n" + "\n".join(merged) + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("facts", type=Path, metavar="FACTS_DIR")
    facts = parser.parse_args().facts
    tables = [f"{name}.tsv" for name in ("acl", "dlsym", "hccl", "aclnn", "enums")]
    if absent := [name for name in tables if not (facts / name).is_file()]:
        parser.error(f"{facts} has no {', '.join(absent)}; the folder of facts has {', '.join(tables)}")
    write(
        "acl.yaml",
        "One row a symbol: library, signature, and whether the software NPU implements it (native) or stubs it.",
        acl(facts),
    )
    write("hccl.yaml", "One row a symbol of libhccl.so: signature and soft status.", hccl(facts))
    write(
        "aclnn.yaml",
        "One row an operator: the parameters of <op>GetWorkspaceSize before workspaceSize and executor; "
        "`out`/`inout` mark results, `?` optional ones.",
        aclnn(facts),
    )
    write("enums.yaml", "One row an enumeration: its names and values.", enums(facts))


if __name__ == "__main__":
    main()

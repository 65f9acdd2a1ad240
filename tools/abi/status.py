"""What the software NPU implements: each symbol of cann/abi, its library, and native or stub.

python tools/abi/status.py                  a count by library
python tools/abi/status.py ascendcl hccl    the symbols of these libraries
python tools/abi/status.py --check DIR      compare with the libraries in DIR; exit 1 on a difference

aclnn operators are not listed here: their state is in ops/aclnn.yaml.
"""

from __future__ import annotations

import argparse
import re
import struct
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT))
from tools.codegen import tables  # noqa: E402

ABI = ROOT / "cann" / "abi"


def symbols() -> Iterator[tuple[str, str, str]]:
    """(symbol, library, native or stub)"""
    for table in ("acl.yaml", "hccl.yaml", "dcmi.yaml", "mspti.yaml"):
        for name, row in tables.load(ABI / table).items():
            yield name, row["lib"], row["soft"]


def exported(library: Path) -> set[str]:
    """The defined dynamic symbols of a 64-bit little-endian ELF file."""
    data = library.read_bytes()
    if data[:6] != b"\x7fELF\x02\x01":
        raise SystemExit(f"{library} is not a 64-bit ELF library")
    (offset,), (size, count) = struct.unpack_from("<Q", data, 0x28), struct.unpack_from("<HH", data, 0x3A)
    sections = [struct.unpack_from("<IIQQQQIIQQ", data, offset + i * size) for i in range(count)]
    names: set[str] = set()
    for section in sections:
        if section[1] != 11:  # SHT_DYNSYM
            continue
        strings = sections[section[6]][4]
        for at in range(section[4], section[4] + section[5], 24):
            name, _info, _other, defined_in = struct.unpack_from("<IBBH", data, at)
            if defined_in and name:  # a section has a symbol without a name, on aarch64 for instance
                end = data.index(b"\0", strings + name)
                names.add(data[strings + name : end].decode())
    return names


OWN = {"ascendcl": "acl/soft.h", "hccl": "hccl/soft.h"}


def own(lib: str) -> set[str]:
    """What a library of the software NPU exports beyond CANN."""
    header = (ROOT / "cann" / "include" / OWN[lib]).read_text(encoding="utf-8") if lib in OWN else ""
    return set(re.findall(r"^\w[\w *]*\b(softnpu\w+)\(", header, re.MULTILINE))


def differences(folder: Path) -> list[str]:
    """Symbols the table has and no library exports, and C symbols a library exports and the table has not."""
    found, libraries, wrong = {}, {}, []
    for name, lib, _ in symbols():
        libraries.setdefault(lib, set()).add(name)
    main = exported(folder / "libascendcl.so")
    for lib in libraries:
        path = folder / f"lib{lib}.so"
        if path.exists():
            found[lib] = exported(path)
        else:
            wrong.append(f"lib{lib}.so does not exist in {folder}")
    every = set().union(*libraries.values())
    for lib, have in found.items():
        wrong += [f"lib{lib}.so lacks {name} of {OWN[lib]}" for name in sorted(own(lib) - have)]
        # A library may leave a symbol to libascendcl, on which it depends: dlsym finds it there.
        wrong += [f"lib{lib}.so lacks {name}" for name in sorted(libraries[lib] - have - main)]
        unknown = sorted(have - every - own(lib))
        wrong += [f"lib{lib}.so exports {name}, which cann/abi does not know" for name in unknown
                  if not name.startswith(("_Z", "_init", "_fini", "aclnn", "aclStft"))]  # fmt: skip
    return wrong


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("libraries", nargs="*")
    parser.add_argument("--check", type=Path, metavar="DIR")
    options = parser.parse_args()
    if options.check:
        wrong = differences(options.check)
        print("\n".join(wrong) or "the libraries export what cann/abi says")
        sys.exit(bool(wrong))
    there = {lib for _, lib, _ in symbols()}
    if unknown := sorted(set(options.libraries) - there):
        parser.error(f"no library {', '.join(unknown)} in cann/abi; there are {', '.join(sorted(there))}")
    if options.libraries:
        for name, lib, state in sorted(symbols(), key=lambda s: (s[1], s[0])):
            if lib in options.libraries:
                print(f"{state:6}  lib{lib}.so  {name}")
        return
    count = Counter((lib, state) for _, lib, state in symbols())
    print(f"{'library':24} {'native':>6} {'stub':>6}")
    for lib in sorted({lib for lib, _ in count}):
        print(f"lib{lib + '.so':21} {count[lib, 'native']:6} {count[lib, 'stub']:6}")


if __name__ == "__main__":
    main()

"""Which public AscendC kernels compile unchanged here, and which of them run right. See README.md.

    python -m tests.public.ascendc CHECKOUTS [WORD ...]     units whose name has one of the words; all without

CHECKOUTS has the repositories' clones, made beforehand: vllm-ascend, sgl-kernel-npu, DrivingSDK, MindSpeed, mmcv.
Exit 1 if something is not as expected.yaml says.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from . import compile, judge, sources, tables, units
from .case import load


def main() -> int:
    parser = argparse.ArgumentParser(
        "python -m tests.public.ascendc", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("checkouts", type=Path)
    parser.add_argument("words", nargs="*", metavar="WORD")
    parser.add_argument("--results", type=Path, help="kept between runs; CHECKOUTS/results without it")
    parser.add_argument("--only-compile", action="store_true")
    parser.add_argument("--anew", action="store_true", help="also what is known already")
    parser.add_argument("--write", action="store_true", help="write expected.yaml as it is seen")
    asked = parser.parse_intermixed_args()
    results = (asked.results or asked.checkouts / "results").resolve()

    files, every = {}, []
    for repository in sources.REPOSITORIES:
        if (folder := sources.taken(asked.checkouts, repository, results)) is None:
            print(f"{repository}: not in {asked.checkouts}, left out", flush=True)
            continue
        paths, headers = sources.kernels(folder)
        files[repository] = len(paths)
        print(f"{repository} {folder.name[:12]}: {len(paths)} kernel sources and {headers} headers of such may be used")
        every += units.units(repository, folder, paths)
    wanted = [u for u in every if not asked.words or any(w in u.name for w in asked.words)]
    cases = load()
    if unknown := {c.unit for c in cases} - {u.name for u in every} if len(files) == len(sources.REPOSITORIES) else ():
        print(f"cases of units that are not there: {', '.join(sorted(unknown))}")

    made, ran = {}, {}
    for unit in wanted:
        c = made[unit] = compile.compiled(unit, results, asked.anew)
        print(f"{unit.name}: {'compiles' if c.ok else 'does not compile'} {c.seconds} s", flush=True)
        mine = [x for x in cases if x.unit == unit.name]
        if c.ok and mine and not asked.only_compile:
            ran[unit] = judge.outcomes(unit, c, mine, asked.anew)
            for o in ran[unit]:
                print(f"  {o.case}: {o.outcome}{'' if o.outcome == 'right' else tables.told(o.said)}", flush=True)
    if asked.write:
        tables.write(made, ran)
    found = tables.differences(made, ran)
    print(f"\n{tables.markdown(files, made, ran)}\n")
    print("\n".join(found) if found else "all as expected.yaml says")
    return 1 if found else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except sources.NoCheckout as error:
        sys.exit(str(error))

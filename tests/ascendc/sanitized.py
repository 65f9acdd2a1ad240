"""Kernels and the threads that run them under a sanitizer:  python -m tests.ascendc.sanitized asan|tsan

`make sanitize` builds build/<preset> before. Libraries, kernels' own code and the programs that launch them are
instrumented; what is found ends up in build/<preset>/found.* and makes this fail.
"""

from __future__ import annotations

import os
import subprocess
import sys

from tests.hccl.ranks import ROOT
from tests.hccl.sanitized import environment

# Blocks that wait, meet, poll, fail and divide; threads, streams, devices, captures; launches of each form.
FILES = ("blocks", "threads", "flags", "launches", "order", "global_order", "default_arguments")
WRONG = "order"  # has kernels that read beyond their memory, which AddressSanitizer finds without us
HANDLERS = "signal or handler"  # programs whose handlers of signals the sanitizer's runtime has first


def main(preset: str) -> None:
    folder = ROOT / "build" / preset
    for old in folder.glob("found.*"):
        old.unlink()
    flag = {"asan": "address,undefined", "tsan": "thread"}[preset]
    own = environment(preset)
    # Two kernels' own memory: one waits for words that are copied or that the host reads, of the other several blocks
    # write the same. And glibc frees what a thread had behind its destructors, which is not seen to be ordered.
    with (folder / "ucx.supp").open("a") as quiet:
        quiet.write("race:<polls(\nrace:<ordered(\nrace:_dl_deallocate_tls\n")
    # The compiler itself runs without.
    own |= {"ANYCEND_CXX": f"env -u LD_PRELOAD g++ -fsanitize={flag} -fno-omit-frame-pointer -g1"}
    files = [str(ROOT / "tests" / "ascendc" / f"test_{name}.py") for name in FILES if (preset, name) != ("asan", WRONG)]
    pytest = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    command = ["setarch", "-R", *pytest, "-k", f"not ({HANDLERS})"]
    done = subprocess.run([*command, *files], env={**os.environ, **own}, cwd=ROOT, check=False)
    if found := sorted(f.read_text() for f in folder.glob("found.*")):
        sys.exit("\n".join(found))
    if done.returncode:
        sys.exit(done.returncode)
    print(f"{preset}: nothing found")


if __name__ == "__main__":
    main(sys.argv[1])

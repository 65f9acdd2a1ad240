"""Compile everything for 64-bit Arm on another Linux machine and try it under qemu-user; `make aarch64` does it all.

    python tools/dev/aarch64.py layout FOLDER          sysroot/ and site/: its libc, its Python, its torch; 5 GB, once
    python tools/dev/aarch64.py build FOLDER BUILD     compile with cmake/aarch64.cmake; both wheels, in BUILD/dist
    python tools/dev/aarch64.py check FOLDER BUILD     the C++ tests, then with the wheel tests/package/emulated.py

Wants Debian or a relative of it with the packages g++-aarch64-linux-gnu (or g++-12-...) and qemu-user-static. Nothing
is installed on the machine itself: packages are unpacked into FOLDER. What it is not: a test on an Arm processor
(docs/packages.md).
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
JOBS = os.environ.get("JOBS", str(os.cpu_count()))
DEBIAN = ["python3.11", "libpython3.11-dev", "libstdc++6"]
WHEELS = ["torch==2.13.0", "numpy", "PyYAML", "libucx-cu12", "typing_extensions"]
PROCESSOR = """processor	: {n}
BogoMIPS	: 50.00
Features	: fp asimd evtstrm aes pmull sha1 sha2 crc32 atomics fphp asimdhp cpuid asimdrdm lrcpc dcpop asimddp
CPU implementer	: 0x41
CPU architecture: 8
CPU variant	: 0x3
CPU part	: 0xd0c
CPU revision	: 1

"""


def run(command: list[object], **environment: str) -> None:
    subprocess.run([str(part) for part in command], check=True, env={**os.environ, **environment})


def debian_packages(folder: Path) -> None:
    """Downloads with an apt of its own, for that architecture and with nothing installed, and unpacks."""
    apt = folder / "apt"
    for part in ("lists/partial", "cache/archives/partial"):
        (apt / part).mkdir(parents=True, exist_ok=True)
    (apt / "status").touch()
    settings = {
        "APT::Architecture": "arm64", "APT::Install-Recommends": "false", "APT::Sandbox::User": "root",
        "Dir::State": apt, "Dir::State::Lists": apt / "lists", "Dir::State::status": apt / "status",
        "Dir::Cache": apt / "cache",
    }  # fmt: skip
    lines = ['APT::Architectures { "arm64"; };', *(f'{name} "{value}";' for name, value in settings.items())]
    (apt / "apt.conf").write_text("\n".join(lines) + "\n")
    run(["apt-get", "update"], APT_CONFIG=str(apt / "apt.conf"))
    run(["apt-get", "install", "--download-only", "--yes", *DEBIAN], APT_CONFIG=str(apt / "apt.conf"))
    for package in sorted((apt / "cache/archives").glob("*.deb")):
        run(["dpkg-deb", "--extract", package, folder / "sysroot"])
    # Debian's Python includes a header as <aarch64-linux-gnu/python3.11/...>; the sysroot's libc stays off the path.
    (folder / "sysroot/usr/include/python3.11/aarch64-linux-gnu").symlink_to("../aarch64-linux-gnu")


def python_packages(folder: Path) -> None:
    pins = dict(line.split("==") for line in (ROOT / "requirements/dev.txt").read_text().splitlines() if "==" in line)
    wanted = [f"{name}=={pins[name]}" if name in pins else name for name in WHEELS]
    platforms = [f"--platform=manylinux_2_{minor}_aarch64" for minor in range(17, 35)]
    platforms.append("--platform=manylinux2014_aarch64")  # the older name of 2_17, which some of torch's packages have
    command = [sys.executable, "-m", "pip", "install", "--target", folder / "site", "--no-compile"]
    run([*command, "--only-binary=:all:", "--python-version=3.11", *platforms, *wanted])


def processors(folder: Path) -> None:
    """The files by which torch asks what processor it is on. qemu-user 7.2 shows the host's, and torch 2.13 then ends
    with a segmentation fault at import (cpuinfo_arm_linux_init). Files below -L come before the host's."""
    sysroot = folder / "sysroot"
    (sysroot / "proc").mkdir(exist_ok=True)
    count = os.cpu_count() or 1
    (sysroot / "proc/cpuinfo").write_text("".join(PROCESSOR.format(n=n) for n in range(count)))
    for n in range(count):
        registers = sysroot / f"sys/devices/system/cpu/cpu{n}/regs/identification"
        registers.mkdir(parents=True, exist_ok=True)
        (registers / "midr_el1").write_text("0x00000000413fd0c1\n")


def layout(folder: Path) -> None:
    if not (folder / "sysroot/usr/bin/python3.11").exists():
        debian_packages(folder)
    if not (folder / "site/torch").exists():
        python_packages(folder)
    processors(folder)


def wheel(folder: Path, project: Path, target: Path, dist: Path, tests: str) -> None:
    """As `make build`: by pip, with this machine's Python; the hints would name the headers of this processor."""
    settings = {
        "build-dir": target, "cmake.python-hints": "false", "cmake.define.Python3_EXECUTABLE": sys.executable,
        "cmake.define.CMAKE_TOOLCHAIN_FILE": ROOT / "cmake/aarch64.cmake", "cmake.define.ANYCEND_AARCH64": folder,
        "cmake.define.ANYCEND_TESTS": tests,
    }  # fmt: skip
    command = [sys.executable, "-m", "pip", "wheel", "--verbose", "--no-build-isolation", "--no-deps", "-w", dist]
    command += [f"--config-settings={name}={value}" for name, value in settings.items()]
    run([*command, project], _PYTHON_HOST_PLATFORM="linux-aarch64", CMAKE_BUILD_PARALLEL_LEVEL=JOBS)


def build(folder: Path, target: Path) -> None:
    dist = target / "dist"
    shutil.rmtree(dist, ignore_errors=True)
    wheel(folder, ROOT, target, dist, "ON")
    wheel(folder, ROOT / "softnpu", target.with_name(target.name + "_softnpu"), dist, "OFF")
    for file in sorted(dist.iterdir()):
        print(f"{file.stat().st_size / 1e6:.1f} MB  {file}")


def install(target: Path) -> Path:
    """The wheel of `anycend` in a folder for PYTHONPATH."""
    (file,) = (target / "dist").glob("anycend-*.whl")
    place = target / "installed"
    shutil.rmtree(place, ignore_errors=True)
    command = [sys.executable, "-m", "pip", "install", "--no-deps", "--no-compile", "--target", place]
    run([*command, "--only-binary=:all:", "--platform=linux_aarch64", "--python-version=3.11", file])
    return place


def kernel(target: Path, place: Path) -> Path:
    """A kernel in Ascend C by the package's own compiler; the cross compiler stands in for that machine's g++."""
    compiler = shutil.which("aarch64-linux-gnu-g++") or shutil.which("aarch64-linux-gnu-g++-12")
    library = target / "libemulated.so"
    command = [place / "torch_npu/softnpu/bin/bisheng", "-x", "asc", "-shared", "-fPIC", "-march=armv8.2-a"]
    run([*command, ROOT / "tests/package/emulated.asc", "-o", library], ANYCEND_CXX=str(compiler))
    return library


def check(folder: Path, target: Path) -> None:
    emulator = shutil.which("qemu-aarch64-static") or shutil.which("qemu-aarch64")
    if emulator is None:
        sys.exit("qemu-user is not installed: apt-get install qemu-user-static")
    run(["ctest", "--test-dir", target, "--output-on-failure"])
    python = [emulator, "-cpu", "neoverse-n1", "-L", folder / "sysroot", folder / "sysroot/usr/bin/python3.11"]
    place = install(target)
    environment = {"PYTHONPATH": f"{place}:{folder / 'site'}", "ANYCEND_MEMORY": "1G"}
    package = ROOT / "tests/package"
    for arguments in (["sum"], ["step"], ["kernel", kernel(target, place)]):
        run([*python, package / "emulated.py", *arguments], **environment)
    run([*python, package / "emulated.py", "reduce", json.dumps([str(part) for part in python])], **environment)
    table = [str(part) for part in (*python, package / "first_operators.py", "table")]
    done = subprocess.run(table, check=True, stdout=subprocess.PIPE, text=True, env={**os.environ, **environment})
    wrong = json.loads(done.stdout.splitlines()[-1])
    for name, text in wrong.items():
        print(f"{name}\n{text}")
    if wrong:
        sys.exit(f"operators that are wrong as the first of a process: {', '.join(wrong)}")
    print("every operator of tests/package/first_operators.py is right as the first of a process")


if __name__ == "__main__":
    steps = {"layout": layout, "build": build, "check": check}
    if len(sys.argv) < 3 or sys.argv[1] not in steps:
        sys.exit(__doc__)
    steps[sys.argv[1]](*(Path(argument).resolve() for argument in sys.argv[2:]))

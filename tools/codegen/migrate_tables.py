"""Make the migration tool's tables, migrate/data/{cuda_names,support}.tsv, from fact tables, torch and our plugin.

    python tools/codegen/migrate_tables.py FACTS_DIR

Run by hand when the facts, PyTorch or the plugin's operators change; the tables are committed, so the build needs none
of them. torch_npu must be importable: its registrations are the operator status.
FACTS_DIR holds migrate/{api_support,torch_cuda_vs_npu_all}.tsv and torch_npu/{api,native_api_2_13}.tsv.

support.tsv: api, then one column a PyTorch version with S supported, L supported with limits, U unsupported, ? in
doubt, - not in that version. The columns up to 2.8 are the vendor's lists; 2.13 is ours: the vendor's list for 2.13,
then PyTorch's public API and what the plugin registers (an operator without a kernel runs on the CPU: L).
"""

from __future__ import annotations

import csv
import inspect
import os
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
OUT = ROOT / "migrate" / "data"
VERSIONS = ("2.1", "2.6", "2.7", "2.8")
# torch.cuda names whose counterpart has another name ("=": the same, "-": none, ".": stays torch.cuda's): what the
# lists of names do not say.
CORRECTIONS = {
    "OutOfMemoryError": ".", "AcceleratorError": ".",
    "CUDAGraph": "NPUGraph",
    "CUDAPluggableAllocator": "NPUPluggableAllocator",
    "amp": "=", "memory": "=", "random": "=", "streams": "=", "graphs": "=", "default_generators": "=",
    "nvtx": "mstx", "nvtx.range": "-", "nvtx.device_range": "-",
    "comm": "-", "nccl": "-", "profiler": "-", "sparse": "-", "jiterator": "-", "tunable": "-", "gds": "-",
    "cudart": "-",
    "green_contexts": "-", "memory_usage": "-", "error": "-",
    "_sanitizer.enable_cuda_sanitizer": "_sanitizer.enable_npu_sanitizer",
    "_lazy_init": "=", "_lazy_call": "=", "_is_in_bad_fork": "=",
}  # fmt: skip
COMPOSED = tuple(f"torch.{name}." for name in "nn fft func linalg nested compiler export".split())
HOLDERS = {"torch", *(f"torch.{name}" for name in "Tensor nn.functional linalg fft special".split())}
MODULES = """
torch torch.nn torch.nn.functional torch.nn.init torch.nn.parallel torch.nn.utils torch.nn.utils.rnn
torch.nn.utils.parametrizations torch.optim torch.optim.lr_scheduler torch.optim.swa_utils torch.linalg
torch.fft torch.special torch.amp torch.autograd torch.autograd.functional torch.autograd.profiler
torch.distributed torch.distributed.fsdp torch.distributions torch.random torch.utils.data
torch.utils.data.distributed torch.utils.checkpoint torch.profiler torch.func torch.fx torch.hub torch.jit
torch.accelerator torch.backends torch.backends.cudnn torch.backends.cuda torch.compiler torch.export
torch.library torch.multiprocessing torch.overrides torch.masked torch.nested torch.sparse torch.testing
torch.nn.attention torch.distributed.device_mesh
""".split()


def read(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


def cuda_names(facts: Path) -> dict[str, str]:
    names = {}
    for row in read(facts / "migrate" / "torch_cuda_vs_npu_all.tsv"):
        name, in_cuda, in_npu = row.values()
        if in_cuda == "1":
            names[name] = "=" if in_npu == "1" else "-"
    for row in read(facts / "torch_npu" / "native_api_2_13.tsv"):
        api, counterpart = row["api"], row["npu_name"] or ""
        if api.startswith("torch.cuda.") and counterpart:
            short = re.sub(r"^torch(_npu)?\.npu\.", "", counterpart)
            names[api.removeprefix("torch.cuda.")] = "=" if short == api.removeprefix("torch.cuda.") else short
    names.update(CORRECTIONS)
    return dict(sorted(names.items()))


def vendor_213(row: dict[str, str]) -> str:
    marks = [row[soc] for soc in ("A2", "A3", "950DT")]
    return "S" if "✔" in marks and "✘" not in marks else "L" if "✔" in marks else "U"


def public_api() -> set[str]:
    import importlib

    import torch

    names = set()
    for name in MODULES:
        module = importlib.import_module(name)
        public = getattr(module, "__all__", None) or [n for n in dir(module) if not n.startswith("_")]
        for attribute in public:
            try:
                value = getattr(module, attribute, None)
            except Exception:  # computed on access, by a device that is not here
                continue
            if (
                value is not None
                and not inspect.ismodule(value)
                and not isinstance(value, (torch.dtype, int, str, float))
            ):
                names.add(f"{name}.{attribute}")
    names |= {f"torch.Tensor.{n}" for n in dir(torch.Tensor) if not n.startswith("_")}
    return names


def exists(api: str) -> bool:
    import importlib

    parts = api.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            value = importlib.import_module(".".join(parts[:cut]))
        except Exception:
            continue
        for part in parts[cut:]:
            try:
                value = getattr(value, part)
            except AttributeError:
                return part in getattr(value, "__annotations__", {})
            except Exception:  # it is there, but asks for a device that is not
                return True
        return True
    return False


def registered(key: str) -> set[str]:
    import torch

    names = torch._C._dispatch_get_registrations_for_dispatch_key(key)
    return {name.split("::")[1].split(".")[0] for name in names if name.startswith("aten::")}


def operators() -> tuple[set[str], set[str]]:
    """Operators PyTorch dispatches by device, and those the plugin has a kernel for."""
    import torch_npu  # noqa: F401

    return registered("CPU"), registered("PrivateUse1")


def ours(api: str, vendor: dict[str, str], dispatched: set[str], kernels: set[str]) -> str:
    if not exists(api):
        return "-"
    if api in vendor and vendor[api] == "S":
        return "S"
    short = api.rsplit(".", 1)[1]
    holder = api.rsplit(".", 1)[0]
    is_operator = short in dispatched and holder in HOLDERS
    if is_operator:
        return "S" if short in kernels else "L"
    status = vendor.get(api, "S")
    if status == "U" and api.startswith(COMPOSED) and "DataParallel" not in api and "data_parallel" not in api:
        return "L"  # made of operators that exist or run on the CPU
    return status


def main() -> None:
    os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"  # PyTorch's own names first
    facts = Path(sys.argv[1])
    OUT.mkdir(parents=True, exist_ok=True)
    lines = [f"{name}\t{target}" for name, target in cuda_names(facts).items()]
    (OUT / "cuda_names.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")

    support = read(facts / "migrate" / "api_support.tsv")
    known = {row["api"]: [row[v] for v in VERSIONS] for row in support if row["api"].startswith("torch.")}
    vendor = {row["api"]: vendor_213(row) for row in read(facts / "torch_npu" / "native_api_2_13.tsv")}
    listed = sorted(set(known) | set(vendor) | public_api())
    dispatched, kernels = operators()
    table = []
    for api in listed:
        columns = known.get(api, ["?"] * len(VERSIONS))
        table.append("\t".join([api, *columns, ours(api, vendor, dispatched, kernels)]))
    table.insert(0, "\t".join(["api", *VERSIONS, "2.13"]))
    (OUT / "support.tsv").write_text("\n".join(table) + "\n", encoding="utf-8")
    print(f"{len(lines)} torch.cuda names, {len(table) - 1} APIs")


if __name__ == "__main__":
    main()

"""Make the migration tool's tables, migrate/data/{cuda_names,support}.tsv, from fact tables, torch and our plugin.

    python tools/codegen/migrate_tables.py FACTS_DIR

Run by hand when the facts, PyTorch or the plugin's operators change; the tables are committed, so the build needs none
of them. torch_npu must be importable: its registrations are the operator status.
FACTS_DIR holds migrate/{api_support,torch_cuda_vs_npu_all}.tsv and torch_npu/{api,native_api_2_13}.tsv.

support.tsv: api, then one column a PyTorch version with S supported, L supported with limits, U unsupported, ? in
doubt, - not in that version. The columns up to 2.8 are the vendor's lists; 2.13 is ours: PyTorch's public API, what the
plugin registers (an operator without a kernel runs on the CPU: L; a module is what its function is), and what the
vendor's list for 2.13 leaves out of every chip. What that list leaves out of one chip only says nothing here: it does
so with datasets, storages and hooks.
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
COMPOSED = tuple(f"torch.{name}." for name in "nn fft func linalg nested".split())
NO_OPERATORS = ("torch.compiler.", "torch.export.")
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
    return "S" if "✔" in (row[soc] for soc in ("A2", "A3", "950DT")) else "U"


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


def registered(*keys: str) -> set[str]:
    """Operators with their overload."""
    import torch

    names = (torch._C._dispatch_get_registrations_for_dispatch_key(key) for key in keys)
    return {name[6:] for key in names for name in key if name.startswith("aten::")}


def bare(names: set[str]) -> set[str]:
    return {name.split(".")[0] for name in names}


def operators() -> dict[str, bool]:
    """Operators that PyTorch dispatches by device: whether there is a kernel, the plugin's or PyTorch's for any device.

    An overload that writes into a given tensor serves the one that makes its result: alone it says nothing. The kernel
    that PyTorch has for the latter (NonFunctional) counts where it is not a call of the former."""
    import torch_npu  # noqa: F401

    here = registered("CPU")
    into = {name for name in here if name.endswith("out")}
    kernels = bare(registered("PrivateUse1"))
    composite = registered("CompositeExplicitAutograd", "CompositeImplicitAutograd")
    composite |= {n for n in registered("CompositeExplicitAutogradNonFunctional") if bare({n}).isdisjoint(bare(into))}
    missing = bare(here - into - composite) - kernels
    return {name: name not in missing for name in bare(here)}


def function_of(api: str) -> str:
    """torch.nn.functional.max_pool2d for torch.nn.MaxPool2d; any other name is its own."""
    holder, short = api.rsplit(".", 1)
    snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", short).lower()
    function = f"torch.nn.functional.{snake}"
    return function if holder == "torch.nn" and short[0].isupper() and exists(function) else api


def ours(api: str, vendor: dict[str, str], kernels: dict[str, bool]) -> str:
    if not exists(api):
        return "-"
    holder, short = function_of(api).rsplit(".", 1)
    if short in kernels and holder in HOLDERS:
        return "S" if kernels[short] else "L"
    status = "S" if api.startswith(NO_OPERATORS) else vendor.get(api, "S")
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
    kernels = operators()
    table = []
    for api in listed:
        columns = known.get(api, ["?"] * len(VERSIONS))
        table.append("\t".join([api, *columns, ours(api, vendor, kernels)]))
    table.insert(0, "\t".join(["api", *VERSIONS, "2.13"]))
    (OUT / "support.tsv").write_text("\n".join(table) + "\n", encoding="utf-8")
    print(f"{len(lines)} torch.cuda names, {len(table) - 1} APIs")


if __name__ == "__main__":
    main()

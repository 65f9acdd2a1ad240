"""docs/clients.md: frameworks that were run on the NPU, from tests/clients/record.yaml; gen_docs.py writes it."""

from __future__ import annotations

import ast
import textwrap
from pathlib import Path

from tools.codegen import tables

ROOT = Path(__file__).resolve().parents[2]
CLIENTS = ROOT / "tests" / "clients"
# The packages of a family that its page names with their versions.
NAMED = {
    "accelerate", "colossalai", "deepspeed", "diffusers", "fairscale", "lightning", "megatron-core", "monai", "peft",
    "sentence-transformers", "timm", "torch-geometric", "torchmetrics", "transformers", "trl",
}  # fmt: skip


# Archives that a family's programs take from beside the package index, as their README says.
ARCHIVED = {"megatron_lm_core_r0.12.0": "Megatron-LM core_r0.12.0", "mindspeed": "MindSpeed 028de58c",
            "torchvision_references": "torchvision's references 49496c4f"}  # fmt: skip


KNOW = [
    "## What to know",
    "",
    "- DeepSpeed reads `ASCEND_HOME_PATH` while it is imported. Where no variable names a CANN toolkit, importing",
    "  torch_npu sets it to the root in use, so nothing need be set. Its buckets of 5e8 numbers are 2 GB each:",
    "  name smaller ones for small models.",
    "- DeepSpeed's offload (`offload_optimizer`, `offload_param`) compiles its CPU Adam the first time, with g++",
    "  and ninja: one to three minutes. The times of deepspeed_offload are those after that.",
    "- Megatron-core 0.16.1 runs with `transfer_to_npu` and two additions, which megatron_gpt.py of tests/clients",
    "  shows: clipping gradients compares `Tensor.type()` with `torch.cuda.FloatTensor`, and a mixture of experts",
    "  without Transformer Engine asks for a name that Megatron-core does not define.",
    "- ColossalAI's HybridAdam wants a CPU kernel even where all is on the NPU, and its own for x86 needs CUDA:",
    "  `import torch_npu.contrib.colossalai` first, which registers PyTorch's by ColossalAI's own hook. HybridAdam",
    "  and FusedAdam work with `transfer_to_npu`; FusedSGD and FusedLAMB have no kernel and say so. The import",
    '  also gives `mixed_precision="fp16"` a scaler that scales: ColossalAI makes CUDA\'s, off without CUDA.',
    "- ColossalAI 0.5.0 needs what 0.4.9 needs, nothing more.",
    "- fairscale's `ShardedDataParallel` keeps gradients in buckets, which `zero_grad()` of PyTorch 2 takes from",
    "  them: `zero_grad(set_to_none=False)`, as on the CPU. On one rank `FullyShardedDataParallel` with",
    "  `mixed_precision=True` casts an alias of each gradient: it stays in 16 bits, which no optimizer takes.",
    "- MindSpeed's `--use-fused-swiglu` takes the place of Megatron's fusion: it does nothing beside",
    "  `--no-bias-swiglu-fusion`. `--use-fused-rotary-pos-emb` compiles C++ of MindSpeed's when it is first used.",
    "  Its own unit tests of the latter pass (mindspeed_own.yaml of tests/clients).",
    "- accelerate's own scripts, of which `accelerate test` runs the first, pass on one rank and on two, but for",
    "  test_ddp_comm_hook: PyTorch's DistributedDataParallel takes the bf16 hook on CUDA and XPU alone.",
    "- torchvision's own script of classification (its `references`) runs as it stands, `--device cuda`, behind",
    "  `transfer_to_npu`. With `--amp` its first steps are left out: at the scaler's first scale fp16 overflows.",
    "- `colossalai run` starts the `torchrun` of `PATH` on every host, its own through fabric: both must be of one",
    "  environment. Without fabric no command of `colossalai` starts.",
    "- transformers 4.51 imports `einops` where torch_npu is installed: install `einops`, too.",
    '- Lightning\'s Trainer takes `accelerator="npu"`: [torch_npu.contrib.lightning](contrib.md) registers it.',
    "",
]

# Frameworks as their users know them: packages, rows of clients.yaml, and what a program has to change. Whether
# they work is read from the record.
FRAMEWORKS = [
    ("deepspeed", "deepspeed_zero deepspeed_offload deepspeed_pipeline", "nothing"),
    ("transformers", "transformers_loop transformers_trainer", "nothing; install `einops`, too"),
    ("accelerate, peft", "accelerate_peft", "nothing"),
    ("transformers", "transformers5_loop transformers5_trainer", "nothing"),
    ("diffusers, trl, sentence-transformers", "diffusers_trl", "nothing"),
    ("lightning", "lightning_trainer lightning_own", '`accelerator="npu"`'),
    ("timm, torchvision, monai, torch-geometric, torchmetrics", "vision", "nothing"),
    ("torchvision's training scripts", "torchvision_references torchvision_ranks torchvision_similarity",
     "`python -m torch_npu.contrib.transfer_to_npu train.py --device cuda`"),
    ("colossalai", "colossalai_booster colossalai_adam colossalai_zero",
     "`import torch_npu.contrib.colossalai` first"),
    ("colossalai", "colossalai05_booster colossalai05_adam colossalai05_zero",
     "`import torch_npu.contrib.colossalai` first"),
    ("fairscale", "fairscale_sharded fairscale_fully_sharded", "`transfer_to_npu`"),
    ("megatron-core", "megatron_gpt", "`transfer_to_npu`, and two additions (below)"),
    ("MindSpeed 028de58c with Megatron-LM core_r0.12.0", "mindspeed_gpt",
     "`import mindspeed.megatron_adaptor` first"),
]  # fmt: skip


def packages(family: str, archives: list[str]) -> str:
    pins = (CLIENTS / "requirements" / f"{family}.txt").read_text(encoding="utf-8").splitlines()
    named = (line.partition("==") for line in pins if not line.startswith("#"))
    found = [f"{name} {version}" for name, _, version in named if name in NAMED]
    return ", ".join([*(ARCHIVED[name] for name in archives), *found])


def line(group: str, case: str, what: dict, cpu_in: dict[str, str]) -> str:
    program, _, ranks = group.rpartition("-")
    run, _, precision = case.rpartition(" ")
    if precision in cpu_in:
        precision += f", CPU {cpu_in[precision]}"
    if "error" in what:
        return f"| {program} {run} | {precision} | {ranks} | fails: {what['error'].replace('|', '/')} | | | |"
    first, last, cpu = what["loss"]
    npu_seconds, cpu_seconds = what["seconds"]
    fell = ", ".join(f"{name} ×{count}" for name, count in what["fallbacks"].items()) or "none"
    loss = f"{first:g} → {last:g} | {cpu:g} | {what['difference']:.1e}"
    return f"| {program} {run} | {precision} | {ranks} | {loss} | {fell} | {npu_seconds:g}, {cpu_seconds:g} |"


def cases(group: dict) -> dict[str, dict]:
    return {case: what for case, what in group.items() if case != "seen"}


def version(family: str, name: str) -> str:
    """The package and its version, as the family's list pins it; a name without one is said as it is."""
    lists = (ROOT / "requirements" / "no-deps.txt", CLIENTS / "requirements" / f"{family}.txt")
    listed = [text for path in lists for text in path.read_text(encoding="utf-8").splitlines()]
    pins = dict(text.split("==") for text in listed if "==" in text and not text.startswith("#"))
    return f"{name} {pins[name]}" if name in pins else name


def right(case: str, what: dict, row: dict) -> bool:
    """Losses are the CPU's, within what clients.yaml allows, and nothing fell back that it does not name."""
    precision = case.rpartition(" ")[2]
    named = row.get("fall back", {})
    return (
        "error" not in what
        and what["difference"] <= row["allowed"][precision]
        and what["fallbacks"].keys() <= named.keys()
    )


def framework(names: str, groups: str, change: str, rows: dict, record: dict) -> str:
    """What the record has of the frameworks' runs, in a word."""
    (family,) = {rows[name]["family"] for name in groups.split()}
    ran = [(int(ranks), right(case, what, rows["default"] | rows[row]))
           for row, _, ranks, group in ((*name.rpartition("-"), group) for name, group in record.items())
           if row in groups.split() for case, what in cases(group).items()]  # fmt: skip
    failed, ranks = sum(not well for _, well in ran), sorted({count for count, _ in ran})
    on = f"{len(ran)} runs, {' and '.join(map(str, ranks))} card{'' if ranks == [1] else 's'}"
    said = f"{failed} fail, of {on}" if failed else f"works: {on}"
    return f"| {', '.join(version(family, name) for name in names.split(', '))} | {said} | {change} |"


def meanings(names: list[str], rows: dict) -> list[str]:
    """A line a program: what it is, and which of its runs is what."""
    programs: dict[str, list[str]] = {}
    for name in names:
        programs.setdefault(rows[name].get("program", name), []).append(name)
    lines = []
    for program, own in programs.items():
        text = ast.get_docstring(ast.parse((CLIENTS / "programs" / f"{program}.py").read_text(encoding="utf-8")))
        means = {run: what for name, row in rows.items() if row.get("program", name) == program
                 for run, what in row.get("means", {}).items()}  # fmt: skip
        named = dict.fromkeys(run for name in own for run in rows[name]["runs"] if run in means)
        runs = [f"`{run}`: {means[run]}" for run in named]
        lines.append(f"- [{program}.py](../tests/clients/programs/{program}.py): {text.splitlines()[0]}")
        if runs:
            lines += textwrap.wrap(f"{'; '.join(runs)}.", 116, initial_indent="  ", subsequent_indent="  ")
    return lines


def days(groups: dict[str, dict]) -> list[str]:
    """When, and of which commit, where the record says it."""
    told: dict[str, list[str]] = {}
    for name, group in groups.items():
        if seen := group.get("seen"):
            told.setdefault(" at ".join(seen.values()), []).append(f"`{name}`")
    whole = len(told) == 1 and sum(map(len, told.values())) == len(groups)
    parts = [day if whole else f"{', '.join(names)} {day}" for day, names in told.items()]
    return [f"Seen: {'; '.join(parts)}.", ""] if parts else []


def page() -> str:
    rows, record = tables.load(CLIENTS / "clients.yaml"), tables.load(CLIENTS / "record.yaml")
    lines = [
        "# Frameworks on the NPU",
        "",
        "Unmodified packages, each trained for some twenty steps on the NPU and on the CPU: the last run of",
        "`python -m tests.clients.record` ([tests/clients](../tests/clients/README.md)), whose record this shows.",
        "What works has the CPU's losses, within what [clients.yaml](../tests/clients/clients.yaml) allows, and",
        "nothing falls back to the CPU that is not named there.",
        "",
    ]
    lines += [
        "| framework | what came of it | what to change in a program |",
        "|---|---|---|",
        *(framework(*row, rows, record) for row in FRAMEWORKS),
        "",
        "How to install each and a small program: [frameworks: what to type](guide/frameworks.md).",
        "",
    ]
    lines += KNOW
    lines += [
        "## What a row says",
        "",
        "A table for each list of versions ([requirements](../tests/clients/requirements)), below what its names mean.",
        "The difference is the largest of any step's loss, relative to the CPU's or, near zero, a tenth of the first.",
        "Where the framework has no such precision on the CPU, the CPU's run is in another, which the row says.",
        "Seconds are the wall time of the run on the NPU and on the CPU, one thread, with the framework's own start",
        "and what the first run of a process warms up: they tell what a test takes; speed is in",
        "[performance.md](performance.md).",
        "",
    ]
    for family in sorted({row["family"] for name, row in rows.items() if name != "default"}):
        groups = [group for group in record if rows[group.rpartition("-")[0]]["family"] == family]
        if groups:
            names = list(dict.fromkeys(group.rpartition("-")[0] for group in groups))
            archives = list(dict.fromkeys(name for row in names for name in rows[row].get("archives", [])))
            lines += [
                f"## {packages(family, archives)}",
                "",
                *meanings(names, rows),
                "",
                *days({name: record[name] for name in groups}),
                "| run | precision | ranks | loss | CPU's last | difference | fallbacks | seconds |",
                "|---|---|---|---|---|---|---|---|",
                *(
                    line(group, case, what, rows[group.rpartition("-")[0]].get("cpu", {}))
                    for group in groups
                    for case, what in cases(record[group]).items()
                ),
                "",
            ]
    return "\n".join(lines) + "\n"

"""The Dockerfile and the workflow of examples/: what they name exists, what they set is in force; neither is run."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

from tests import forked
from tools.codegen import tables

ROOT = Path(__file__).resolve().parents[2]
DOCKERFILE = (ROOT / "examples/docker/Dockerfile").read_text(encoding="utf-8")
WORKFLOW = tables.load(ROOT / "examples" / "ci" / "npu-tests.yml")


def instructions(name: str) -> list[str]:
    lines = re.sub(r"^ *#.*\n", "", DOCKERFILE, flags=re.M).replace("\\\n", " ").splitlines()
    return [line.removeprefix(name).strip() for line in lines if line.startswith(name + " ")]


def test_the_dockerfile_copies_files_that_exist():
    copies = [line.split() for line in instructions("COPY") if not line.startswith("--from")]
    assert len(copies) == 2
    assert [source for words in copies for source in words[:-1] if not (ROOT / source).exists()] == []


def test_the_dockerfile_installs_pinned_packages():
    pins = dict(re.findall(r"^([\w.-]+)==(\S+)", (ROOT / "requirements/dev.txt").read_text(), re.M))
    (install,) = [line for line in instructions("RUN") if "torch==" in line]
    constrained = [part for part in install.split("&&") if "-c /requirements/dev.txt" in part]
    names = [
        word for part in constrained for word in part.split("install", 1)[1].split() if re.match(r"[A-Za-z]", word)
    ]
    loose = {name for name in names if name not in pins and "==" not in name and "://" not in name}
    assert loose == {"setuptools"}


def test_the_dockerfile_asks_for_no_device():
    assert "--privileged" not in "".join(instructions("RUN"))
    assert instructions("ENV") == ["TORCH_TRANSFER_TO_NPU=1"]


def test_the_workflows_machine_is_what_it_says():
    (job,) = WORKFLOW["jobs"].values()
    (environment,) = [step["env"] for step in job["steps"] if step.get("run") == "pytest"]
    code = (
        "import json, torch; free, total = torch.npu.mem_get_info();"
        "print(json.dumps([torch.npu.device_count(), torch.npu.get_device_name(), total / 2**30]))"
    )
    settings = {name: str(value) for name, value in environment.items()}
    done = forked.run(["-c", code], env={**os.environ, **settings}, cwd="/")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [2, "Ascend910B2", 2]


def test_the_workflow_builds_each_commit_once():
    (job,) = WORKFLOW["jobs"].values()
    (build,) = [step for step in job["steps"] if str(step.get("run", "")).startswith("pip wheel")]
    (kept,) = [step for step in job["steps"] if step.get("id") == "wheel"]
    assert build["if"] == "steps.wheel.outputs.cache-hit != 'true'"
    assert "steps.commit.outputs.sha" in kept["with"]["key"] and kept["with"]["path"] in build["run"]

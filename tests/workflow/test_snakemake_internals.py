"""What the workflow takes from inside of Snakemake, in the version that is installed."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from snakemake.scheduling.job_scheduler import JobScheduler

from pam.runtime import snakemake_internals as internals
from pam.runtime.errors import UserError
from tests.workflow.checkouts import ROOT

SNAKEFILE = """
import json
from dataclasses import asdict
from pam.runtime import snakemake_internals as internals

line = internals.command_line(workflow)

onstart:
    jobs = [(job.rule, job.has_output) for job in internals.planned_jobs(workflow)]
    told = {"missing": internals.missing_parts(workflow), "line": asdict(line), "jobs": jobs}
    told |= {"targets": internals.rules_without_output(workflow)}
    told |= {"cores": internals.cores(workflow), "main": internals.is_main_process(workflow)}
    with open("told.json", "w") as file:
        json.dump(told, file)

rule all:
    input: "made"

rule make:
    output: "made"
    shell: "touch {output}"
"""


def test_this_version_of_snakemake_has_every_part_and_each_says_what_is_expected(
    tmp_path: Path,
) -> None:
    (tmp_path / "Snakefile").write_text(SNAKEFILE, encoding="utf-8")
    (tmp_path / "own.yaml").write_text("a: 1\n", encoding="utf-8")
    command = [sys.executable, "-m", "snakemake", "--cores", "2", "--config", "seed=2"]
    command += ["--configfile", "own.yaml", "--default-resources", "device=cpu"]
    environment = {"PYTHONPATH": str(ROOT), "HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr

    record = json.loads((tmp_path / "told.json").read_text(encoding="utf-8"))
    assert record["missing"] == [], (
        f"this Snakemake differs from {internals.VERSIONS}: see pam/runtime/snakemake_internals.py"
    )
    line = record["line"]
    assert [Path(file).name for file in line["configfiles"]] == ["own.yaml"]
    assert (line["config"], line["device"]) == ({"seed": 2}, "cpu")
    assert (line["moves_files"], line["has_config"]) == (False, False)
    assert sorted(record["jobs"]) == [["all", False], ["make", True]]
    assert (record["targets"], record["cores"], record["main"]) == (["all"], 2, True)


def test_no_other_file_uses_them() -> None:
    attributes = "|".join({path.partition(".")[0] for path in internals.WORKFLOW_PARTS})
    inner = re.compile(
        rf"\bworkflow\.(?:{attributes})\b|(?:from|import) snakemake\.(?!utils\b)", re.MULTILINE
    )
    files = [ROOT / "Snakefile", ROOT / "workflow/Snakefile"]
    files += [*(ROOT / "workflow").rglob("*.smk"), *(ROOT / "pam").rglob("*.py")]
    users = [file.name for file in files if inner.search(code_of(file))]

    assert users == []  # it reads them by their paths


def code_of(file: Path) -> str:
    """Return the lines of a file that are no comments and name no module `pam.workflow`."""
    lines = file.read_text(encoding="utf-8").splitlines()
    lines = [line for line in lines if not line.lstrip().startswith("#")]
    return "\n".join(lines).replace("pam.workflow", "")


def test_a_snakemake_without_the_parts_is_named_or_done_without() -> None:
    bare = SimpleNamespace()

    assert len(internals.missing_parts(bare)) == len(internals.WORKFLOW_PARTS)
    with pytest.raises(UserError, match=r"this Snakemake has no `workflow\.config_settings"):
        internals.command_line(bare)
    assert internals.planned_jobs(bare) == internals.rules_without_output(bare) == []
    assert internals.is_main_process(bare) and internals.cores(bare) == 1

    internals.share_gpus(bare, 1)
    internals.wake_once(SimpleNamespace)


def woken(scheduler: JobScheduler, looks: int) -> int:
    """Return how often a scheduler is woken that has looked for jobs so many times."""
    for _ in range(looks):
        scheduler._schedule_reevalutation(0.05)

    times = 0
    deadline = time.monotonic() + 0.5
    while scheduler._open_jobs.acquire(timeout=max(0.0, deadline - time.monotonic())):
        times += 1

    return times


def bare_scheduler(kind: type[JobScheduler]) -> JobScheduler:
    scheduler = kind.__new__(kind)
    scheduler._open_jobs = threading.Semaphore(0)
    return scheduler


def test_however_often_it_looked_for_jobs_it_is_woken_once_and_then_once_more() -> None:
    class Mended(JobScheduler):
        pass

    internals.wake_once(Mended)
    scheduler = bare_scheduler(Mended)
    assert [woken(scheduler, 20), woken(scheduler, 20), woken(scheduler, 1)] == [1, 1, 1]
    assert woken(bare_scheduler(JobScheduler), 20) == 20  # else the mend has no use any more

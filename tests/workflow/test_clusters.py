"""What jobs ask of a cluster, and the profiles for it: dry runs."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from pam.experiments.loading import load_plan
from pam.runtime.errors import UserError
from tests.workflow.checkouts import ROOT, Checkout, Outcome
from tests.workflow.conftest import OWN
from tests.workflow.test_plans import fake_gpus

PAGE = (ROOT / "docs/clusters.md").read_text(encoding="utf-8")
PROFILES = {
    profile["executor"]: profile
    for profile in map(yaml.safe_load, re.findall(r"```yaml\n(.*?)```", PAGE, flags=re.DOTALL))
    if "executor" in profile
}
COMPUTING = ("train_run", "predict_run")


@pytest.fixture
def outspoken(fresh: Checkout) -> Checkout:
    """A checkout whose plans show all of each job, and not a message in its place."""
    for path in (fresh.folder / "workflow/rules").glob("*.smk"):
        text = path.read_text(encoding="utf-8")
        path.write_text(re.sub(r"    message:\n(        .*\n)+", "", text), encoding="utf-8")

    return fresh


def asked_by(outcome: Outcome, rule: str) -> list[dict[str, str]]:
    """Return the resources of each job of a rule."""
    assert outcome.code == 0, outcome.said

    jobs = re.findall(rf"^rule {rule}:\n((?:    .*\n)+)", outcome.said, flags=re.MULTILINE)
    lines = [re.findall("    resources: (.*)", job)[0] for job in jobs]

    assert lines, f"no job of {rule}: {outcome.said}"

    return [dict(part.split("=", 1) for part in line.split(", ")) for line in lines]


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        ("{mem_mb: 5000}", {"soft": 4000, "prior-joint": 5000}),
        ("{mem_mb: 5000, models: {soft: {mem_mb: 7000}}}", {"soft": 7000, "prior-joint": 5000}),
        ("{models: {prior-joint: {mem_mb: 7000}}}", {"soft": 4000, "prior-joint": 7000}),
        ("{models: {soft: {threads: 2}}}", {"soft": 4000, "prior-joint": 3000}),
    ],
)
def test_tasks_and_models_say_what_differs_for_them(
    tmp_path: Path, resources: str, expected: dict[str, int]
) -> None:
    file = tmp_path / "experiment.yaml"
    file.write_text(
        "experiment: x\nmodels: [soft, prior-joint]\n"
        "resources: {mem_mb: 3000, runtime: 99, models: {soft: {mem_mb: 4000}}}\n"
        f"tasks: {{one: {{dataset: d}}, two: {{dataset: d, resources: {resources}}}}}\n",
        encoding="utf-8",
    )
    plan = load_plan(files=[file])

    assert plan.resources("one").mem_mb == 3000
    assert plan.resources("one", "soft").mem_mb == 4000

    for model, mem_mb in expected.items():
        resources_of_model = plan.resources("two", model)
        assert (resources_of_model.mem_mb, resources_of_model.runtime) == (mem_mb, 99)


@pytest.mark.parametrize(
    ("resources", "message"),
    [
        ("{models: {sofd: {mem_mb: 1}}}", "unknown model of the experiment `sofd`"),
        ("{models: {soft: {memory: 1}}}", "unknown key `resources.models.soft.memory`"),
        ("{models: {soft: {models: {}}}}", "unknown key `resources.models.soft.models`"),
        ("{gpu_model: 'a100; rm'}", "`resources.gpu_model`: "),
    ],
)
def test_what_makes_no_sense_is_named_with_its_line(
    tmp_path: Path, resources: str, message: str
) -> None:
    file = tmp_path / "experiment.yaml"
    text = (
        f"experiment: x\nmodels: [soft]\nresources: {resources}\ntasks: {{one: {{dataset: d}}}}\n"
    )
    file.write_text(text, encoding="utf-8")

    with pytest.raises(UserError) as caught:
        load_plan(files=[file])
    assert message in str(caught.value)
    assert str(caught.value).startswith(f"{file}:3: ")


def test_each_job_asks_for_what_the_configuration_says(outspoken: Checkout) -> None:
    outspoken.edit(
        "own/experiment.yaml",
        "device: cpu",
        "resources: {threads: 2, mem_mb: 3000, runtime: 99, processes: 2, gpu_model: a100, "
        "decode_runtime: 77, data_mem_mb: 1111, data_runtime: 22}",
    )
    outcome = outspoken.plan("tables", *OWN, "--profile", "cluster")
    trainings = asked_by(outcome, "train_run")

    assert len(trainings) == 2

    for training in trainings:
        assert (training["mem_mb"], training["runtime"]) == ("3000", "99")
        assert (training["gpu"], training["gpu_model"], training["processes"]) == ("2", "a100", "2")

    for one in asked_by(outcome, "predict_run"):
        assert (one["runtime"], one["gpu"], one["gpu_model"]) == ("77", "1", "a100")

    (preparation,) = asked_by(outcome, "prepare_data")

    assert (preparation["mem_mb"], preparation["runtime"]) == ("1111", "22")
    assert "gpu" not in preparation


def test_a_key_on_the_command_line_takes_no_gpu_away(outspoken: Checkout) -> None:
    """Snakemake replaces all of a profile's `config:` by `--config`."""
    outspoken.edit("own/experiment.yaml", "device: cpu\n", "")
    asked = []
    for device in ([], ["device=cpu"]):
        outcome = outspoken.plan(
            "train", *OWN, "--profile", "cluster", "--config", "seeds=[1]", *device
        )
        asked.append({one["gpu"] for one in asked_by(outcome, "train_run")})

    assert asked == [{"1"}, {"0"}]


def test_a_cluster_without_gpus_is_one_word(outspoken: Checkout) -> None:
    outspoken.edit("cluster/config.yaml", "device: cuda", "device: cpu")
    outcome = outspoken.plan("tables", *OWN, "--profile", "cluster")
    for rule in COMPUTING:
        assert {one["gpu"] for one in asked_by(outcome, rule)} == {"0"}


def test_gpus_of_the_login_node_are_no_limit_to_those_of_the_cluster(
    outspoken: Checkout, tmp_path: Path
) -> None:
    outspoken.edit("own/experiment.yaml", "device: cpu", "resources: {processes: 2}")
    path = fake_gpus(tmp_path / "bin", 1)
    on_cluster = outspoken.plan("train", *OWN, "--profile", "cluster", PATH=path)

    assert {one["gpu"] for one in asked_by(on_cluster, "train_run")} == {"2"}

    here = outspoken.plan("train", *OWN, PATH=path)
    assert {one["gpu"] for one in asked_by(here, "train_run")} == {"1"}


def test_partition_account_and_kind_of_gpu_are_changed_in_one_place(outspoken: Checkout) -> None:
    path = outspoken.folder / "cluster/config.yaml"
    text = path.read_text(encoding="utf-8")
    for block in ("slurm_partition: cpu", "slurm_account: my-account"):
        text = text.replace(f"# {block}", block)

    head, mark, tail = text.partition("# set-resources:")
    block, end, below = tail.partition("\n\n")
    path.write_text(head + (mark + block).replace("# ", "") + end + below, encoding="utf-8")
    outcome = outspoken.plan("tables", *OWN, "--profile", "cluster")
    for rule in COMPUTING:
        for one in asked_by(outcome, rule):
            assert (one["slurm_partition"], one["gpu_model"]) == ("gpu", "a100")
            assert one["slurm_account"] == "my-account"

    (preparation,) = asked_by(outcome, "prepare_data")

    assert preparation["slurm_partition"] == "cpu"
    assert "gpu_model" not in preparation


@pytest.mark.parametrize(
    ("executor", "needed"),
    [("cluster-generic", []), ("kubernetes", ["snakemake-storage-plugin-fs"])],
)
def test_other_executors_plan_the_same_jobs(
    outspoken: Checkout, executor: str, needed: list[str]
) -> None:
    for plugin in (f"snakemake-executor-plugin-{executor}", *needed):
        if importlib.util.find_spec(plugin.replace("-", "_")) is None:
            pytest.skip(f"{plugin} is not installed")

    profile: dict[str, Any] = PROFILES[executor]
    if "directory" in profile:
        folder = outspoken.folder
        profile |= {"directory": str(folder), "default-storage-prefix": f"{folder}-storage"}

    outspoken.write("other/config.yaml", yaml.safe_dump(profile))
    outcome = outspoken.plan(*OWN, "--profile", "other")
    trainings = asked_by(outcome, "train_run")

    assert len(trainings) == 2
    assert {one["gpu"] for one in trainings} == {"1"}


def test_every_rule_that_asks_for_a_gpu_has_its_line_in_the_profile() -> None:
    text = "".join(
        path.read_text(encoding="utf-8") for path in sorted((ROOT / "workflow/rules").glob("*.smk"))
    )
    rules = dict(re.findall(r"^rule (\w+):\n(.*?)(?=^\S|\Z)", text, re.M | re.S))
    asking = {name for name, body in rules.items() if "gpu_model=" in body}
    asking |= {
        name
        for base, name in re.findall(r"^use rule (\w+) as (\w+) with:", text, re.M)
        if base in asking
    }
    block = (
        (ROOT / "cluster/config.yaml").read_text(encoding="utf-8").partition("# set-resources:")[2]
    )

    assert asking == set(re.findall(r"^#   (\w+): ", block, re.M)) and "train_run" in asking

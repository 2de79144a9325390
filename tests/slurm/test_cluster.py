"""An experiment on a Slurm cluster, through the profile as it is: jobs, errors, kills."""

from __future__ import annotations

import csv
import re

from tests.slurm.login import Login

MODELS = ("soft", "mono-postr-joint")
RUN = "results/tiny/nouns/soft/seed1/training.json"
LONG = "epochs: 11, state_every_s: 1"
"""Of 55 steps."""


def test_a_cluster_makes_the_tables_with_each_training_on_a_gpu_of_its_own(login: Login) -> None:
    login.experiment("epochs: 2")
    login.slow_down(1.0)

    outcome = login.run("tables")

    assert outcome.code == 0, outcome.said + login.state()
    for model in MODELS:
        assert login.outcome(model) == login.undisturbed(model)
    with (login.made.folder / "results/tiny/tables/table2.csv").open(encoding="utf-8") as file:
        assert {row["model"] for row in csv.DictReader(file)} == set(MODELS)

    # They ran at the same time, each with the GPU that Slurm had given it.
    started = login.seen("start")
    ended = login.seen("end")
    assert len(started) == len(MODELS)
    assert max(note["at"] for note in started) < min(note["at"] for note in ended)

    used_gpus = {(note["SLURMD_NODENAME"], note["SLURM_STEP_GPUS"]) for note in started}
    assert len(used_gpus) == len(MODELS)
    for note in started:
        gpu = login.cluster.gpu(note["SLURMD_NODENAME"], note["SLURM_STEP_GPUS"])
        assert note["CUDA_VISIBLE_DEVICES"] == gpu


def test_an_error_of_the_user_ends_the_run_after_two_more_tries_and_is_shown(login: Login) -> None:
    login.experiment("epochs: 1, learning_rate: 100000.0")
    login.slow_down(0)

    outcome = login.run(RUN)

    assert outcome.code == 1
    assert len(login.seen()) == 3
    assert re.search(r"error: (training diverges|the loss is no longer a number)", outcome.said)
    assert "hint: lower `training.learning_rate`" in outcome.said


def test_after_a_kill_of_snakemake_its_jobs_and_those_of_the_next_run_share_the_work(
    login: Login,
) -> None:
    login.experiment(LONG)
    login.slow_down(0.5)
    # One of two nodes, and one of its two cores, so that one of two trainings has to wait.
    login.cluster.command("scontrol", "update", "node=n2", "state=drain", "reason=test")
    login.cluster.command("sbatch", "--output=/dev/null", "--wrap=sleep 999")

    killed = login.start("train")
    login.wait_for(lambda: login.seen() and login.queue("PENDING"))
    (pending,) = login.queue("PENDING")
    login.kill(killed)

    running = login.start("train")
    login.wait_for(lambda: len(login.queue("PENDING")) == 3)
    login.cluster.command("scontrol", "update", "node=n2", "state=resume")

    assert running.wait(600) == 0, login.state()
    assert login.queue("FAILED") == [pending]
    for model in MODELS:
        assert login.record(model)["resumed"] == 0
        assert login.outcome(model) == login.undisturbed(model)

"""Trainings that a Slurm cluster interrupts: a node dies, a time limit ends.

A file of its own, as most of the time is spent in waiting: the two files' clusters wait at the same
time.
"""

from __future__ import annotations

from tests.slurm.login import Login

RUN = "results/tiny/nouns/soft/seed1/training.json"
LONG = "epochs: 11, state_every_s: 1"
"""Of 55 steps."""


def test_a_training_whose_node_dies_goes_on_from_its_last_state_on_another_node(
    login: Login,
) -> None:
    login.experiment(LONG)
    login.slow_down(0.5)

    running = login.start(RUN, "--retries", "0")
    login.wait_for((login.results / "soft/seed1/state/previous.safetensors").is_file)
    (first,) = login.seen()
    login.cluster.crash(first["SLURMD_NODENAME"])

    assert running.wait(600) == 0, login.state()
    first, second = login.seen()
    assert first["SLURM_JOB_ID"] == second["SLURM_JOB_ID"]
    assert first["SLURMD_NODENAME"] != second["SLURMD_NODENAME"]
    assert login.record("soft")["resumed"] == 1
    assert login.outcome("soft") == login.undisturbed("soft")


def test_a_training_longer_than_the_time_limit_ends_in_several_jobs(login: Login) -> None:
    login.experiment(LONG, "resources: {gpu: true, runtime: 1}\n")
    # 44 s of steps, and a job of a minute trains for no more than half of it.
    login.slow_down(0.8)

    outcome = login.run(RUN, "--retries", "0")

    assert outcome.code == 0, outcome.said + login.state()
    jobs = login.seen()
    assert len(jobs) >= 2
    assert len({note["SLURM_JOB_ID"] for note in jobs}) == 1
    assert login.record("soft")["resumed"] == len(jobs) - 1
    assert login.outcome("soft") == login.undisturbed("soft")

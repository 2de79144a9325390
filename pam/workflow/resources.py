"""The resources that a job is given: cores, memory, time and GPUs."""

from __future__ import annotations

from pam.experiments.plan import Plan
from pam.experiments.settings import Resources
from pam.workflow.rules import Wildcards, or_exit, per_job


class JobResources:
    """What the jobs of a task or a model ask of the machine or of the cluster.

    Args:
        plan: the experiment.
        gpus: how many GPUs this machine has for its jobs.
    """

    def __init__(self, plan: Plan, gpus: int = 0) -> None:
        self.plan = plan
        self.gpus = gpus
        self.experiment_device = plan.experiment.device

    @per_job
    def amount(self, wildcards: Wildcards, name: str, of_all: bool = False) -> int:
        """Return how much of a resource a job asks for; `of_all`: for all its processes."""
        resources = self._resources(wildcards)
        amount = int(getattr(resources, name))
        return amount * resources.processes if of_all else amount

    @per_job
    def gpu(self, wildcards: Wildcards) -> int:
        """Return 1 if a job that computes asks for a GPU, else 0."""
        return self._gpu(wildcards)

    @per_job
    def gpus_of_all(self, wildcards: Wildcards) -> int:
        """Return how many GPUs all processes of a training ask for."""
        return self._gpu(wildcards) * self._resources(wildcards).processes

    @per_job
    def gpu_model(self, wildcards: Wildcards) -> str:
        """Return the kind of GPU by the cluster's name for it, or nothing."""
        if not self._gpu(wildcards):
            return ""
        return self._resources(wildcards).gpu_model or ""

    @per_job
    def device(self, wildcards: Wildcards) -> str:
        """Return where a job computes; `auto` is the processor where torch can use no GPU."""
        return self.experiment_device if self._gpu(wildcards) else "cpu"

    def _gpu(self, wildcards: Wildcards) -> int:
        """Return 1 if a job asks for a GPU, else 0.

        Where `resources.gpu` is null, it does if this machine has one or `device` is cuda.
        """
        if self.experiment_device == "cpu":
            return 0
        asks = self._resources(wildcards).gpu
        if asks is None:
            asks = self.experiment_device == "cuda" or bool(self.gpus)
        return int(asks)

    def _resources(self, wildcards: Wildcards) -> Resources:
        return or_exit(self.plan.resources, wildcards.task, getattr(wildcards, "model", None))

"""All that this workflow takes from inside Snakemake, beyond its documented interface.

Snakemake may change these parts in any version. So they are used nowhere else, and each function
says why it is needed, and what happens where its part is missing. They were written for Snakemake
9.20 to 9.27. `missing_parts` names those that the installed version does not have; the tests hold
it to none.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module
from typing import Any

from pam.runtime.errors import UserError
from pam.runtime.gpus import visible

VERSIONS = "9.20 to 9.27"
REQUIRED = object()

# Parts of the object `workflow` that a Snakefile sees, by the function below that reads them.
WORKFLOW_PARTS = {
    "modifier.path_modifier.prefix": "command_line",
    "modifier.path_modifier._prefix_replacements": "command_line",
    "modifier.skip_configfile": "command_line",
    "configfiles": "command_line",
    "config_settings.configfiles": "command_line",
    "config_settings.config": "command_line",
    "resource_settings.default_resources": "command_line",
    "is_main_process": "is_main_process",
    "resource_settings.nodes": "share_gpus",
    "global_resources": "share_gpus",
    "register_resource": "share_gpus",
    "rules": "rules_without_output",
    "dag.needrun_jobs": "planned_jobs",
    "dag.reason": "planned_jobs",
    "dryrun": "is_dry_run",
    "resource_settings.cores": "cores",
}
# Parts of modules, by the function below that changes or calls them.
MODULE_PARTS = {
    "snakemake.scheduling.job_scheduler:JobScheduler._schedule_reevalutation": "wake_once",
    "snakemake.exceptions:MissingRuleException.__str__": "name_nearest",
    "snakemake.logging:logger": "add_log_handler",
    "snakemake.logging:ColorizingTextHandler": "add_log_handler",
}


def missing_parts(workflow: Any) -> list[str]:
    """Name the parts that this Snakemake does not have, each with the function that needs it."""
    missing = [
        f"workflow.{path} ({function})"
        for path, function in WORKFLOW_PARTS.items()
        if not _is_there(workflow, path)
    ]
    missing += [
        f"{path} ({function})"
        for path, function in MODULE_PARTS.items()
        if _module_part(path) is None
    ]
    return missing


def _part(owner: Any, path: str, default: Any = REQUIRED) -> Any:
    """Follow a path of attributes; where one is missing return `default`, or raise a UserError."""
    value = owner
    for name in path.split("."):
        try:
            value = getattr(value, name)
        except AttributeError as error:
            if default is not REQUIRED:
                return default
            raise UserError(
                f"this Snakemake has no `workflow.{path}`, which the workflow reads",
                hint=f"use Snakemake {VERSIONS}, for which it was written",
            ) from error

    return value


def _is_there(owner: Any, path: str) -> bool:
    """Return whether a path of attributes exists, be its value None or not."""
    above, _, name = path.rpartition(".")
    return hasattr(_part(owner, above, None) if above else owner, name)


def _module_part(path: str) -> Any:
    """Return a part of a module, as `module:Class.method`, or None where it is missing."""
    module, _, names = path.partition(":")
    try:
        return _part(import_module(module), names, None)
    except ImportError:
        return None


@dataclass(frozen=True)
class CommandLine:
    """The options of Snakemake that decide which experiment is run, and how a module changes it."""

    moves_files: bool  # the module that includes this workflow has a `prefix` or `replace_prefix`
    has_config: bool  # the module gives a `config:` of its own
    configfiles: list[str]  # after `--configfile`
    module_configfiles: list[str]  # those that the including workflow has read
    config: dict[str, Any]  # after `--config`
    device: str | None  # of `--default-resources device=...`, as a cluster's profile has it


def command_line(workflow: Any) -> CommandLine:
    """Read the options that Snakemake was called with.

    A Snakefile is given the merged `config`, which does not say which file a key is from, and has
    merged the default experiment into another one. So the files are read again, in their order.

    Where `--configfile` and `--config` cannot be read, a UserError names the versions that have
    them. Other parts are taken for unused.
    """
    resources = _part(workflow, "resource_settings.default_resources", None)
    device = None
    if resources and "device" in resources:
        device = dict(argument.split("=", 1) for argument in resources.args)["device"]

    prefix = _part(workflow, "modifier.path_modifier.prefix", None)
    replacements = _part(workflow, "modifier.path_modifier._prefix_replacements", None)
    return CommandLine(
        moves_files=bool(prefix or replacements),
        has_config=bool(_part(workflow, "modifier.skip_configfile", False)),
        configfiles=[str(file) for file in _part(workflow, "config_settings.configfiles")],
        module_configfiles=[str(file) for file in _part(workflow, "configfiles", [])],
        config=dict(_part(workflow, "config_settings.config")),
        device=device,
    )


def is_main_process(workflow: Any) -> bool:
    """Return whether this process plans the jobs, rather than being one of them.

    A job must not check or delete what the run that started it has prepared. Where Snakemake does
    not say, every process is taken for the main one.
    """
    return bool(_part(workflow, "is_main_process", True))


def share_gpus(workflow: Any, jobs_per_gpu: int) -> int:
    """Let Snakemake share out this machine's GPUs, and return their number.

    It knows cores and memory, but no GPUs. A cluster shares out its own, and `--resources gpu=N`
    takes precedence. Where the parts are missing, nothing is registered: all GPU jobs start at
    once, and wait for one another by the locks of `pam.runtime.gpus`.
    """
    gpus = len(visible())
    # On a cluster there is a number of nodes.
    nodes = _part(workflow, "resource_settings.nodes", None)
    resources = _part(workflow, "global_resources", {})
    register = _part(workflow, "register_resource", None)
    is_here = is_main_process(workflow) and nodes is None
    if gpus and is_here and "gpu" not in resources and register is not None:
        register("gpu", gpus * jobs_per_gpu)
    return gpus


def rules_without_output(workflow: Any) -> list[str]:
    """List the names of the rules that only collect files: the targets to ask for.

    Where the rules cannot be listed, messages name none.
    """
    return [rule.name for rule in _part(workflow, "rules", []) if not rule.output]


def wake_once(scheduler: Any = None) -> None:
    """Let the scheduler have one timer pending, not one for each job that has ended.

    While jobs wait for a core, Snakemake (9.27) looks for one to start whenever a job ends, and
    once more a second later, for its limit of jobs a second. That look asks for the next: after a
    thousand jobs there are a thousand looks a second, and as many threads. The limit is kept: the
    pending look is no later than the one asked for.

    Where the method is missing, the scheduler is left as it is.

    Args:
        scheduler: the class to change; None: Snakemake's own.
    """
    if scheduler is None:
        scheduler = _module_part("snakemake.scheduling.job_scheduler:JobScheduler")

    start = getattr(scheduler, "_schedule_reevalutation", None)  # its spelling
    if start is None:
        return

    def start_if_none(self: Any, delay: float) -> None:
        if time.monotonic() >= getattr(self, "_timer_due", 0.0):
            self._timer_due = time.monotonic() + delay
            start(self, delay)

    scheduler._schedule_reevalutation = start_if_none


def name_nearest(targets: Callable[[], list[str]], files: Callable[[], list[str]]) -> None:
    """Let the message for a target that no rule makes name the nearest targets and files.

    Snakemake's own message names the target alone, and suggests errors in input functions. The new
    one is worded when somebody reads it: Snakemake raises and catches the exception for every file
    that exists already.

    Where the exception is missing, Snakemake's message stays.
    """
    exception = _module_part("snakemake.exceptions:MissingRuleException")
    if exception is None:
        return

    default = exception.__str__

    def worded(self: Any) -> str:
        target = default(self).removeprefix("No rule to produce ").partition(" (if you use")[0]
        nearest = get_close_matches(target, [*targets(), *files()], n=3)
        meant = ""
        if nearest:
            meant = f"did you mean {' or '.join(f'`{name}`' for name in nearest)}? "

        return (
            f"unknown target `{target}`\n  hint: {meant}known: {', '.join(targets())}, and files"
            " that these make"
        )

    exception.__str__ = worded


@dataclass(frozen=True)
class PlannedJob:
    """A job that Snakemake is about to run."""

    rule: str
    wildcards: Mapping[str, str]
    has_output: bool  # a mere target has none
    is_forced: bool = False  # by `--forcerun`, `--force` or `--forceall`, whatever has changed


def planned_jobs(workflow: Any) -> list[PlannedJob]:
    """List the jobs that have to run, once Snakemake has planned them (`onstart`).

    A line for each job that ends says how many are left, which needs their number. Where the plan
    cannot be read, the list is empty: jobs are counted as they begin.
    """
    jobs: Iterable[Any] = _part(workflow, "dag.needrun_jobs", list)()
    reason = _part(workflow, "dag.reason", lambda job: None)
    return [
        PlannedJob(
            rule=job.rule.name,
            wildcards=dict(job.wildcards_dict),
            has_output=bool(job.output),
            is_forced=bool(getattr(reason(job), "forced", False)),
        )
        for job in jobs
    ]


def is_dry_run(workflow: Any) -> bool:
    """Return whether jobs are only planned; not known before the workflow has been read.

    Where Snakemake does not say, nothing is said of a dry run alone.
    """
    return bool(_part(workflow, "dryrun", False))


def cores(workflow: Any) -> int:
    """Return how many jobs of one core can work at once; 1 where Snakemake does not say."""
    return int(_part(workflow, "resource_settings.cores", None) or 1)


def add_log_handler(handler: logging.Handler, quiet: bool) -> None:
    """Let a handler see the records of Snakemake's log.

    A logger plugin would be the documented way, but has to be installed and named on the command
    line. `quiet` keeps what Snakemake itself prints on the terminal to what goes wrong; where its
    own handler is not known by its class, it prints all.
    """
    if quiet:
        print_from(logging.WARNING)
    _logger().addHandler(handler)


def print_from(level: int) -> None:
    """Let Snakemake print on the terminal only records of this level or above."""
    terminal = _module_part("snakemake.logging:ColorizingTextHandler")
    for existing in _logger().handlers:
        if terminal is not None and isinstance(existing, terminal):
            existing.setLevel(level)


def _logger() -> logging.Logger:
    """Return Snakemake's logger."""
    return _module_part("snakemake.logging:logger") or logging.getLogger("snakemake.logging")

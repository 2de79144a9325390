"""A throw-away Slurm on this machine: several nodes with GPUs, all of it in one folder.

The nodes are daemons side by side. The GPUs are device files under other names, so that nothing
computes on them, but Slurm counts them, gives them away and sets `CUDA_VISIBLE_DEVICES` as always.
"""

from __future__ import annotations

import os
import shutil
import socket
import stat
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from pam.runtime import gpus

NEEDED = ("munged", "slurmctld", "slurmd", "setpriv")
COMMANDS = ("sbatch", "srun", "squeue", "scancel", "scontrol", "sinfo", "sacct", "sacctmgr")
SBIN = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])

CONFIGURATION = """\
ClusterName=throwaway
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CredType=cred/munge
# A job that goes back to the queue waits until the credential of its last run has expired.
AuthInfo=socket={folder}/munge.socket,cred_expire=5
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool.%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=0,sched_interval=1,bf_interval=1
SlurmdParameters=config_overrides
SlurmctldTimeout=30
SlurmdTimeout=6
KillWait=5
MinJobAge=3600
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
GresTypes=gpu
"""

NVIDIA_SMI = """\
#!/bin/sh
# The GPUs of the node on which a job runs; there is none outside jobs.
test -n "$SLURMD_NODENAME" || exit 9
for number in {numbers}; do echo "$number, GPU-{name}-$SLURMD_NODENAME-$number"; done
"""


def missing() -> str | None:
    """Return the reason why no Slurm can be started here, or None."""
    absent = [name for name in (*NEEDED, *COMMANDS) if shutil.which(name, path=SBIN) is None]
    if absent:
        return f"Slurm is not installed: no {', '.join(absent)} (envs/slurm-packages.txt)"
    if os.geteuid() != 0:
        return "Slurm's daemons are started as root, and this is not root"

    with tempfile.TemporaryDirectory() as folder:
        try:
            _make_gpu(Path(folder, "gpu"))
        except OSError as error:
            return f"no device file can be made here: {error}"

    return None


def _make_gpu(path: Path) -> None:
    os.mknod(path, stat.S_IFCHR | 0o666, os.stat(os.devnull).st_rdev)


@dataclass
class Cluster:
    """A running Slurm; `Cluster.started()` makes one.

    Attributes:
        folder: everything it writes.
        nodes: their names; gpus: GPUs of each.
    """

    folder: Path
    nodes: tuple[str, ...] = ("n1", "n2")
    gpus: int = 2
    cores: int = 2
    _daemons: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @classmethod
    @contextmanager
    def started(cls) -> Iterator[Cluster]:
        """Start a Slurm with idle nodes, which is gone after this, whatever happens."""
        with ExitStack() as stack:
            folder = Path(tempfile.mkdtemp(prefix="pam-slurm-"))
            stack.callback(shutil.rmtree, folder)
            # Munge wants folders that others can look into and cannot write to.
            folder.chmod(0o755)

            cluster = cls(folder)
            stack.callback(cluster._stop)
            cluster._configure()
            cluster._start()

            yield cluster

    @property
    def configuration(self) -> Path:
        return self.folder / "slurm.conf"

    @property
    def environment(self) -> dict[str, str]:
        """The variables that a user of this cluster has in the environment."""
        return {"PATH": os.pathsep.join([str(self.folder / "bin"), os.environ["PATH"]])}

    def gpu(self, node: str, number: str) -> str:
        """Return the name of a node's GPU."""
        return f"GPU-{self.folder.name}-{node}-{number}"

    def command(self, *words: str) -> str:
        """Run one of Slurm's commands; return its output."""
        done = subprocess.run(
            [str(self.folder / "bin" / words[0]), *words[1:]],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )

        assert done.returncode == 0, f"{words}: {done.stdout}"
        return done.stdout

    def crash(self, node: str) -> None:
        """Take a node's power: its daemon and all that runs on it end at once."""
        daemon = self._daemons.pop(node)
        daemon.kill()
        daemon.wait()

        self._kill(self._processes(node))

    def _processes(self, node: str | None = None) -> list[psutil.Process]:
        """List the processes that run jobs, and those of the jobs, on one node or on all."""
        nodes = (node,)
        if node is None:
            nodes = self.nodes

        processes = []
        for process in psutil.process_iter():
            # A process that has ended meanwhile is none of them.
            with suppress(psutil.Error):
                if self._of_job(process, nodes) or self._of_step(process, nodes):
                    processes.append(process)

        return processes

    @staticmethod
    def _kill(processes: list[psutil.Process]) -> None:
        for process in processes:
            with suppress(psutil.Error):
                process.kill()

        psutil.wait_procs(processes, timeout=10)

    def _of_job(self, process: psutil.Process, nodes: tuple[str, ...]) -> bool:
        environment = process.environ()
        is_here = environment.get("SLURM_CONF") == str(self.configuration)

        return is_here and environment.get("SLURMD_NODENAME") in nodes

    def _of_step(self, process: psutil.Process, nodes: tuple[str, ...]) -> bool:
        """Check for a daemon of a job step on these nodes, in whose folders its socket lies."""
        spools = tuple(f"{self.folder}/spool.{node}/" for node in nodes)

        return process.name() == "slurmstepd" and any(
            str(connection.laddr).startswith(spools)
            for connection in process.net_connections("unix")
        )

    def _configure(self) -> None:
        host = socket.gethostname().split(".")[0]
        ports = _free_ports(1 + len(self.nodes))
        memory = psutil.virtual_memory().total // 2**20
        for folder in ("bin", "gpu", "state", *(f"spool.{node}" for node in self.nodes)):
            (self.folder / folder).mkdir()

        lines = [CONFIGURATION.format(host=host, ports=ports, folder=self.folder)]
        gres = ["AutoDetect=off\n"]
        for node, port in zip(self.nodes, ports[1:], strict=True):
            lines.append(
                f"NodeName={node} NodeAddr=127.0.0.1 NodeHostname={host} Port={port} "
                f"CPUs={self.cores} RealMemory={memory} Gres=gpu:{self.gpus}\n"
            )
            files = self.folder / "gpu" / f"{node}-"
            for number in range(self.gpus):
                _make_gpu(Path(f"{files}{number}"))
            gres.append(f"NodeName={node} Name=gpu File={files}[0-{self.gpus - 1}]\n")
        lines.append(f"PartitionName=main Nodes={','.join(self.nodes)} Default=YES\n")

        self.configuration.write_text("".join(lines), encoding="utf-8")
        (self.folder / "gres.conf").write_text("".join(gres), encoding="utf-8")
        self._write_programs()

    def _write_programs(self) -> None:
        """Write the programs that a user of this cluster calls."""
        # Snakemake's plugins drop every variable SLURM_*, and SLURM_CONF with them.
        texts = {
            name: f'#!/bin/sh\nSLURM_CONF={self.configuration} exec {shutil.which(name)} "$@"\n'
            for name in COMMANDS
        }
        numbers = " ".join(map(str, range(self.gpus)))
        texts["nvidia-smi"] = NVIDIA_SMI.format(numbers=numbers, name=self.folder.name)

        for name, text in texts.items():
            path = self.folder / "bin" / name
            path.write_text(text, encoding="utf-8")
            path.chmod(0o755)

    def _start(self) -> None:
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)

        files = {"socket": "munge.socket", "pid-file": "munge.pid", "seed-file": "munge.seed"}
        options = [f"--{name}={self.folder / file}" for name, file in files.items()]
        log = self.folder / "munged.log"
        self._daemon("munged", "munged", "-F", f"--key-file={key}", f"--log-file={log}", *options)
        self._wait(lambda: (self.folder / "munge.socket").exists())

        self._daemon("slurmctld", "slurmctld", "-D", "-c", "-f", str(self.configuration))
        for node in self.nodes:
            self._daemon(node, "slurmd", "-D", "-N", node, "-f", str(self.configuration))
        self._wait(self._all_idle)

    def _all_idle(self) -> bool:
        done = subprocess.run(
            [self.folder / "bin" / "sinfo", "--noheader", "--Node", "--format=%t"],
            capture_output=True,
            text=True,
            check=False,
        )

        return done.stdout.split() == ["idle"] * len(self.nodes)

    def _daemon(self, name: str, *command: str) -> None:
        """Start a daemon that ends with this process, even if that is killed."""
        program = shutil.which(command[0], path=SBIN)
        assert program is not None

        with (self.folder / f"{name}.out").open("ab") as log:
            self._daemons[name] = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", program, *command[1:]],
                env=os.environ | {"SLURM_CONF": str(self.configuration)},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def _wait(self, ready: Callable[[], bool], seconds: float = 60.0) -> None:
        end = time.monotonic() + seconds
        while not ready():
            dead = [name for name, daemon in self._daemons.items() if daemon.poll() is not None]
            if dead or time.monotonic() > end:
                logs = [
                    f"--- {path.name}\n{path.read_text(errors='replace')[-2000:]}"
                    for path in sorted(self.folder.glob("*.out"))
                ]
                raise RuntimeError(f"Slurm did not start, ended: {dead}\n" + "\n".join(logs))

            time.sleep(0.1)

    def _stop(self) -> None:
        # The controller first, so that it starts nothing more.
        for name in ("slurmctld", *self.nodes, "munged"):
            if name not in self._daemons:
                continue
            daemon = self._daemons.pop(name)
            daemon.terminate()
            try:
                daemon.wait(10)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()

        self._kill(self._processes())
        for lock in gpus.LOCKS.glob(f"GPU-{self.folder.name}-*"):
            lock.unlink()


def _free_ports(count: int) -> list[int]:
    """Return ports that nobody uses now."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for unbound in sockets:
            unbound.bind(("127.0.0.1", 0))

        return [bound.getsockname()[1] for bound in sockets]

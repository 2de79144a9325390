"""A server that has imported what our commands and Snakemake import, and forks a process for each
command.

    python server.py SOCKET OWNER_PID

Most of a short command's time is the import of torch, pandas and Snakemake. The forked process has
them already, and nothing of `pam`: it imports that from its folder of work, as `python -m pam`
does. So a changed copy of the repository runs as changed. It has its own working folder,
environment, arguments, streams and exit code.

A request `{"preload": FOLDER}` forks a second server, which imports FOLDER's `pam` as well and
answers at SOCKET-preloaded. Its commands run in copies of FOLDER whose package is the same, and
`move_package` makes that package theirs.

A client (client.py) sends one line of JSON and its three streams. It gets the exit status back, may
send signals to be passed on, and takes the process with it when it dies.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import importlib.util
import json
import os
import pkgutil
import runpy
import selectors
import shutil
import signal
import socket
import sys
import threading
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

PACKAGES = (
    *("torch", "torch._dynamo", "torch.optim", "torch.utils.tensorboard", "safetensors.torch"),
    *("torch.distributed.elastic.multiprocessing", "tqdm.contrib.logging"),
    *(
        "numpy",
        "pandas",
        "matplotlib.pyplot",
        "matplotlib.backends.backend_svg",
        "matplotlib.backends.backend_agg",
    ),
    *(
        "pydantic",
        "yaml",
        "jinja2",
        "requests",
        "tqdm",
        "filelock",
        "sacrebleu",
        "nltk.translate",
        "subword_nmt",
        "babel.core",
        "babel.numbers",
        "babel.units",
    ),
    *("snakemake.cli", "snakemake.api", "snakemake.workflow", "snakemake.dag", "snakemake.report"),
    *(
        "snakemake.executors.local",
        "snakemake.scheduling.job_scheduler",
        "snakemake_executor_plugin_slurm",
    ),
    *(
        "snakemake.profiles",
        "snakemake.report.html_reporter",
        "snakemake.storage",
        "snakemake.assets",
        "smart_open",
        "jsonschema",
        "nbformat",
        "nbformat.v4",
        "platformdirs",
    ),
)
PLUGINS = ("executor", "logger", "report", "scheduler", "storage")  # of Snakemake, by their kind
LONGEST_REQUEST = 1 << 20  # bytes
CPU_FILE = "PAM_TESTS_CPU"  # a command's environment may name a file for its CPU seconds
LOOK_EVERY_S = 1.0  # whether the owner is alive

Request = dict[str, Any]


@dataclass
class Server:
    """Accepts clients until its owner has ended; `serve` returns in each forked process, with its
    request.
    """

    listener: socket.socket
    owner: int
    # by the number of the process that works for it
    clients: dict[int, socket.socket] = field(default_factory=dict)
    requests: dict[int, Request] = field(default_factory=dict)  # the same
    selector: selectors.BaseSelector = field(default_factory=selectors.DefaultSelector)

    def serve(self) -> Request | None:
        child_ended, wakeup = socket.socketpair()
        wakeup.setblocking(False)
        signal.set_wakeup_fd(wakeup.fileno())
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for readable in (self.listener, child_ended):
            self.selector.register(readable, selectors.EVENT_READ)
        while is_alive(self.owner):
            for key, _ in self.selector.select(LOOK_EVERY_S):
                if key.fileobj is child_ended:
                    child_ended.recv(4096)
                    self.reap()
                elif key.fileobj is not self.listener:
                    self.pass_on(key.fileobj)
                elif (request := self.fork()) is not None:
                    signal.set_wakeup_fd(-1)
                    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                    for inherited in (child_ended, wakeup, self.selector):
                        inherited.close()
                    return request
        return None

    def fork(self) -> Request | None:
        """Start the process that the next client wishes for; the result is None in the server."""
        client, _ = self.listener.accept()
        content, streams, _, _ = socket.recv_fds(client, LONGEST_REQUEST, 3)
        while not content.endswith(b"\n"):
            content += client.recv(LONGEST_REQUEST)
        request: Request = json.loads(content)
        process = os.fork()
        if process:
            for stream in streams:
                os.close(stream)
            if "preload" in request:  # it ends with the owner, not with the client
                client.close()
            else:
                self.clients[process] = client
                self.requests[process] = request
                self.selector.register(client, selectors.EVENT_READ)
            return None

        for number, stream in enumerate(streams):
            os.dup2(stream, number)
            os.close(stream)
        for other in (client, self.listener, *self.clients.values()):
            other.close()
        return request

    def reap(self) -> None:
        """Tell the clients whose processes have ended how they did."""
        while self.clients:
            process, status, used = os.wait4(-1, os.WNOHANG)
            if process == 0:
                return
            client = self.clients.pop(process, None)
            if client is None:  # the second server
                continue
            self.note(process, used.ru_utime + used.ru_stime)
            with contextlib.suppress(KeyError):
                self.selector.unregister(client)
            with contextlib.suppress(OSError):
                client.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())
            client.close()

    def note(self, process: int, seconds: float) -> None:
        """Add a line to the file that `PAM_TESTS_CPU` names in the environment of a command, if it
        names one: CPU seconds, the test that asked, and the command.
        """
        request = self.requests.pop(process)
        name = request["environment"].get(CPU_FILE)
        if name:
            with open(name, "a", encoding="utf-8") as file:
                file.write(f"{seconds:.3f}\t{note_of(request)}\n")

    def pass_on(self, client: Any) -> None:
        """Pass signals on from a client to its process; a client that is gone takes its process
        with it.
        """
        process = next(number for number, own in self.clients.items() if own is client)
        try:
            signals = list(client.recv(16))
        except OSError:
            signals = []
        if not signals:
            self.selector.unregister(client)
        for number in signals or [signal.SIGKILL]:
            os.kill(process, number)  # it is no other process yet: it has not been waited for


def note_of(request: Request) -> str:
    """The test that made a request, a tab, and the words of its command."""
    test = request["environment"].get("PYTEST_CURRENT_TEST", "-").rpartition(" ")[0]
    words = " ".join(request["words"]).replace("\n", " ")
    return f"{test}\t{words}"


def is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def run(request: Request) -> None:
    """Be the process `python -m MODULE ARGUMENTS`, or `python SCRIPT ARGUMENTS`."""
    environment: dict[str, str] = request["environment"]
    module, *arguments = request["words"]
    os.chdir(request["folder"])
    if request["package"] is not None:
        move_package(request["package"])
        # runpy warns of a module that is imported before it is run.
        if module == "pam.experiments.jobs":
            del sys.modules[module]
    os.environ.clear()
    os.environ.update(environment)
    sys.executable = request["python"]
    sys.argv = [module, *arguments]
    sys.path[0] = request["folder"]
    sys.path[1:1] = filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))
    sys.dont_write_bytecode = "PYTHONDONTWRITEBYTECODE" in environment
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115 -- for as long as the process lives
    buffering = 1 if request["is_unbuffered"] else -1
    sys.stdout = open(1, "w", buffering=buffering, closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, errors="backslashreplace", closefd=False)  # noqa: SIM115
    code = 1
    try:
        if module.endswith(".py"):
            sys.path[0] = os.path.dirname(os.path.abspath(module))
            runpy.run_path(module, run_name="__main__")
        else:
            runpy.run_module(module, run_name="__main__", alter_sys=True)
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        if isinstance(ended.code, str):
            sys.stderr.write(f"{ended.code}\n")
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        leave(code)


def leave(code: int) -> None:
    """End as Python does, but without taking apart, object by object, all that was imported."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


def package_modules() -> dict[str, ModuleType]:
    """Return the modules of our package that are imported."""
    return {name: sys.modules[name] for name in sys.modules if name.split(".")[0] == "pam"}


def preload(folder: str) -> None:
    """Import all modules of the package in `folder`."""
    sys.path.insert(0, folder)
    package = importlib.import_module("pam")
    # Errors of packages are raised by our own import.
    for module in pkgutil.walk_packages(package.__path__, "pam.", onerror=lambda name: None):
        if module.name == "pam.hf" and importlib.util.find_spec("transformers") is None:
            continue
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    del sys.path[0]
    assert package.__path__ == [f"{folder}/pam"]


def move_package(folder: str) -> None:
    """Make the preloaded package that of another folder, in which it has the same files.

    Besides what Python notes of a module's file, the package keeps its folder in paths of modules
    alone, as `pam.runtime.files.SHIPPED`.
    """
    old = os.path.dirname(sys.modules["pam"].__path__[0])

    def moved(path: str) -> str:
        return folder + path.removeprefix(old)

    for module in package_modules().values():
        spec = module.__spec__
        module.__file__ = moved(str(module.__file__))
        if spec is not None:
            spec.origin = module.__file__
            spec.cached = module.__cached__ = moved(str(spec.cached))
        if hasattr(module, "__path__"):
            module.__path__ = [moved(path) for path in module.__path__]
            if spec is not None:
                spec.submodule_search_locations = list(module.__path__)
        for name, value in list(vars(module).items()):
            if isinstance(value, Path) and value.is_relative_to(old):
                setattr(module, name, Path(moved(str(value))))


def listen(path: str) -> socket.socket:
    """Listen at a socket, which has its name as soon as it answers."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(f"{path}.new")
    listener.listen(64)
    os.rename(f"{path}.new", path)
    return listener


def freeze() -> None:
    """Leave what is imported out of the collections of the forked processes."""
    gc.collect()
    gc.freeze()


def main(path: str, owner: str) -> None:
    for name in PACKAGES:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)

    # Names of countries are read from files when they are first asked for, by each command.
    with contextlib.suppress(ImportError):
        from babel import Locale

        for language in ("de", "en"):
            len(Locale(language).territories)

    # To find its plugins, Snakemake looks at every package that is installed.
    for kind in PLUGINS:
        with contextlib.suppress(ImportError):
            module = importlib.import_module(f"snakemake_interface_{kind}_plugins.registry")
            getattr(module, f"{kind.title()}PluginRegistry")()

    freeze()
    request = Server(listen(path), int(owner)).serve()
    is_second = request is not None and "preload" in request
    if is_second:
        preload(request["preload"])
        freeze()
        request = Server(listen(f"{path}-preloaded"), int(owner)).serve()

    if request is not None:
        run(request)
    elif not is_second:
        shutil.rmtree(os.path.dirname(path))


if __name__ == "__main__":
    main(*sys.argv[1:])

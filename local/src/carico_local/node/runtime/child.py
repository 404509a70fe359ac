"""What a forked child does to become a container: join its cgroup, set up output and directory, run its command."""

import contextlib
import ctypes
import encodings.idna
import locale
import os
import pathlib
import signal
import sys
import traceback
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NoReturn

from carico_local.node.runtime import landlock, users

# numpy's threads would not survive the fork: the node starts the zygote with OPENBLAS_NUM_THREADS=1.
from carico_local.workloads import main as workloads

# argparse and sockets import these on first use, when a container's user may not be able to read Python's files.
PRELOADED = (encodings.idna, locale)
WORKLOAD = "carico-workload"
# runc's exit code for a container whose command cannot be run is 127 or 126; the kubelet reports 128 (StartError).
EXIT_NOT_STARTED = 128
_PR_SET_PDEATHSIG = 1


def run(
    request: Mapping[str, Any], *, closed: Sequence[str], still_open: Iterable[pathlib.Path], output_fd: int,
    status_fd: int,
) -> NoReturn:  # fmt: skip
    """Become the container. `status_fd` closes at exec, or gets the reason why the command cannot be run.

    `closed`, `still_open`: see `landlock.close`.
    """
    try:
        _enter(request, output_fd=output_fd, status_fd=status_fd)
        landlock.close(closed, still_open=still_open)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        _fail(f"{where}{_lowered(error)}", status_fd)
    try:
        for folder in request["folders"]:
            # A subPath may also be a file.
            if not os.path.exists(folder):
                os.makedirs(folder, exist_ok=True)
    except OSError as error:
        _fail(f"{error.filename}: {_lowered(error)}", status_fd)
    try:
        os.chdir(request["cwd"])
    except OSError as error:
        _fail(f'chdir to cwd ("{request["cwd"]}") failed: {_lowered(error)}', status_fd)
    argv, variables = request["argv"], request["env"]
    if os.path.basename(argv[0]) == WORKLOAD:
        os.close(status_fd)
        _run_workload(argv[1:], variables)
    try:
        os.execvpe(argv[0], argv, variables)
    except OSError as error:
        _fail(_not_executed(argv[0], error), status_fd)
    except ValueError as error:
        # A NUL byte in an argument or variable, as in a binary Secret.
        _fail(f'exec: "{argv[0]}": invalid argument: {error}', status_fd)


def _fail(reason: str, status_fd: int) -> NoReturn:
    os.write(status_fd, reason.encode())
    os._exit(EXIT_NOT_STARTED)


def _not_executed(command: str, error: OSError) -> str:
    """Return why a command could not be run, as runc words it."""
    if not isinstance(error, FileNotFoundError):
        return f'exec: "{command}": {_lowered(error)}'
    if "/" in command:
        return f'exec: "{command}": stat {command}: {_lowered(error)}'
    return f'exec: "{command}": executable file not found in $PATH'


def _lowered(error: OSError) -> str:
    text = error.strerror or str(error)
    return text[:1].lower() + text[1:]


def _enter(request: Mapping[str, Any], *, output_fd: int, status_fd: int) -> None:
    # First of all, so that everything the child does is accounted to its own cgroup.
    for name in request["procs"]:
        pathlib.Path(name).write_text("0", encoding="ascii")
    with contextlib.suppress(OSError):
        # Any user may raise it; a lower value than the parent's needs CAP_SYS_RESOURCE.
        pathlib.Path("/proc/self/oom_score_adj").write_text(str(request["oom_score_adj"]), encoding="ascii")
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGCHLD, signal.SIGINT, signal.SIGTERM, signal.SIGPIPE):
        signal.signal(number, signal.SIG_DFL)
    os.setsid()
    null_fd = os.open(os.devnull, os.O_RDONLY)
    for target, source in ((0, null_fd), (1, output_fd), (2, output_fd)):
        os.dup2(source, target)
    os.closerange(3, status_fd)
    os.closerange(status_fd + 1, 4096)
    if request["user"] is not None:
        user = users.Ids(**request["user"])
        # So that it can open /dev/stdout, as runc does.
        os.fchown(1, user.uid, -1)
        users.become(user)
    if request["die_with_parent"]:
        # Without cgroups, the process could not be found again after the end of the zygote. A change of user resets it.
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def _run_workload(arguments: list[str], variables: Mapping[str, str]) -> NoReturn:
    code = 1
    try:
        code = workloads.main(arguments, variables)
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else 1
    except BaseException:
        # The last frame of this process: write the error to the container's log.
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)

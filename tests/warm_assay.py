"""`assay` for tests of shell lines, without the seconds that its libraries take to load.

A server loads them once. The command hands it arguments, folder, environment and streams, the
server forks, and the fork runs the command line: a process of its own for each command.

    python warm_assay.py SOCKET        serves, one command at a time, until it is killed
"""

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[1]
LONGEST_REQUEST = 1 << 20
# -S and -E: the command itself starts in a hundredth of a second.
COMMAND = """#!{python} -SE
import json, os, socket, sys
server = socket.socket(socket.AF_UNIX)
server.connect({address!r})
request = json.dumps([sys.argv[1:], os.getcwd(), dict(os.environ)]).encode()
socket.send_fds(server, [request], [0, 1, 2])
sys.exit(server.recv(1)[0])
"""


@contextmanager
def warm_assay() -> Iterator[Path]:
    """Start the server; yield a folder that holds the command."""
    # Not in pytest's folder: the path of a socket has about a hundred characters.
    folder = Path(tempfile.mkdtemp(prefix="assay-"))
    address, command = str(folder / "socket"), folder / "assay"
    command.write_text(COMMAND.format(python=sys.executable, address=address))
    command.chmod(0o755)
    server = subprocess.Popen(
        [sys.executable, __file__, address],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    try:
        assert server.stdout is not None
        assert server.stdout.readline() == "ready\n"
        yield folder
    finally:
        server.kill()
        server.communicate()
        shutil.rmtree(folder)


def serve(address: str) -> None:
    """Load what `assay evaluate` and `assay compare` need, then run what is asked."""
    import torch  # noqa: F401
    from transformers import BertModel, BertTokenizerFast  # noqa: F401

    from experiments import comparison, evaluate  # noqa: F401
    from experiments.metrics import warm_up

    warm_up()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen()
        print("ready", flush=True)
        while True:
            asked, _ = listener.accept()
            request, streams, *_ = socket.recv_fds(asked, LONGEST_REQUEST, 3)
            child = os.fork()
            if child == 0:
                run(*json.loads(request), streams)
            for stream in streams:
                os.close(stream)
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            asked.send(bytes([code if code >= 0 else 128 - code]))
            asked.close()


def run(arguments: list[str], folder: str, environment: dict[str, str], streams: list[int]) -> None:
    """Run one command in this process and end it."""
    from experiments.cli import main

    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    # The server's own were made for other files: what can be sought in may be a pipe by now.
    sys.stdout, sys.stderr = (os.fdopen(n, "w", 1, closefd=False) for n in (1, 2))
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = ["assay", *arguments]
    code = 70
    try:
        main()
        code = 0
    except SystemExit as stopped:
        code = int(str(stopped.code or 0))
    except BaseException:  # noqa: BLE001 - a process of its own would end like this
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    serve(sys.argv[1])

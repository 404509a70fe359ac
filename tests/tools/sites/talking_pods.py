"""Two processes that talk over loopback as Pods do, and count what they send."""

import contextlib
import pathlib
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator

SERVER, CLIENT = "1c9c1f31-3a0e-4b7c-9f0e-2f6a0d5f4c11", "2c9c1f31-3a0e-4b7c-9f0e-2f6a0d5f4c22"
# A loopback address that only the client has.
OWN = "127.83.7.1"
REQUEST, ANSWER = 1500, 700
# Each line: how many connections to make at a time that stay (+), that are closed (c), or requests on those that stay.
PROGRAM = f"""
import socket, sys
port, kept, count = int(sys.argv[1]), [], 0

def ask(peer):
    peer.sendall(b"q" * {REQUEST})
    left = {ANSWER}
    while left:
        left -= len(peer.recv(left))

def dial():
    return socket.create_connection(("127.0.0.1", port), source_address=("{OWN}", 0))

for line in sys.stdin:
    kind, number = line[0], int(line[1:])
    if kind == "+":
        kept += [dial() for _ in range(number)]
    for _ in range(number if kind == "c" else 0):
        with dial() as peer:
            ask(peer)
            count += 1
            # An end that is closed before the other one's FIN has come is destroyed without it: a byte fewer.
            peer.shutdown(socket.SHUT_WR)
            assert peer.recv(1) == b""
    for peer in kept * (number if kind == "q" else 0):
        ask(peer)
        count += 1
    print(count, flush=True)
"""


class Server:
    """Answers requests, each connection in a thread, and counts them."""

    def __init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.port: int = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=self._serve, args=self.listener.accept()[:1], daemon=True).start()

    def _serve(self, peer: socket.socket) -> None:
        with peer, contextlib.suppress(OSError):
            left = REQUEST
            while data := peer.recv(left):
                left -= len(data)
                if not left:
                    left = REQUEST
                    peer.sendall(b"a" * ANSWER)


class Client:
    """The process with the clients' ends."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process

    def ask(self, line: str) -> int:
        """Have it do something; returns how many requests it has made in all."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())


@contextlib.contextmanager
def talking(cgroups: pathlib.Path) -> Iterator[tuple[Server, Client]]:
    """This process as the server, another one as the client, each as a Pod in a folder that looks like a cgroup."""
    server = Server()
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(server.port)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        for uid, pid in ((SERVER, "self"), (CLIENT, str(process.pid))):
            (cgroups / f"pod{uid}").mkdir()
            number = pathlib.Path("/proc", pid).resolve().name
            (cgroups / f"pod{uid}" / "cgroup.procs").write_text(f"{number}\n")
        yield server, Client(process)
        process.stdin.close()
    server.listener.close()

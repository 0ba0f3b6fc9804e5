"""What HAProxy says on its socket, as 2.6.12 and 3.0.11 say it."""

from __future__ import annotations

import socket
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from surgekit.haproxy.runtime import InvalidCommand, Runtime, ServerState, refusals

STATE = """1
# be_id be_name srv_id srv_name srv_addr srv_op_state srv_admin_state srv_uweight srv_port
3 f0 1 s0 10.0.0.1 2 0 256 9001
3 f0 2 s1 192.0.2.1 2 0 0 80
3 f0 3 s2 fd00::1 2 0 1 80

"""


class Socket:
    """Says `answers` in turn, one a connection."""

    def __init__(self, directory: Path, *answers: str) -> None:
        self.path, self.asked = directory / "s", list[str]()
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(self.path))
        self._listener.listen()
        self._answers = answers
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        for answer in self._answers:
            connection, _ = self._listener.accept()
            with connection:
                self.asked.append(connection.makefile().readline().strip())
                connection.sendall(answer.encode())
        self._listener.close()

    def join(self) -> None:
        self._thread.join(timeout=10)


@pytest.fixture
def short() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="hr") as directory:  # a socket's path is at most 107 long
        yield Path(directory)


def test_servers(short: Path) -> None:
    there = Socket(short, STATE)
    assert Runtime(there.path).servers("f0") == [
        ServerState("s0", "10.0.0.1", 9001, 256),
        ServerState("s1", "192.0.2.1", 80, 0),
        ServerState("s2", "fd00::1", 80, 1),
    ]
    there.join()
    assert there.asked == ["show servers state f0"]


def test_a_map(short: Path) -> None:
    there = Socket(short, "0x557276482360 web.shop f0\n0x557276482430 api.shop f12\n\n", "\n")
    runtime = Runtime(there.path)
    assert runtime.map_entries(Path("/m")) == {"web.shop": "f0", "api.shop": "f12"}
    assert runtime.map_entries(Path("/m")) == {}
    there.join()


def test_an_identity_is_pid_and_start(short: Path) -> None:
    there = Socket(short, "Name: HAProxy\nPid: 1\nStart_time_sec: 7\n", "Pid: 1\nStart_time_sec: 8\n")
    runtime = Runtime(there.path)
    assert runtime.identity() != runtime.identity()
    there.join()


def test_commands_go_in_batches_that_fit_haproxys_buffer(short: Path) -> None:
    there = Socket(short, "\n", "\n", "\n")
    commands = [f"set server backend-{i}/s{i} addr 255.255.255.255 port 65535" for i in range(200)]
    assert Runtime(there.path).run(commands) == ["\n", "\n", "\n"]
    there.join()
    assert [command for line in there.asked for command in line.split(";")] == commands
    assert max(map(len, there.asked)) < 16_384
    assert Runtime(there.path).run([]) == []


def test_nobody_there(short: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Runtime(short / "nothing").info()


def test_refusals() -> None:
    said = [
        "IP changed from '192.0.2.1' to '10.0.0.1' by 'stats socket command'\n\n\n",
        "no need to change the addr, port changed from '9000' to '9001' by 'stats socket command'\n\n",
        "nothing changed\n\n",
        "No such server.\n\nAbsolute weight can only be between 0 and 256 inclusive.\n\n",
    ]
    assert refusals(said) == ["No such server.", "Absolute weight can only be between 0 and 256 inclusive."]


@pytest.mark.parametrize(
    "command",
    [
        "set server f0/s0 addr 10.0.0.1;shutdown sessions server f1/s0 port 80", "add map m host\nshow info",
        "del map m a  b", "set server f0/s0 weight 0 ", "add map m <<EOF", "add map m a\\ b f0", "",
        "set 'x'",
    ],
)  # fmt: skip
def test_a_command_that_is_more_than_plain_words_is_not_sent(command: str) -> None:
    nobody_listens = Runtime(Path("/nonexistent"))  # OSError, if it were sent
    with pytest.raises(InvalidCommand):
        nobody_listens.run(["set server f0/s0 weight 1", command])

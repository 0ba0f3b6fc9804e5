"""A function in Python, for the lab: does what a request's path asks for, the bad things included.

Runs in a container of `kwok.burst.images.python`; standard library only. IMPORTS_MS: CPU time to use before
the port opens, as a function with many imports does. EXIT_CODE: end with it instead.
"""

import errno
import http.server
import json
import os
import socket
import stat
import sys
import threading
import time


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        what, _, argument = self.path.strip("/").partition("/")
        answer = getattr(self, f"do_{what or 'hello'}")(argument)
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments: object) -> None:
        pass

    def do_hello(self, _: str) -> object:
        return "hello"

    def do_sleep(self, seconds: str) -> object:
        time.sleep(float(seconds))
        return "slept"

    def do_exit(self, code: str) -> object:
        os._exit(int(code))

    def do_say(self, text: str) -> object:
        os.write(1, text.encode() + b"\n")
        os.write(2, text.upper().encode() + b"\n")
        return "said"

    def do_shout(self, _: str) -> object:
        """Write without end, and answer."""
        threading.Thread(target=_shout, daemon=True).start()
        return "shouting"

    def do_fork(self, _: str) -> object:
        """Fork until it fails; how often it worked, and why no more."""
        children = 0
        try:
            while children < 100_000:
                if os.fork() == 0:
                    time.sleep(3600)
                children += 1
        except OSError as error:
            return [children, str(error)]
        return [children, ""]

    def do_fill(self, mib: str) -> object:
        held = [bytearray(b"x" * (1 << 20)) for _ in range(int(mib))]
        return len(held)

    def do_write(self, mib: str) -> object:
        """Fill the root file system; what was written, and why no more."""
        written = 0
        try:
            with open("/tmp/filler", "wb") as file:  # noqa: S108
                for _ in range(int(mib)):
                    file.write(b"x" * (1 << 20))
                    file.flush()
                    written += 1
        except OSError as error:
            return [written, str(error)]
        return [written, ""]

    def do_reach(self, place: str) -> object:
        """Whether HOST:PORT can be connected to."""
        host, _, port = place.partition(":")
        try:
            socket.create_connection((host, int(port)), timeout=2.0).close()
        except OSError as error:
            return f"no: {error}"
        return "yes"

    def do_packet(self, _: str) -> object:
        """Whether frames can be sent, which no rule of the network namespace sees."""
        try:
            socket.socket(socket.AF_PACKET, socket.SOCK_RAW).close()
        except OSError as error:
            return f"no: {error}"
        return "yes"

    def do_try(self, path: str) -> object:
        """Whether a file can be written."""
        try:
            with open(f"/{path}", "w") as file:
                file.write("x")
        except OSError as error:
            return f"no: {error}"
        return "yes"

    def do_syscall(self, numbers: str) -> object:
        """Make a system call with these numbers; the name of its error, or nothing."""
        import ctypes  # noqa: PLC0415  (seldom needed, and slow)

        libc = ctypes.CDLL(None, use_errno=True)
        arguments = [ctypes.c_long(int(each)) for each in numbers.split("/")]
        if libc.syscall(*arguments, *[ctypes.c_long(0)] * (7 - len(arguments))) != -1:
            return ""
        return errno.errorcode[ctypes.get_errno()]

    def do_device(self, _: str) -> object:
        """Make the device of physical memory, and read it; the name of the error."""
        try:
            os.mknod("/memory", stat.S_IFCHR | 0o600, os.makedev(1, 1))
            with open("/memory", "rb") as file:
                file.read(1)
        except OSError as error:
            return errno.errorcode[error.errno or 0]
        return ""

    def do_status(self, _: str) -> object:
        with open("/proc/self/status") as file:
            lines = {key: value.strip() for key, _, value in (line.partition(":") for line in file)}
        return lines | {"environment": dict(os.environ), "directory": os.getcwd(), "arguments": sys.argv[1:]}


def _shout() -> None:
    while True:
        sys.stdout.write("all work and no play " * 200 + "\n")


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64


def main() -> None:
    if code := os.environ.get("EXIT_CODE"):
        sys.exit(int(code))
    while time.process_time() * 1000 < float(os.environ.get("IMPORTS_MS", "0")):
        pass
    Server(("0.0.0.0", int(os.environ.get("PORT", "8080"))), Handler).serve_forever()  # noqa: S104


if __name__ == "__main__":
    main()

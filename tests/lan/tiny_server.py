"""`python tiny_server.py ADDRESS PORT`: an HTTP server that does what a test asks for, in the folder it was started in.

It imports the standard library only and starts at once. An order is the body of a POST: `bytes N`, `take` (whatever
follows), `write NAME N`, `clock`.
"""

import http.server
import os
import sys
from pathlib import Path


def obey(order: list[bytes]) -> bytes:
    """The answer to an order."""
    match order:
        case [b"bytes", count]:
            return bytes(int(count))
        case [b"write", name, count]:
            try:
                Path(name.decode()).write_bytes(bytes(int(count)))
            except OSError as error:
                return str(error.strerror).encode()
            return b"written"
        case [b"clock"]:
            return os.environ.get("BFL_CLOCK_OFFSET_S", "right").encode()
        case [b"take", *_]:
            return b"taken"
    return b"what?"


class Handler(http.server.BaseHTTPRequestHandler):
    """One visitor, who may ask many times on one connection."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        answer = obey(self.rfile.read(int(self.headers["Content-Length"])).split(b" ", 3))
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)


if __name__ == "__main__":
    server = http.server.ThreadingHTTPServer((sys.argv[1], int(sys.argv[2])), Handler)
    print("serving", flush=True)
    server.serve_forever()

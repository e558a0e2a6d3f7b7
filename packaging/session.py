"""Drives sessions through an installed lspool.

The server behind it is `lspool serve-recording`, which plays the recording inside lspool, so nothing else is
needed.
"""

import json
import os
import subprocess
import sys


def send(pipe, message):
    body = json.dumps({"jsonrpc": "2.0", **message}).encode()
    pipe.write(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
    pipe.flush()


def answer(pipe, id):
    """The answer to a request; lets everything else pass."""
    while True:
        length = None
        while (line := pipe.readline().strip()) or length is None:
            if not line and length is None:
                sys.exit("session: lspool ended without an answer")
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
        message = json.loads(pipe.read(length))
        if message.get("id") == id and "method" not in message:
            return message


def start(command, environment=None):
    """lspool in a session that has begun: its process."""
    lspool = subprocess.Popen(
        [*command, "--", *command, "serve-recording"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
    )
    params = {
        "processId": os.getpid(),
        "capabilities": {"workspace": {"workspaceFolders": True}},
        "rootUri": None,
    }
    send(lspool.stdin, {"id": 1, "method": "initialize", "params": params})
    result = answer(lspool.stdout, 1)["result"]
    assert result["capabilities"]["textDocumentSync"], result
    send(lspool.stdin, {"method": "initialized", "params": {}})
    return lspool


def drive(command, environment):
    """A session from start to end."""
    lspool = start(command, environment)
    send(lspool.stdin, {"id": 2, "method": "shutdown"})
    assert "error" not in answer(lspool.stdout, 2)
    send(lspool.stdin, {"method": "exit"})
    code = lspool.wait(timeout=60)
    assert code == 0, f"exit code {code}"


def terminate(command, environment=None):
    """A session that SIGTERM ends: as an editor does that does not wait."""
    lspool = start(command, environment)
    lspool.terminate()
    code = lspool.wait(timeout=60)
    assert code in (128 + 15, -15), f"exit code {code} after SIGTERM"

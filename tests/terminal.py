"""Runs `lspool status --watch` in a terminal of its own, and ends it.

    python3 tests/terminal.py KEY|SIGNAL COMMAND...
"""

import os
import pty
import select
import signal
import sys
import termios

END, COMMAND = sys.argv[1], sys.argv[2:]


def is_line_mode(terminal):
    return bool(termios.tcgetattr(terminal)[3] & termios.ICANON)


terminal, name = pty.openpty()
assert is_line_mode(name)
child = os.fork()
if child == 0:
    os.setsid()
    # The first terminal that a session opens is its own.
    own = os.open(os.ttyname(name), os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(own, fd)
    os.execvp(COMMAND[0], COMMAND)
shown = b""
while b"lspool 11" not in shown:
    if not select.select([terminal], [], [], 60)[0]:
        sys.exit(f"it shows only {shown}")
    shown += os.read(terminal, 1 << 16)
assert not is_line_mode(name), "keys wait for the end of a line"
if END.startswith("SIG"):
    os.kill(child, getattr(signal, END))
else:
    os.write(terminal, b"x" + END.encode())
_, status = os.waitpid(child, 0)
assert os.waitstatus_to_exitcode(status) == 0, status
assert is_line_mode(name), "the mode of the terminal has changed"

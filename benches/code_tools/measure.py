"""Asks lspool and its peers the same questions about two real projects, and prints what they answer, beside the truth.

scripts/bench --code-tools installs what this needs. Each peer runs in a home of its own, on a copy of the project, in
its own network and process namespaces: nothing of it stays, and nothing leaves the machine. The servers behind all of
them are the same.
"""

import argparse
import datetime
import json
import os
import pathlib
import queue
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
BIN, VENV = HERE / "node_modules/.bin", HERE / ".venv/bin"
LSPOOL = pathlib.Path(os.environ.get("LSPOOL", HERE.parent.parent / "target/release/lspool"))

# No answer takes as long, in seconds.
PATIENCE = 150
# How often a warm question is asked.
ROUNDS = 7

# `places` counts the declaration. It is what the server says when it is warm, and does not change after that.
PROJECTS = {
    "Python": {
        "folder": "python",
        "id": "python",
        "files": 671,
        "symbol": "pairwise",
        "file": "networkx/utils/misc.py",
        "line": 214,
        "character": 5,
        "places": 91,
        "server": ["pyright-langserver", "--stdio"],
        "process": "pyright-langserver",
        "probe": "networkx/probe.py",
        "clean": "from networkx.utils import open_file\n\nvalue: int = len(str(open_file))\n",
        "broken": 'from networkx.utils import open_file\n\nvalue: int = "text"\n',
        "more": ("networkx/more.py", "from networkx.utils import pairwise\n\nmore = list(pairwise([1, 2, 3]))\n"),
    },
    "TypeScript": {
        "folder": "typescript",
        "id": "typescript",
        "files": 251,
        "symbol": "isFunction",
        "file": "src/internal/util/isFunction.ts",
        "line": 5,
        "character": 17,
        "places": 72,
        "server": ["typescript-language-server", "--stdio"],
        "process": "typescript-language-server",
        "probe": "src/internal/probe.ts",
        "clean": "import { noop } from './util/noop';\n\nexport const value: number = String(noop).length;\n",
        "broken": "import { noop } from './util/noop';\n\nexport const value: number = 'text';\n",
        "more": (
            "src/internal/more.ts",
            "import { isFunction } from './util/isFunction';\n\nexport const more = isFunction(1);\n",
        ),
    },
}


class Gone(Exception):
    """The program has ended, or does not answer."""


class Process:
    """A program with JSON on its streams."""

    def __init__(self, command, cwd, env):
        isolated = ["unshare", "--net", "--pid", "--fork", "--mount-proc", "--kill-child", "sh", "-c"]
        isolated += ['ip link set lo up; "$@"; exit $?', "sh", *command]
        self.log = tempfile.TemporaryFile()
        self.child = subprocess.Popen(
            isolated, cwd=cwd, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log
        )
        self.messages, self.last = queue.Queue(), 0
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for message in self.read_all(self.child.stdout):
            self.messages.put(message)
        self.messages.put(None)

    def send(self, **message):
        try:
            self.child.stdin.write(self.encode(json.dumps({"jsonrpc": "2.0", **message}).encode()))
            self.child.stdin.flush()
        except OSError as error:
            raise Gone(str(error)) from error

    def ask(self, method, params, patience=PATIENCE):
        self.last += 1
        number, end = self.last, time.monotonic() + patience
        self.send(id=number, method=method, params=params)
        while True:
            try:
                message = self.messages.get(timeout=max(0.01, end - time.monotonic()))
            except queue.Empty:
                raise Gone(f"no answer within {patience} s") from None
            if message is None:
                raise Gone("it has ended")
            if "method" in message:
                if "id" in message:
                    self.send(id=message["id"], result=self.on_request(message))
            elif message.get("id") == number:
                if "error" in message:
                    raise Gone(str(message["error"].get("message")))
                return message["result"]

    def on_request(self, _message):
        return None

    def tree(self):
        """The processes of it, with their command lines."""
        parents = {}
        for entry in os.listdir("/proc"):
            if entry.isdigit():
                try:
                    stat = pathlib.Path(f"/proc/{entry}/stat").read_text()
                    words = pathlib.Path(f"/proc/{entry}/cmdline").read_bytes().split(b"\0")
                except OSError:
                    continue
                parent = int(stat.rpartition(")")[2].split()[1])
                parents.setdefault(parent, []).append((int(entry), b" ".join(words).decode(errors="replace")))
        todo, all_ = [self.child.pid], []
        while todo:
            for it in parents.get(todo.pop(), []):
                all_.append(it)
                todo.append(it[0])
        return all_

    def end(self):
        self.child.kill()
        self.child.wait()


class Mcp(Process):
    """A server of the Model Context Protocol."""

    @staticmethod
    def encode(body):
        return body + b"\n"

    @staticmethod
    def read_all(stream):
        for line in stream:
            try:
                yield json.loads(line)
            except ValueError:
                pass

    def on_request(self, message):
        return {"roots": []} if message["method"] == "roots/list" else {}

    def start(self):
        client = {"name": "bench", "version": "1"}
        self.ask("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client})
        self.send(method="notifications/initialized")

    def call(self, name, arguments):
        return self.ask("tools/call", {"name": name, "arguments": arguments})


def texts(result):
    return "\n".join(it.get("text", "") for it in result.get("content", []))


class Lsp(Process):
    """A language server."""

    @staticmethod
    def encode(body):
        return b"Content-Length: %d\r\n\r\n" % len(body) + body

    @staticmethod
    def read_all(stream):
        while True:
            length = 0
            while line := stream.readline().strip():
                name, _, value = line.partition(b":")
                if name.lower() == b"content-length":
                    length = int(value)
            if length == 0:
                return
            yield json.loads(stream.read(length))

    def on_request(self, message):
        if message["method"] == "workspace/configuration":
            return [None for _ in message["params"]["items"]]
        return None


class Peer:
    """How a peer is started, and how it is asked. `references` gives the number of places and the answer; of a peer
    that leaves out the declaration, it counts as found."""

    def __init__(self, project, root, home):
        self.project, self.root, self.home = project, root, home
        self.file = str(root / project["file"])

    def environment(self):
        return {}

    def after_start(self, mcp):
        pass


class Lspool(Peer):
    name = "lspool"

    def version(self):
        return output([LSPOOL, "--version"]).split()[-1]

    def command(self):
        return [LSPOOL, "mcp", "--root", self.root]

    def references(self, mcp):
        arguments = {"symbol": self.project["symbol"], "file": self.project["file"]}
        result = mcp.call("lsp_references", arguments)
        return result.get("structuredContent", {}).get("total", 0), texts(result)

    def diagnostics(self, mcp):
        return texts(mcp.call("lsp_diagnostics", {"files": [self.project["probe"]]}))


class Serena(Peer):
    name = "Serena"

    def version(self):
        return package_version("serena-agent")

    def environment(self):
        return {"SERENA_USAGE_REPORTING": "false"}

    def command(self):
        # It would install servers of its own.
        paths = {"python": "pyright-langserver", "typescript": "typescript-language-server"}
        servers = "".join(f"  {key}:\n    ls_path: {BIN / it}\n" for key, it in paths.items())
        config = self.home / ".serena/serena_config.yml"
        config.parent.mkdir()
        config.write_text(
            f"projects: []\nagent_interface: tools\nweb_dashboard: false\nls_specific_settings:\n{servers}"
        )
        options = ["--agent-interface", "tools", "--enable-web-dashboard", "false"]
        return [VENV / "serena", "start-mcp-server", "--project", self.root, *options]

    def references(self, mcp):
        arguments = {"name_path": self.project["symbol"], "relative_path": self.project["file"]}
        text = texts(mcp.call("find_referencing_symbols", arguments))
        found = text.count('"content_around_reference"')
        return found + (found > 0), text

    def diagnostics(self, mcp):
        return texts(mcp.call("get_diagnostics_for_file", {"relative_path": self.project["probe"]}))


class AgentLsp(Peer):
    name = "agent-lsp"

    def version(self):
        return package_version("agent-lsp")

    def command(self):
        return [VENV / "agent-lsp", ":".join([self.project["id"], ",".join(self.project["server"])])]

    def after_start(self, mcp):
        mcp.call("start_lsp", {"root_dir": str(self.root)})

    def references(self, mcp):
        place = {"line": self.project["line"], "column": self.project["character"], "include_declaration": True}
        text = texts(mcp.call("find_references", {"file_path": self.file, **place}))
        return len(re.findall(r"^(?:\d+\|)+\S+\|\d+\|\d+$", text, re.M)), text

    def diagnostics(self, mcp):
        return texts(mcp.call("get_diagnostics", {"file_path": str(self.root / self.project["probe"])}))


class Cclsp(Peer):
    name = "cclsp"

    def version(self):
        return json.loads((HERE / "node_modules/cclsp/package.json").read_text())["version"]

    def environment(self):
        endings = {"python": ["py", "pyi"], "typescript": ["ts", "js"]}[self.project["id"]]
        config = self.home / "cclsp.json"
        server = {"extensions": endings, "command": self.project["server"], "rootDir": str(self.root)}
        config.write_text(json.dumps({"servers": [server]}))
        return {"CCLSP_CONFIG_PATH": str(config)}

    def command(self):
        return [BIN / "cclsp"]

    def references(self, mcp):
        arguments = {"file_path": self.file, "symbol_name": self.project["symbol"]}
        text = texts(mcp.call("find_references", arguments))
        return len(re.findall(r"^/\S+:\d+:\d+$", text, re.M)), text

    def diagnostics(self, mcp):
        return texts(mcp.call("get_diagnostics", {"file_path": str(self.root / self.project["probe"])}))


PEERS = [Lspool, Serena, AgentLsp, Cclsp]


def output(command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def package_version(name):
    shown = output([VENV / "pip", "--disable-pip-version-check", "show", name])
    return re.search(r"^Version: (\S+)", shown, re.M)[1]


def timed(action):
    begin = time.monotonic()
    result = action()
    return result, time.monotonic() - begin


def environment(home):
    path = f"{BIN}:{os.environ['PATH']}"
    return {"PATH": path, "HOME": str(home), "LANG": "C.UTF-8", "TMPDIR": str(home / "tmp")}


def workspace(project, folder):
    """A copy of the project under git's mark, and a home."""
    root, home = folder / "project", folder / "home"
    shutil.copytree(HERE / "projects" / project["folder"], root)
    (root / ".git").mkdir()
    (home / "tmp").mkdir(parents=True)
    return root, home


def until_right(ask, wanted, limit):
    """The first count and time, and the time until the count is right."""
    begin, first = time.monotonic(), None
    while True:
        try:
            count = ask()
        except Gone:
            count = None
        spent = time.monotonic() - begin
        first = first or (count, spent)
        if count == wanted:
            return first, spent
        if spent > limit:
            return first, None
        time.sleep(0.3)


def memory(process, project):
    """Its own memory, without servers, in MB."""
    servers = {it for it, words in process.tree() if is_server(words, project)}
    total = 0
    for pid, words in process.tree():
        if pid in servers or words.startswith("sh -c ip link"):
            continue
        try:
            rollup = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text()
        except OSError:
            continue
        total += int(re.search(r"^Pss:\s+(\d+)", rollup, re.M)[1])
    return total / 1024


def is_server(words, project):
    return words.startswith(("node ", "/")) and (project["process"] in words or "/typescript/lib/" in words)


def measure(peer):
    """All questions to one peer."""
    project, result = peer.project, {"name": f"{peer.name} {peer.version()}"}
    process = Mcp(peer.command(), peer.root, environment(peer.home) | peer.environment())
    count = lambda: peer.references(process)[0]
    try:
        begin = time.monotonic()
        process.start()
        result["initialize"] = time.monotonic() - begin
        shown = json.dumps(process.ask("tools/list", {}), separators=(",", ":"), ensure_ascii=False)
        result["list"] = len(shown.encode())
        peer.after_start(process)
        result["first"], result["all"] = until_right(count, project["places"], PATIENCE)
        result["all"] = result["all"] and time.monotonic() - begin
        warm = [timed(lambda: peer.references(process)) for _ in range(ROUNDS)]
        result["again"] = statistics.median(it[1] for it in warm)
        result["bytes"] = len(warm[-1][0][1].encode())
        result["memory"] = memory(process, project)

        probe, right, times = peer.root / project["probe"], 0, []
        for state in ["clean", "broken", "broken", "clean", "broken", "clean"]:
            probe.write_text(project[state])
            try:
                text, spent = timed(lambda: peer.diagnostics(process))
            except Gone:
                text, spent = "", PATIENCE
            times.append(spent)
            # An answer that is not sure is not wrong, but it is not right either.
            is_sure = not re.search(r"NOT CHECKED|does not confirm|^$", text)
            right += is_sure and ("not assignable" in text) == (state == "broken")
        result["diagnostics"] = (right, len(times), statistics.median(times))

        name, text = project["more"]
        (peer.root / name).write_text(text)
        first, after = until_right(count, project["places"] + 2, 30)
        result["new"] = (first, after)

        for pid, words in process.tree():
            if is_server(words, project):
                os.kill(pid, signal.SIGKILL)
        result["killed"] = until_right(count, project["places"] + 2, PATIENCE)
    except Gone as error:
        result["ended"] = str(error)
    finally:
        process.end()
    return result


def bare(project, root, home):
    """What the server itself does."""
    process = Lsp(project["server"], root, environment(home))
    uri, text = (root / project["file"]).as_uri(), (root / project["file"]).read_text()
    try:
        begin = time.monotonic()
        folder = {"uri": root.as_uri(), "name": "project"}
        process.ask(
            "initialize",
            {"processId": None, "rootUri": root.as_uri(), "workspaceFolders": [folder], "capabilities": {}},
        )
        process.send(method="initialized", params={})
        document = {"uri": uri, "languageId": project["id"], "version": 1, "text": text}
        process.send(method="textDocument/didOpen", params={"textDocument": document})
        place = {"line": project["line"] - 1, "character": project["character"] - 1}
        ask = lambda: process.ask(
            "textDocument/references",
            {"textDocument": {"uri": uri}, "position": place, "context": {"includeDeclaration": True}},
        )
        first, after = until_right(lambda: len(ask() or []), project["places"], PATIENCE)
        result = {"name": "the server itself", "first": first, "all": after and time.monotonic() - begin}
        warm = [timed(ask) for _ in range(ROUNDS)]
        result["again"] = statistics.median(it[1] for it in warm)
        result["bytes"] = len(json.dumps(warm[-1][0]))
        return result
    finally:
        process.end()


def seconds(value):
    if value is None:
        return "never"
    return f"{value * 1000:.0f} ms" if value < 0.9995 else f"{value:.1f} s"


def row(result, project):
    of_all = lambda first: f"{'none' if first[0] is None else first[0]} in {seconds(first[1])}"
    cells = [result["name"]]
    cells.append(of_all(result["first"]) if "first" in result else "–")
    cells.append(seconds(result["all"]) if "all" in result else "–")
    cells.append(f"{seconds(result['again'])}, {result['bytes'] / 1000:.1f} KB" if "again" in result else "–")
    if "diagnostics" in result:
        right, n, median = result["diagnostics"]
        cells.append(f"{right} of {n} right, {seconds(median)}")
    else:
        cells.append("–")
    for key in ["new", "killed"]:
        cells.append(seconds(result[key][1]) if key in result else "–")
    cells.append(f"{result['memory']:.0f} MB" if "memory" in result else "–")
    cells.append(f"{seconds(result['initialize'])}, {result['list'] / 1000:.1f} KB" if "list" in result else "–")
    return "| " + " | ".join(cells) + " |"


def main():
    names = [it.name for it in PEERS]
    parser = argparse.ArgumentParser(prog="scripts/bench --code-tools", description=__doc__)
    parser.add_argument("--peer", action="append", choices=names, help="only these; all by default")
    parser.add_argument("--project", action="append", choices=list(PROJECTS), help="only these; both by default")
    asked = parser.parse_args()
    now = datetime.datetime.now(datetime.timezone.utc)
    node = output(["node", "--version"]).strip()
    load = os.getloadavg()[0]
    print(f"{now:%Y-%m-%d}, {os.cpu_count()} cores, load {load:.1f} at the beginning, Node {node[1:]}\n")
    for language, project in PROJECTS.items():
        if asked.project and language not in asked.project:
            continue
        print(f"{language}: {project['files']} files, {project['places']} places of `{project['symbol']}`\n")
        print("| | first answer, places | all places after | again | 6 diagnostics | new file after |", end="")
        print(" kill -9, right after | own memory | `initialize`, tool list |")
        print("|---" * 9 + "|")
        with tempfile.TemporaryDirectory(prefix="code-tools-") as folder:
            root, home = workspace(project, pathlib.Path(folder).resolve())
            print(row(bare(project, root, home), project), flush=True)
        for kind in PEERS:
            if asked.peer and kind.name not in asked.peer:
                continue
            with tempfile.TemporaryDirectory(prefix="code-tools-", ignore_cleanup_errors=True) as folder:
                root, home = workspace(project, pathlib.Path(folder).resolve())
                result = measure(kind(project, root, home))
            print(row(result, project), flush=True)
            if "ended" in result:
                print(f"{kind.name}: {result['ended']}", file=sys.stderr)
        print()


if __name__ == "__main__":
    main()

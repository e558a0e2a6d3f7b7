#!/usr/bin/env python3
"""The smallest client of agents behind lspool: one that may only read, and one that has others work for it.

    python3 examples/agents.py [--folder FOLDER] [--model ID] [COMMAND...]

COMMAND starts the server, by default `lspool -- copilot-language-server --stdio`. You must be signed in. Without an account,
a recording of this program can be the server:

    python3 examples/agents.py -- lspool serve-recording tests/fixtures/transcripts/agents.jsonl

docs/clients.md explains it.
"""

import argparse
import json
import pathlib
import subprocess

READ_FILE = {
    "name": "read_file",
    "description": "Reads a text file of the folder.",
    "inputSchema": {
        "type": "object",
        "properties": {"filePath": {"type": "string", "description": "Its path, from the folder."}},
        "required": ["filePath"],
    },
}


class Client:
    """A language server on pipes, and the editor's side of the protocol."""

    def __init__(self, command, folder):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.folder = folder
        self.last_id = 0
        self.texts = {}
        self.request("initialize", {
            "processId": None,
            "workspaceFolders": self.folders(),
            "capabilities": {},
            "initializationOptions": {
                "editorInfo": {"name": "example", "version": "1.0"},
                "editorPluginInfo": {"name": "agents.py", "version": "1.0"},
            },
        })
        self.send(method="initialized", params={})
        self.request("conversation/registerTools", {"tools": [READ_FILE]})

    def folders(self):
        return [{"uri": self.folder.as_uri(), "name": self.folder.name}]

    def send(self, **message):
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        self.process.stdin.flush()

    def receive(self):
        length = 0
        while (line := self.process.stdout.readline().strip()) != b"":
            if line.lower().startswith(b"content-length:"):
                length = int(line.split(b":")[1])
        if not length:
            raise SystemExit("the server has ended")
        return json.loads(self.process.stdout.read(length))

    def request(self, method, params):
        """Asks, and does what is asked and hears what is told until the answer comes."""
        self.last_id += 1
        self.send(id=self.last_id, method=method, params=params)
        while True:
            message = self.receive()
            if "method" not in message:
                if "error" in message:
                    raise SystemExit(f"{method}: {message['error']['message']}")
                return message["result"]
            if "id" in message:
                self.send(id=message["id"], **self.answer(message["method"], message["params"]))
            else:
                self.hear(message["method"], message["params"])

    def answer(self, method, params):
        if method == "conversation/invokeClientTool":
            path = (self.folder / params["input"]["filePath"]).resolve()
            if not path.is_relative_to(self.folder) or not path.is_file():
                return {"result": [{"status": "error", "content": [{"value": "no such file"}]}, None]}
            print(f"    {params['name']} {path.relative_to(self.folder)}")
            return {"result": [{"status": "success", "content": [{"value": path.read_text()}]}, None]}
        if method == "conversation/invokeClientToolConfirmation":
            return {"result": [{"result": "accept"}, None]}
        if method == "workspace/configuration":
            return {"result": [None] * len(params["items"])}
        if method == "window/workDoneProgress/create":
            return {"result": None}
        return {"error": {"code": -32601, "message": f"{method} is not in this example"}}

    def hear(self, method, params):
        if method == "lspool/agentEvent":
            print(f"    {params['agent']}: {params['state']}", params.get("tool", ""))
        elif method == "$/progress":
            value, text = params["value"], self.texts.setdefault(params["token"], [])
            text += [round.get("reply") or "" for round in value.get("editAgentRounds") or []]
            if value.get("error"):
                text.append(f"\nthe turn has failed: {value['error']['message']}")

    def create(self, question, model, **lspool):
        """A conversation of one turn. What its agent may do stands in `lspool`."""
        token = f"turn-{self.last_id + 1}"
        made = self.request("conversation/create", {
            "lspool": lspool,
            "turns": [{"request": question}],
            "workDoneToken": token,
            "chatMode": "Agent",
            "modelInfo": {"id": model},
            "source": "panel",
            "workspaceFolders": self.folders(),
            "capabilities": {"skills": [], "allSkills": False},
        })
        self.request("conversation/destroy", {"conversationId": made["conversationId"]})
        return "".join(self.texts.get(token, [])).strip()

    def end(self):
        self.request("shutdown", None)
        self.send(method="exit")
        return self.process.wait(timeout=30)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", type=lambda it: pathlib.Path(it).resolve(), default=pathlib.Path.cwd())
    parser.add_argument("--model", default="gpt-4.1")
    parser.add_argument("command", nargs="*")
    arguments = parser.parse_args()
    client = Client(arguments.command or ["lspool", "--", "copilot-language-server", "--stdio"], arguments.folder)

    print("one that may only read:")
    print(client.create("What is README.md about?", arguments.model, tools=["read_file"]))
    print("one that has others work for it:")
    print(client.create("Have an agent find out what README.md is about.", arguments.model, lead=True, events=True))
    raise SystemExit(client.end())


if __name__ == "__main__":
    main()

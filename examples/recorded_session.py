#!/usr/bin/env python3
"""A test of an editor plug-in against a Copilot session, without an account and without a network.

    python3 examples/recorded_session.py lspool serve-recording tests/fixtures/transcripts/agent-tools.jsonl

The server is made of a recording. Any client will do; this one is as small as a client can be, and needs nothing but
Python.
"""

import json
import subprocess
import sys
import unittest

COMMAND = sys.argv[1:]
WORKSPACE = [{"uri": "file:///home/somebody/project", "name": "project"}]


class Server:
    """A language server on pipes, and the editor's side of the protocol."""

    def __init__(self, command):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.last_id = 0
        self.notifications = []
        self.on_request = {}

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
            raise EOFError("the server has ended")
        return json.loads(self.process.stdout.read(length))

    def notify(self, method, params):
        self.send(method=method, params=params)

    def request(self, method, params):
        """Asks, and does what the server asks until it answers."""
        self.last_id += 1
        self.send(id=self.last_id, method=method, params=params)
        while True:
            message = self.receive()
            if "method" not in message:
                if "error" in message:
                    raise AssertionError(message["error"]["message"])
                return message["result"]
            if "id" in message:
                answer = self.on_request[message["method"]](message["params"])
                self.send(id=message["id"], result=answer)
            else:
                self.notifications.append(message)

    def end(self):
        self.request("shutdown", {})
        self.notify("exit", {})
        self.process.stdin.close()
        self.process.stdout.close()
        return self.process.wait(timeout=30)


class Session(unittest.TestCase):
    def setUp(self):
        self.server = Server(COMMAND)
        self.addCleanup(self.server.process.kill)
        self.addCleanup(lambda: self.assertEqual(self.server.end(), 0))
        self.server.request("initialize", {"processId": None, "workspaceFolders": WORKSPACE, "capabilities": {}})
        self.server.notify("initialized", {})
        self.server.notify("workspace/didChangeConfiguration", {"settings": {"telemetry": {"telemetryLevel": "off"}}})

    def create(self, token, text):
        return self.server.request("conversation/create", {
            "workDoneToken": token,
            "chatMode": "Agent",
            "modelInfo": {"id": "gpt-4.1"},
            "workspaceFolders": WORKSPACE,
            "turns": [{"request": text}],
            "source": "panel",
            "capabilities": {"skills": [], "allSkills": False},
        })

    def test_a_tool_of_the_editor_is_called(self):
        calls = []

        def read_file(params):
            calls.append((params["name"], params["input"]["filePath"]))
            return [{"content": [{"value": "alpha\nbeta\n"}], "status": "success"}, None]

        self.server.on_request["conversation/invokeClientTool"] = read_file
        result = self.create("my-token", "[read] what does a.txt say?")

        # The recorded session was in another folder.
        self.assertEqual(calls, [("read_file", "/home/somebody/project/a.txt")])
        progress = [it["params"] for it in self.server.notifications if it["method"] == "$/progress"]
        self.assertEqual({it["token"] for it in progress}, {"my-token"})
        self.assertEqual(progress[-1]["value"]["kind"], "end")
        self.assertEqual(progress[-1]["value"]["conversationId"], result["conversationId"])
        # What the model said when it had the file is in the recording, too.
        rounds = [it for params in progress for it in params["value"].get("editAgentRounds", [])]
        self.assertIn("The file says: alpha", "".join(it["reply"] for it in rounds))

    def test_the_status_bar_says_who_is_signed_in(self):
        self.assertEqual(self.server.request("checkStatus", {})["user"], "stub-user")
        kinds = [it["params"]["kind"] for it in self.server.notifications if it["method"] == "didChangeStatus"]
        self.assertEqual(kinds, ["Normal"])

    def test_a_prompt_that_was_not_recorded(self):
        with self.assertRaisesRegex(AssertionError, "the nearest is on line"):
            self.create("my-token", "something else")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])

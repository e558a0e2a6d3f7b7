// An editor made of vscode-languageserver-protocol alone.
"use strict";
const { spawn } = require("node:child_process");
const fs = require("node:fs");
const { pathToFileURL } = require("node:url");
const lsp = require("vscode-languageserver-protocol/node");
const { command, file, session } = require("./session.js");

const uri = pathToFileURL(file).href;
let text = fs.readFileSync(file, "utf8");
let version = 1, diagnostics = [], connection, server;
const messages = [];

const at = (line, character) => ({ textDocument: { uri }, position: { line, character } });

session({
  messages,
  async start() {
    server = spawn(command[0], command.slice(1), { stdio: ["pipe", "pipe", "inherit"] });
    server.on("exit", (code, signal) => messages.push(`the server is gone: ${code} ${signal}`));
    const reader = new lsp.StreamMessageReader(server.stdout);
    connection = lsp.createProtocolConnection(reader, new lsp.StreamMessageWriter(server.stdin));
    connection.onError(([error]) => messages.push(String(error)));
    connection.onClose(() => messages.push("the connection is closed"));
    connection.onNotification(lsp.PublishDiagnosticsNotification.type, (params) => {
      if (params.uri === uri) diagnostics = params.diagnostics;
    });
    connection.onNotification(lsp.ShowMessageNotification.type, (params) => messages.push(params.message));
    connection.onRequest(lsp.ConfigurationRequest.type, ({ items }) => items.map(() => null));
    connection.onRequest(lsp.RegistrationRequest.type, () => {});
    connection.onRequest(lsp.WorkDoneProgressCreateRequest.type, () => {});
    connection.listen();
    const root = pathToFileURL(process.cwd()).href;
    await connection.sendRequest(lsp.InitializeRequest.type, {
      processId: process.pid,
      rootUri: root,
      workspaceFolders: [{ uri: root, name: "workspace" }],
      capabilities: { workspace: { configuration: true, workspaceFolders: true }, textDocument: { hover: { contentFormat: ["markdown"] } } },
    });
    await connection.sendNotification(lsp.InitializedNotification.type, {});
    const textDocument = { uri, languageId: "python", version, text };
    await connection.sendNotification(lsp.DidOpenTextDocumentNotification.type, { textDocument });
  },
  diagnostics: () => diagnostics.map((it) => it.message),
  hover: async (...place) => (await connection.sendRequest(lsp.HoverRequest.type, at(...place)))?.contents.value,
  async definition(...place) {
    const found = await connection.sendRequest(lsp.DefinitionRequest.type, at(...place));
    return [found].flat()[0].range.start.line;
  },
  async completion(...place) {
    const found = await connection.sendRequest(lsp.CompletionRequest.type, at(...place));
    return (found.items ?? found).map((it) => it.label);
  },
  append(added) {
    const lines = text.split("\n"), position = { line: lines.length - 1, character: lines.at(-1).length };
    text += added;
    const params = { textDocument: { uri, version: ++version }, contentChanges: [{ range: { start: position, end: position }, text: added }] };
    connection.sendNotification(lsp.DidChangeTextDocumentNotification.type, params);
    return text.split("\n").length - 1;
  },
  async stop() {
    const gone = new Promise((done) => server.once("exit", done));
    await connection.sendRequest(lsp.ShutdownRequest.type);
    await connection.sendNotification(lsp.ExitNotification.type);
    await gone;
  },
});

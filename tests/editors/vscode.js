// An editor made of VS Code's own client library, vscode-languageclient, with a stand-in for the module `vscode`: what the
// library asks of VS Code for one open file.
"use strict";
const fs = require("node:fs");
const Module = require("node:module");
const { fileURLToPath, pathToFileURL } = require("node:url");
const { command, file, session } = require("./session.js");

class Position {
  constructor(line, character) { this.line = line; this.character = character; }
}
class Range {
  constructor(start, end, line, character) {
    [this.start, this.end] = line === undefined ? [start, end] : [new Position(start, end), new Position(line, character)];
  }
}
class Uri {
  constructor(href) { this.href = href; }
  get scheme() { return new URL(this.href).protocol.slice(0, -1); }
  get path() { return decodeURIComponent(new URL(this.href).pathname); }
  get fsPath() { return fileURLToPath(this.href); }
  toString() { return this.href; }
  static parse(href) { return new Uri(href); }
  static file(name) { return new Uri(pathToFileURL(name).href); }
}
class Disposable {
  constructor(end) { this.end = end; }
  dispose() { this.end?.(); }
  static from(...all) { return new Disposable(() => all.forEach((it) => it.dispose())); }
}
class EventEmitter {
  constructor() {
    this.listeners = new Set();
    this.event = (listener, self) => {
      const bound = (value) => listener.call(self, value);
      this.listeners.add(bound);
      return new Disposable(() => this.listeners.delete(bound));
    };
  }
  fire(value) { for (const it of [...this.listeners]) it(value); }
  dispose() { this.listeners.clear(); }
}
class CancellationTokenSource {
  constructor() {
    this.emitter = new EventEmitter();
    this.token = { isCancellationRequested: false, onCancellationRequested: this.emitter.event };
  }
  cancel() { this.token.isCancellationRequested = true; this.emitter.fire(); }
  dispose() {}
}
class MarkdownString {
  constructor(value = "") { this.value = value; }
  appendCodeblock(code, language) { this.value += "```" + language + "\n" + code + "\n```\n"; return this; }
}
class Hover {
  constructor(contents, range) { this.contents = [contents].flat(); this.range = range; }
}
class Location {
  constructor(uri, range) { this.uri = uri; this.range = range; }
}
class Diagnostic {
  constructor(range, message, severity) { Object.assign(this, { range, message, severity }); }
}
class CompletionItem {
  constructor(label, kind) { Object.assign(this, { label, kind }); }
}
class CompletionList {
  constructor(items, isIncomplete) { Object.assign(this, { items, isIncomplete }); }
}

class CodeActionKind {
  constructor(value) { this.value = value; }
  append(part) { return new CodeActionKind([this.value, part].filter(Boolean).join(".")); }
  static Empty = new CodeActionKind("");
}

const messages = [];
const say = (text) => { messages.push(text); return Promise.resolve(undefined); };
const providers = {};
const diagnostics = new Map();
const never = new EventEmitter();
const changed = new EventEmitter();
const root = Uri.file(process.cwd());
let text = fs.readFileSync(file, "utf8");
const document = {
  uri: Uri.file(file), fileName: file, languageId: "python", version: 1, isDirty: false, isClosed: false, isUntitled: false,
  getText: () => text,
  get lineCount() { return text.split("\n").length; },
};

class TabInputText {
  constructor(uri) { this.uri = uri; }
}

const known = {
  __esModule: true, // The library takes this object itself, and no copy of it.
  version: "1.91.0",
  Position, Range, Uri, Disposable, EventEmitter, CancellationTokenSource, MarkdownString, Hover, Location, Diagnostic,
  CompletionItem, CompletionList, CodeActionKind, TabInputText,
  CancellationError: class extends Error {},
  ProgressLocation: { Window: 10 },
  env: { appName: "stand-in", language: "en" },
  commands: { registerCommand: () => new Disposable() },
  workspace: {
    textDocuments: [document], notebookDocuments: [], workspaceFolders: [{ uri: root, name: "workspace", index: 0 }],
    getConfiguration: () => ({ get: (_, value) => value }),
    getWorkspaceFolder: () => known.workspace.workspaceFolders[0],
    createFileSystemWatcher: () => ({ onDidCreate: never.event, onDidChange: never.event, onDidDelete: never.event, dispose() {} }),
    onDidChangeTextDocument: changed.event,
  },
  window: {
    activeTextEditor: { document }, visibleTextEditors: [{ document }],
    tabGroups: { all: [{ tabs: [{ input: new TabInputText(document.uri) }] }], onDidChangeTabs: never.event },
    createOutputChannel: () => ({
      append() {}, appendLine() {}, show() {}, dispose() {}, trace() {}, debug() {}, info() {},
      warn: console.error, error: console.error, logLevel: 3, onDidChangeLogLevel: never.event,
    }),
    showErrorMessage: say, showWarningMessage: say, showInformationMessage: say,
    withProgress: (_, work) => work({ report() {} }, new CancellationTokenSource().token),
  },
  languages: {
    match: () => 10,
    createDiagnosticCollection: () => ({
      set: (uri, all) => diagnostics.set(uri.toString(), all ?? []),
      delete: (uri) => diagnostics.delete(uri.toString()),
      has: (uri) => diagnostics.has(uri.toString()),
      clear: () => diagnostics.clear(),
      dispose() {},
    }),
  },
};

/** What is not known: events that never come, providers that are kept, classes and enumerations without anything in them. */
function filled(name, object) {
  return new Proxy(object, {
    get(target, key) {
      if (key in target || typeof key === "symbol" || key === "then") return target[key];
      if (/^on(Did|Will)/.test(key)) return never.event;
      if (/^register/.test(key)) return (_selector, provider) => { providers[key] = provider; return new Disposable(); };
      if (name === "vscode" && /^[A-Z]/.test(key)) return (target[key] = filled(key, class {}));
      return undefined;
    },
  });
}
for (const name of ["workspace", "window", "languages"]) known[name] = filled(name, known[name]);
const vscode = filled("vscode", known);
const load = Module._load;
Module._load = function (request, ...rest) { return request === "vscode" ? vscode : load.call(this, request, ...rest); };

const { LanguageClient, State } = require("vscode-languageclient/node");
const states = [];
const server = { command: command[0], args: command.slice(1) };
const client = new LanguageClient("pyright", "Pyright", { run: server, debug: server }, { documentSelector: [{ language: "python" }] });
client.onDidChangeState(({ newState }) => states.push(State[newState].toLowerCase()));

const token = new CancellationTokenSource().token;
const ask = (provider, method, line, character) => providers[provider][method](document, new Position(line, character), token);

session({
  messages,
  states,
  start: () => client.start(),
  stop: () => client.stop(),
  diagnostics: () => (diagnostics.get(document.uri.toString()) ?? []).map((it) => it.message),
  hover: async (...place) => (await ask("registerHoverProvider", "provideHover", ...place))?.contents.map((it) => it.value).join("\n"),
  definition: async (...place) => [await ask("registerDefinitionProvider", "provideDefinition", ...place)].flat()[0].range.start.line,
  async completion(...place) {
    const found = await providers.registerCompletionItemProvider.provideCompletionItems(document, new Position(...place), token, { triggerKind: 0 });
    return (found.items ?? found).map((it) => it.label.label ?? it.label);
  },
  append(added) {
    const lines = text.split("\n"), end = new Position(lines.length - 1, lines.at(-1).length), rangeOffset = text.length;
    text += added;
    document.version += 1;
    changed.fire({ document, reason: undefined, contentChanges: [{ range: new Range(end, end), rangeOffset, rangeLength: 0, text: added }] });
    return document.lineCount - 1;
  },
});

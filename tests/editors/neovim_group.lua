-- What a user does behind a type checker and a linter: looks at the marks, hovers, organizes imports, fixes, formats,
-- renames, and types while each of the servers is killed. Prints one line of JSON. The command is in $LSPOOL_COMMAND;
-- the server that the file $LSPOOL_KILL names is killed. The servers to kill are in $LSPOOL_VICTIMS.

vim.lsp.config("python", {
  cmd = vim.split(vim.env.LSPOOL_COMMAND, "\n"),
  filetypes = { "python" },
  root_markers = { "pyproject.toml" },
})
vim.lsp.enable("python")

local results = { messages = {} }
vim.notify = function(text)
  table.insert(results.messages, text)
end

local function wait(what, condition)
  if not results.failed and not vim.wait(60000, condition, 20) then
    results.failed = what
  end
end

vim.cmd.edit("group.py")
vim.cmd.setfiletype("python")
local buffer = vim.api.nvim_get_current_buf()

local function text()
  return table.concat(vim.api.nvim_buf_get_lines(buffer, 0, -1, false), "\n")
end

local function marks(words)
  local found = {}
  for _, it in ipairs(vim.diagnostic.get(buffer)) do
    if it.message:find(words, 1, true) then
      table.insert(found, { source = it.source, line = it.lnum, column = it.col })
    end
  end
  return found
end

-- Both servers have found it.
local function both(words)
  wait("both find " .. words, function()
    local sources = {}
    for _, it in ipairs(marks(words)) do
      sources[it.source] = true
    end
    return sources.basedpyright and sources.Ruff
  end)
  return marks(words)
end

local function ask(method, line, character)
  local params = { textDocument = vim.lsp.util.make_text_document_params(), position = { line = line, character = character } }
  local answers = vim.lsp.buf_request_sync(buffer, method, params, 60000) or {}
  for _, answer in pairs(answers) do
    return answer.result
  end
end

results.undefined = both("undefined_name")
results.hover = ((ask("textDocument/hover", 4, 5) or {}).contents or {}).value

local function changed(what, command)
  local before = text()
  command()
  wait(what, function()
    return text() ~= before
  end)
  return text()
end

results.organized = changed("organized imports", function()
  vim.lsp.buf.code_action({ context = { only = { "source.organizeImports" }, diagnostics = {} }, apply = true })
end)

-- Where it is now.
wait("the unused import", function()
  local found = marks("`os` imported but unused")
  return #found > 0 and found[1].line == 0
end)
vim.api.nvim_win_set_cursor(0, { 1, 8 })
results.fixed = changed("a fix", function()
  vim.lsp.buf.code_action({
    filter = function(it)
      return it.title:find("Remove unused import", 1, true) ~= nil
    end,
    apply = true,
  })
end)

results.formatted = changed("the format", function()
  vim.lsp.buf.format({ timeout_ms = 60000 })
end)

vim.fn.search("def greet")
vim.cmd.normal({ "w", bang = true })
results.renamed = changed("the rename", function()
  vim.lsp.buf.rename("welcome")
end)

results.crashes = {}
for n, victim in ipairs(vim.split(vim.env.LSPOOL_VICTIMS, "\n")) do
  local file = assert(io.open(vim.env.LSPOOL_KILL .. ".new", "w"))
  file:write(victim)
  file:close()
  vim.uv.fs_rename(vim.env.LSPOOL_KILL .. ".new", vim.env.LSPOOL_KILL)
  vim.api.nvim_feedkeys(("Gofresh_%d = other_name_%d"):format(n, n), "ntx", false)
  wait("the kill", function()
    return vim.uv.fs_stat(vim.env.LSPOOL_KILL) == nil
  end)
  local hover = ask("textDocument/hover", vim.fn.search("def welcome", "nw") - 1, 5)
  table.insert(results.crashes, { hover = hover ~= nil, found = both(("other_name_%d"):format(n)) })
end

results.clients = #vim.lsp.get_clients({ bufnr = buffer })
results.text = text()
io.stdout:write(vim.json.encode(results), "\n")
vim.cmd.quitall({ bang = true })

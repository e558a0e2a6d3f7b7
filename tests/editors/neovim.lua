-- What a user's init.lua says, and then what a user does: hover, definition, diagnostics, completion.
-- Prints one line of JSON. The command of the server is in $LSPOOL_COMMAND, words separated by newlines.

vim.lsp.config("pyright", {
  cmd = vim.split(vim.env.LSPOOL_COMMAND, "\n"),
  filetypes = { "python" },
  root_markers = { "pyproject.toml" },
})
vim.lsp.enable("pyright")

local results = {}

local function wait(what, condition)
  if not vim.wait(40000, condition, 20) then
    results.failed = what
  end
end

vim.cmd.edit("greeting.py")
vim.cmd.setfiletype("python")
local buffer = vim.api.nvim_get_current_buf()

wait("a client", function()
  local client = vim.lsp.get_clients({ bufnr = buffer })[1]
  return client ~= nil and client.initialized
end)
wait("diagnostics", function()
  return #vim.diagnostic.get(buffer) > 0
end)
results.diagnostics = vim.tbl_map(function(it)
  return { line = it.lnum, message = it.message, source = it.source }
end, vim.diagnostic.get(buffer))

local function ask(method, line, character)
  local params = { textDocument = vim.lsp.util.make_text_document_params(), position = { line = line, character = character } }
  local answers = vim.lsp.buf_request_sync(buffer, method, params, 40000) or {}
  for _, answer in pairs(answers) do
    return answer.result
  end
end

results.hover = (ask("textDocument/hover", 7, 2) or {}).contents
results.definition = ask("textDocument/definition", 7, 2)

-- A change by typing: the completion is about what is in the buffer and not on the disk.
vim.api.nvim_buf_set_lines(buffer, -1, -1, false, { "os.getc" })
local completion = ask("textDocument/completion", vim.api.nvim_buf_line_count(buffer) - 1, 7) or {}
results.completion = vim.tbl_map(function(it)
  return it.label
end, completion.items or completion)

-- The command that a user gives: jumps.
vim.api.nvim_win_set_cursor(0, { 8, 2 })
vim.lsp.buf.definition()
wait("the jump", function()
  return vim.api.nvim_win_get_cursor(0)[1] == 4
end)
results.cursor = vim.api.nvim_win_get_cursor(0)

local client = vim.lsp.get_clients({ bufnr = buffer })[1]
results.server = client and client.server_info
io.stdout:write(vim.json.encode(results), "\n")
vim.cmd.quitall({ bang = true })

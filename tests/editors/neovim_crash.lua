-- A crash of the server in the middle of an unsaved edit, as the README tells it. Prints one line of JSON: what was
-- typed, done and shown, and every message. The command of the server is in $LSPOOL_COMMAND; making the file
-- $LSPOOL_KILL kills it.

vim.lsp.config("pyright", {
  cmd = vim.split(vim.env.LSPOOL_COMMAND, "\n"),
  filetypes = { "python" },
  root_markers = { "pyproject.toml" },
})
vim.lsp.enable("pyright")

local results = { events = {} }
local messages = {}
vim.notify = function(text)
  table.insert(messages, text)
end

local function event(verb, text)
  table.insert(results.events, { verb, text })
end

local function wait(what, condition)
  if not results.failed and not vim.wait(40000, condition, 20) then
    results.failed = what
  end
end

vim.cmd.edit("greeting.py")
vim.cmd.setfiletype("python")
local buffer = vim.api.nvim_get_current_buf()

local function client()
  return vim.lsp.get_clients({ bufnr = buffer })[1]
end

local function shows(wanted)
  wait(wanted, function()
    for _, it in ipairs(vim.diagnostic.get(buffer)) do
      local text = it.message:match("^[^\n]*")
      if text:find(wanted, 1, true) then
        event("shows", ("line %d: %s"):format(it.lnum + 1, text))
        return true
      end
    end
  end)
end

local function types(text)
  event("types", text)
  vim.api.nvim_feedkeys("Go" .. text, "ntx", false)
end

shows('"undefined_name"')
local before = client()
types("total = greet('x')")

local file = assert(io.open(vim.env.LSPOOL_KILL, "w"))
file:close()
wait("the kill", function()
  return vim.uv.fs_stat(vim.env.LSPOOL_KILL) == nil
end)
event("$", "kill -9")

-- Without lspool, nothing more comes: Neovim says that the server is gone.
local function is_gone()
  return #messages > 0
end
if vim.env.LSPOOL_COMMAND:find("\n%-%-\n") then
  types("total.uper()")
  vim.cmd("normal! 0")
  event("hovers", "total")
  vim.lsp.buf.hover()
  wait("a hover", function()
    for _, window in ipairs(vim.api.nvim_list_wins()) do
      if vim.api.nvim_win_get_config(window).relative ~= "" then
        for _, line in ipairs(vim.api.nvim_buf_get_lines(vim.api.nvim_win_get_buf(window), 0, -1, false)) do
          if line:find("total", 1, true) then
            event("shows", line)
            return true
          end
        end
      end
    end
  end)
  shows('"uper"')
else
  wait("a message", is_gone)
end

local after = client()
results.keeps_client = after ~= nil and after.id == before.id and not after:is_stopped()
-- What was only echoed counts too; what it tells of files is no message of a server.
for line in vim.gsplit(vim.fn.execute("messages"), "\n", { trimempty = true }) do
  if not line:match('^"') then
    table.insert(messages, line)
  end
end
results.messages = table.concat(messages, "\n")
io.stdout:write(vim.json.encode(results), "\n")
vim.cmd.quitall({ bang = true })

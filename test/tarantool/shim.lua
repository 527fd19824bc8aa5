-- What the drivers' suites start in place of tarantool. The server listens on another address
-- than it was told to; on that one the test process puts what shall stand in front of it.
--
--   tarantool shim.lua SCRIPT [ARGUMENTS]
--
-- CINCH_FRONTS   port at which the test process is asked to stand in front of a server
-- CINCH_EVENTS   file to which go: who connects ("peer ADDRESS"), and how many envelopes were
--                stored ("sealed PID SPACE N", at each power of two)
local digest, ffi, socket = require('digest'), require('ffi'), require('socket')
pcall(ffi.cdef, 'int getpid(void);')
local magic = '\xC1\xDD\xDC'

local events = io.open(os.getenv('CINCH_EVENTS'), 'a')
local function tell(...)
    events:write(table.concat({...}, ' '), '\n')
    events:flush() -- the server may be killed at any time
end

-- count is a trigger: how many envelopes a space got, since it was watched.
local function count(state)
    return function(_, new, name)
        if new == nil then return end
        for i = 1, #new do
            local v = new[i]
            if type(v) == 'string' and v:sub(1, #magic) == magic then
                state.n = state.n + 1
                if state.n == state.next then
                    state.next = state.next * 2
                    tell('sealed', ffi.C.getpid(), name, state.n)
                end
            end
        end
    end
end

local function watch_space(id)
    local space = box.space[id]
    if space ~= nil then pcall(space.on_replace, space, count({n = 0, next = 1})) end
end

-- leave takes the front away before the process ends: who has seen it end meets nobody.
local ask
local function leave() pcall(ask, 'end') end

local watching = false
local function watch()
    if watching then return end
    watching = true
    box.ctl.on_shutdown(leave)
    box.session.on_connect(function()
        if box.session.type() == 'binary' then tell('peer', box.session.peer()) end
    end)
    for _, row in box.space._space:pairs(512, {iterator = 'GE'}) do watch_space(row[1]) end
    box.space._space:on_replace(function(old, new)
        if old == nil and new[1] >= 512 then
            local id = new[1]
            box.on_commit(function() watch_space(id) end)
        end
    end)
end

-- place takes an address apart as listen has it: network and address, nil for what has none.
local function place(listen)
    local text = tostring(listen or '')
    local path = text:match('^unix/:(/.*)$') or text:match('^(/.*)$')
    if path then return 'unix', path end
    local host, port = text:match('^([^/:]*):(%d+)$')
    if not port then host, port = '', text:match('^(%d+)$') end
    if not port then return nil end
    if host == '' or host == 'localhost' or host == '0.0.0.0' then host = '127.0.0.1' end
    return 'tcp', host .. ':' .. port
end

-- free_port finds one below those that the system gives to connections and to servers that don't
-- care, so that none of these takes it before the server does.
local function free_port()
    for _ = 1, 100 do
        local port = 20000 + digest.urandom(1):byte() * 48 + digest.urandom(1):byte() % 48
        local s = socket.tcp_server('127.0.0.1', port, {handler = function() end})
        if s then
            s:close()
            return port
        end
    end
    error('no port is free')
end

local fronts -- the connection to the test process, which ends when this process does

ask = function(...)
    fronts = fronts or assert(socket.tcp_connect('127.0.0.1', tonumber(os.getenv('CINCH_FRONTS'))))
    fronts:write(table.concat({...}, ' ') .. '\n')
    local answer = fronts:read('\n')
    if answer ~= 'ok\n' then error(table.concat({...}, ' ') .. ': ' .. tostring(answer)) end
end

-- prepare lets the gateway in, and has "cinch tarantool init" run. Tests take their own spaces
-- for those with the first numbers, so what init makes gets others.
local function prepare(behind)
    if box.info.ro then return end
    box.session.su('admin', function()
        box.schema.user.create('cinch_gateway', {password = 'secret', if_not_exists = true})
        box.schema.user.grant('cinch_gateway', 'super', nil, nil, {if_not_exists = true})
        local last = box.space._schema:get('max_id')
        box.space._schema:replace({'max_id', 30000})
        ask('init', behind)
        if last == nil then box.space._schema:delete('max_id') else box.space._schema:replace(last) end
    end)
end

local real = box.cfg
local shown -- what scripts see in its place
-- apply is real. The server takes from box.cfg what it is to do, so that has to be the real one.
local function apply(options)
    if shown then box.cfg = real end
    local ok, why = pcall(real, options)
    if shown then box.cfg = shown end
    if not ok then error(why, 0) end
end

local asked, told -- where the front is, and how the script said so
local function configure(options)
    options = options or {}
    local network, address = place(options.listen)
    if not network then return apply(options) end
    told = tostring(options.listen)
    if asked == address then
        options.listen = nil
        return apply(options)
    end
    local behind = '127.0.0.1:' .. free_port()
    options.listen = behind
    -- The place is taken at once, as a server takes it. Servers that wait for each other must
    -- also be met at once, others when they are complete.
    ask('front', behind, network, address)
    if options.replication then ask('ready') end
    apply(options)
    watch()
    prepare(behind)
    ask('ready')
    asked = address
end

-- After the first call the server replaces box.cfg by a table; what it holds stays to be read.
local function show()
    if type(box.cfg) ~= 'table' or box.cfg == shown then return end
    real = box.cfg
    shown = setmetatable({}, {
        __index = function(_, key) return key == 'listen' and told or real[key] end,
        __call = function(_, options) return configure(options) end,
    })
    box.cfg = shown
end

box.cfg = function(options)
    configure(options)
    show()
end

local script = table.remove(arg, 1)
arg[0] = script
dofile(script)

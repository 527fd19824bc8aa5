-- What the drivers' suites start in place of tarantool: the server listens on another address,
-- and on the one that the test asked for there is a gateway, or a plain forwarder.
--
--   tarantool shim.lua SCRIPT [ARGUMENTS]
--
-- CINCH_WAY says what stands there: direct, forward or gateway. CINCH_BIN is cinch.
local way, cinch, log = os.getenv('CINCH_WAY'), os.getenv('CINCH_BIN'), os.getenv('CINCH_LOG') or '/dev/null'
local ffi, socket, fiber = require('ffi'), require('socket'), require('fiber')
pcall(ffi.cdef, 'int getpid(void);')

-- place takes "host:port", "port" or a number apart; nil for anything else.
local function place(listen)
    local text = tostring(listen or '')
    local host, port = text:match('^([^/:]*):(%d+)$')
    if not port then host, port = '', text:match('^(%d+)$') end
    if not port then return nil end
    if host == '' then host = '127.0.0.1' end
    if host == 'localhost' or host == '0.0.0.0' then host = '127.0.0.1' end
    return host, tonumber(port)
end

local function free_port()
    local s = socket.tcp_server('127.0.0.1', 0, {handler = function() end})
    local port = s:name().port
    s:close()
    return port
end

-- front starts what stands in front of the server and ends with it.
local function front(host, port, behind)
    local command
    if way == 'gateway' then
        -- Tables of SQL, most of whose names are in capitals, are left alone: their tests compare strings.
        local config = os.tmpname()
        local file = io.open(config, 'w')
        file:write(([[{admin: {listen: "off"}, log: {level: warn}, gateways: [{name: suite, protocol: tarantool, listen: "%s:%d",
            upstream: "tarantool://cinch_gateway:secret@127.0.0.1:%d", exclude: ["[A-Z]*", space_varbin], rules: []}]}]]):format(host, port, behind))
        file:close()
        command = ("%s serve --config %s --test-force"):format(cinch, config)
    else
        command = ("python3 %s %s %d %d"):format(os.getenv('CINCH_FORWARD'), host, port, behind)
    end
    local pid = ffi.C.getpid()
    -- A restarted server may come before its predecessor's gateway has gone.
    os.execute(([[setsid sh -c '
        while readlink /proc/%d/exe; do
            %s >>%s 2>&1 & front=$!
            while readlink /proc/%d/exe && kill -0 $front; do sleep 0.1; done
            kill -9 $front
        done' >/dev/null 2>&1 </dev/null &]]):format(pid, command, log, pid))
    for _ = 1, 200 do
        local s = socket.tcp_connect(host, port, 1)
        if s then s:close() return end
        fiber.sleep(0.05)
    end
    error('nothing listens on ' .. host .. ':' .. port)
end

local function allow_gateway()
    if box.info.ro then return end
    box.session.su('admin', function()
        box.schema.user.create('cinch_gateway', {password = 'secret', if_not_exists = true})
        box.schema.user.grant('cinch_gateway', 'super', nil, nil, {if_not_exists = true})
    end)
end

local real = box.cfg
local asked -- the address of the front
local function configure(options)
    options = options or {}
    local host, port = place(options.listen)
    if way == 'direct' or not host then return real(options) end
    if asked == host .. ':' .. port then
        options.listen = nil
        return real(options)
    end
    local behind = free_port()
    options.listen = '127.0.0.1:' .. behind
    real(options)
    allow_gateway()
    front(host, port, behind)
    asked = host .. ':' .. port
end

-- After the first call the server replaces box.cfg by a table; what it holds stays to be read.
box.cfg = setmetatable({}, {
    __call = function(_, options)
        local r = configure(options)
        if type(box.cfg) == 'table' and getmetatable(box.cfg) and not rawget(box.cfg, 'shim') then
            real = box.cfg
            local meta = {__index = real, __call = function(_, o) return configure(o) end}
            box.cfg = setmetatable({shim = true}, meta)
        end
        return r
    end,
})

local script = table.remove(arg, 1)
arg[0] = script
dofile(script)

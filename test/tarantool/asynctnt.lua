-- The spaces, users and functions that asynctnt's tests ask their servers for; what its source
-- distribution leaves out. It runs behind box.cfg.
local fiber = require('fiber')

local format = {
    {name = 'f1', type = 'unsigned'},
    {name = 'f2', type = 'string'},
    {name = 'f3', type = 'unsigned'},
    {name = 'f4', type = 'unsigned'},
    {name = 'f5', type = '*'},
}

box.once('asynctnt', function()
    local rights = 'read,write,execute,create,drop,alter'
    box.schema.user.create('t1', {password = 't1'})
    box.schema.user.grant('t1', rights, 'universe')
    box.schema.user.grant('guest', rights, 'universe', nil, {if_not_exists = true})

    local tester = box.schema.space.create('tester', {format = format}) -- the tests take it for number 512
    tester:create_index('primary', {parts = {1, 'unsigned'}})
    tester:create_index('txt', {parts = {2, 'string'}, unique = false})

    local plain = box.schema.space.create('no_schema_space')
    plain:create_index('primary', {parts = {1, 'unsigned'}})
    plain:create_index('primary_hash', {type = 'hash', parts = {1, 'unsigned'}})

    box.execute([[CREATE TABLE sql_space (id INT PRIMARY KEY, name TEXT COLLATE "unicode")]])
    box.execute([[CREATE TABLE sql_space_autoincrement (id INT PRIMARY KEY AUTOINCREMENT, name TEXT)]])
    box.execute([[CREATE TABLE sql_space_autoincrement_multiple (id INT PRIMARY KEY AUTOINCREMENT, name TEXT)]])

    local decimals = box.schema.space.create('tester_ext_dec', {format = {{'f1', 'unsigned'}, {'f2', 'decimal'}}})
    decimals:create_index('primary')
    local ids = box.schema.space.create('tester_ext_uuid', {format = {{'f1', 'unsigned'}, {'f2', 'uuid'}}})
    ids:create_index('primary')

    box.schema.func.create('change_format', {setuid = true})
end)

-- change_format makes the schema another one.
function change_format()
    local longer = table.deepcopy(format)
    table.insert(longer, {name = 'f6', type = '*'})
    box.space.tester:format(longer)
end

function make_third_index(name)
    return {box.space.tester:create_index(name, {parts = {3, 'unsigned'}}).id}
end

function truncate()
    for _, name in ipairs({'tester', 'no_schema_space', 'SQL_SPACE', 'SQL_SPACE_AUTOINCREMENT',
        'SQL_SPACE_AUTOINCREMENT_MULTIPLE', 'tester_ext_dec', 'tester_ext_uuid'}) do
        local space = box.space[name]
        for _, tuple in ipairs(space:select()) do space:delete(tuple[1]) end
    end
end

function func_long(seconds)
    fiber.sleep(seconds)
    return 'ok'
end

function func_param(p) return {p} end
function func_param_bare(p) return p end
function func_hello() return {'hello'} end
function func_hello_bare() return 'hello' end

-- func_load_bin_str stores a string that is no UTF-8.
function func_load_bin_str()
    return box.space.tester:insert({100, require('uuid').bin(), 12, 15, 'hello'})
end

function raise() box.error({reason = 'my reason'}) end

function async_action()
    for i = 1, 5 do
        box.session.push('hello_' .. i)
        fiber.sleep(0.01)
    end
    return 'ret'
end

-- Lua has one type for two of MessagePack's: strings and binaries. In servers before 3.0 a
-- binary can only come from SQL.
local function is_text(v) return type(v) == 'string' end

local function binary(v)
    local ok, varbinary = pcall(require, 'varbinary')
    if ok then return varbinary.new(v) end
    return nil
end

-- operation is one of update's.
local function operation(field, value, is_binary)
    if not is_binary then return {'=', field, value} end
    local v = binary(value)
    if v ~= nil then return {'=', field, v} end
    return box.execute("SELECT '=', ?, CAST(? AS VARBINARY)", {field, value}).rows[1]
end

-- keyed gives the parts of a key the types that the index wants.
local function keyed(index, key)
    local casts, special = {}, false
    for i, part in ipairs(index.parts) do
        casts[i] = '?'
        if part.type == 'varbinary' and is_text(key[i]) then
            casts[i], special = 'CAST(? AS VARBINARY)', true
        elseif part.type == 'double' and type(key[i]) == 'number' then
            key[i] = require('ffi').cast('double', key[i])
        end
    end
    if not special then return key end
    if pcall(require, 'varbinary') then
        for i, cast in ipairs(casts) do
            if cast ~= '?' then key[i] = binary(key[i]) end
        end
        return key
    end
    return box.execute('SELECT ' .. table.concat(casts, ', '), key).rows[1]
end

local function find(id)
    local space = box.space[id]
    if space == nil or space.index[0] == nil then
        box.error{code = box.error.NO_SUCH_SPACE, reason = ("Space '%s' does not exist, or has no primary index"):format(tostring(id))}
    end
    return space
end

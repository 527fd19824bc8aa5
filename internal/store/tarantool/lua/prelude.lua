-- Lua has one type for two of MessagePack's: strings and binaries. In servers before 3.0 a
-- binary can only come from SQL, and there from a literal only.
local function is_text(v) return type(v) == 'string' end

local has_varbinary, varbinary = pcall(require, 'varbinary')

local function literal(v) return "X'" .. v:hex() .. "'" end

-- row is what SQL makes of some expressions; ? stands for the values.
local function row(expressions, values)
    local answer, err = box.execute('SELECT ' .. table.concat(expressions, ', '), values)
    if answer == nil then error(err) end
    return answer.rows[1]
end

-- operation is one of update's.
local function operation(field, value, is_binary)
    if not is_binary then return {'=', field, value} end
    if has_varbinary then return {'=', field, varbinary.new(value)} end
    return row({"'='", '?', literal(value)}, {field})
end

-- keyed gives the parts of a key the types that the index wants.
local function keyed(index, key)
    local expressions, values, special = {}, {}, false
    for i, part in ipairs(index.parts) do
        expressions[i] = '?'
        if part.type == 'varbinary' and is_text(key[i]) then
            if has_varbinary then
                key[i] = varbinary.new(key[i])
            else
                expressions[i], special = literal(key[i]), true
            end
        elseif part.type == 'double' and type(key[i]) == 'number' then
            expressions[i], key[i] = ('%.17e'):format(key[i]), require('ffi').cast('double', key[i])
        end
        if expressions[i] == '?' then table.insert(values, key[i]) end
    end
    if not special then return key end
    return row(expressions, values)
end

local function find(id)
    local space = box.space[id]
    if space == nil or space.index[0] == nil then
        box.error{code = box.error.NO_SUCH_SPACE, reason = ("Space '%s' does not exist, or has no primary index"):format(tostring(id))}
    end
    return space
end

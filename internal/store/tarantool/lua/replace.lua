-- cinch_replace(space, changes, schema): compare and set, in one call. Where schema is given, the schema must
-- have that version, or error 109 is raised and nothing is done: new bytes may be right for no other.
-- A change is {key, {{field, old, new, is_binary}, …}, tuple}. Fields count from 1. Where a tuple is
-- given, as MessagePack in a string, all of the stored tuple must be it. The answer is a list:
-- true: replaced; false: it is no longer what it was; {code, message}: the server's refusal.
-- It runs with the caller's own rights.
local function same(tuple, change)
    for _, f in ipairs(change[2]) do
        local v = tuple[f[1]]
        if type(v) == 'cdata' then v = tostring(v) end
        if v ~= f[2] then return false end
    end
    return change[3] == nil or require('msgpack').encode(tuple) == change[3]
end

local function replace(space, change)
    local key = keyed(space.index[0], change[1])
    local tuple = space:get(key)
    if tuple == nil or not same(tuple, change) then return false end
    local operations = {}
    for i, f in ipairs(change[2]) do operations[i] = operation(f[1], f[3], f[4]) end
    space:update(key, operations)
    return true
end

local function refusal(err)
    if type(err) == 'cdata' and err.code ~= nil then return {err.code, err.message} end
    return {box.error.PROC_LUA, tostring(err)}
end

-- together makes changes in one transaction. In memtx nothing yields between reading and
-- writing; in vinyl a conflict shows at the end, or before. It returns nil when nothing was done because of one.
local function together(space, changes, from, to)
    local results, done = {}, {}
    box.begin()
    for i = from, to do
        local ok, result = pcall(replace, space, changes[i])
        if not ok then
            result = refusal(result)
            if result[1] == box.error.TRANSACTION_CONFLICT then
                box.rollback()
                return nil, result
            end
        end
        results[i] = result
    end
    local ok, err = pcall(box.commit)
    if ok then return results end
    if box.is_in_txn() then box.rollback() end
    err = refusal(err)
    if err[1] == box.error.TRANSACTION_CONFLICT then return nil, err end
    for i = from, to do
        if results[i] == true then results[i] = err end
    end
    return results
end

local function main(id, changes, schema)
    local version = box.internal.schema_version
    if schema ~= nil and version ~= nil and version() ~= schema then
        box.error{code = 109, reason = 'cinch: the schema has another version'}
    end
    local space = find(id)
    if box.is_in_txn() then
        local results = {}
        for i, change in ipairs(changes) do
            local ok, result = pcall(replace, space, change)
            results[i] = ok and result or not ok and refusal(result)
        end
        return results
    end
    local results, err = together(space, changes, 1, #changes)
    if results ~= nil then return results end
    -- One by one, so that a change which others meet does not hold up the rest.
    results = {}
    for i = 1, #changes do
        local one
        for _ = 1, 10 do
            one, err = together(space, changes, i, i)
            if one ~= nil then break end
        end
        results[i] = one ~= nil and one[i] or one == nil and err
    end
    return results
end

return main(...)

-- cinch_scan(space, after, limit, bytes, process): a step of a walk over all tuples.
-- after is nil, or keys that came before, the last of them first. The answer is a list of tuples, the
-- list of their primary keys, whether the place is lost, and this process. A tree goes on
-- from any key; an index of type hash only from a tuple that exists, and in the process in which
-- the walk began: another has another order.
-- No tuple is added when there are limit of them, or as many bytes. It runs with the caller's own rights.
local function resume(index, after, known)
    if after == nil then return {}, 'ALL' end
    if index.type == 'HASH' and not known then return nil end
    for _, key in ipairs(after) do
        key = keyed(index, key)
        if index.type ~= 'HASH' or index:get(key) ~= nil then return key, 'GT' end
    end
    return nil
end

-- extractor gives a tuple's key. Not all versions can extract all types.
local function extractor(index)
    local ok, parts = pcall(require('key_def').new, index.parts)
    if ok then return function(tuple) return parts:extract_key(tuple) end end
    return function(tuple)
        local key = {}
        for i, part in ipairs(index.parts) do
            key[i] = tuple[part.fieldno]
            if part.path ~= nil then key[i] = tuple['[' .. part.fieldno .. ']' .. part.path] end
        end
        return key
    end
end

local function main(id, after, limit, bytes, process)
    local index = find(id).index[0]
    local now = box.info.uuid .. '/' .. box.info.pid
    local key, iterator = resume(index, after, process == now)
    if key == nil then return {}, {}, true, now end
    local key_of = extractor(index)
    local tuples, keys, size = {}, {}, 0
    for _, tuple in index:pairs(key, {iterator = iterator}) do
        table.insert(tuples, tuple)
        table.insert(keys, key_of(tuple))
        size = size + tuple:bsize()
        if #tuples >= limit or size >= bytes then break end
    end
    return tuples, keys, false, now
end

return main(...)

-- cinch_scan(space, after, limit, bytes): a step of a walk over all tuples.
-- after is nil, or keys that came before, the last of them first. The answer is a list of tuples, the
-- list of their primary keys, and whether none of the keys is there any more (an index of
-- type hash goes on from a tuple that exists only, a tree from any place).
-- No tuple is added when there are limit of them, or as many bytes. It runs with the caller's own rights.
local function resume(index, after)
    if after == nil then return {}, 'ALL' end
    for _, key in ipairs(after) do
        key = keyed(index, key)
        if index.type ~= 'HASH' or index:get(key) ~= nil then return key, 'GT' end
    end
    return nil
end

return function(id, after, limit, bytes)
    local index = find(id).index[0]
    local key, iterator = resume(index, after)
    if key == nil then return {}, {}, true end
    local parts = require('key_def').new(index.parts)
    local tuples, keys, size = {}, {}, 0
    for _, tuple in index:pairs(key, {iterator = iterator}) do
        table.insert(tuples, tuple)
        table.insert(keys, parts:extract_key(tuple))
        size = size + tuple:bsize()
        if #tuples >= limit or size >= bytes then break end
    end
    return tuples, keys, false
end

-- cinch_get(space, keys): the tuples with these primary keys, nil where there is none. It runs
-- with the caller's own rights.
local function main(id, keys)
    local space, tuples = find(id), {}
    for i, key in ipairs(keys) do
        local tuple = space:get(keyed(space.index[0], key))
        tuples[i] = tuple == nil and box.NULL or tuple
    end
    return tuples
end

return main(...)

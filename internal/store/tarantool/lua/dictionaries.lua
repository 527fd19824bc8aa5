-- cinch_dictionaries(number): all dictionaries as {number, sha256, bytes, state, created}, or, of one, its
-- content and hash (nothing if there is none). It runs with the caller's own rights.
local function main(number)
    local space = box.space.cinch_dictionaries
    if number ~= nil then
        local there = space:get(number)
        if there == nil then return nil end
        return there.content, there.sha256
    end
    local all = {}
    for _, t in space:pairs() do
        table.insert(all, {t.number, t.sha256, #t.content, t.state, t.created})
    end
    return all
end

return main(...)

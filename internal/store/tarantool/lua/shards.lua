-- cinch_shards(): the shards of the vshard cluster that this server stores for or routes to, as vshard has
-- them here: {replica set, whether it is this server's own, addresses, the master's first}. None where there
-- is no such cluster; false where there should be one and vshard is not configured yet. What addresses say
-- of users and passwords stays here. It runs as its owner, whose rights are not needed for more than that.
local function main()
    local uri = require('uri')

    local function address(replica)
        local ok, parsed = pcall(uri.parse, replica.uri)
        if not ok or type(parsed) ~= 'table' or parsed.service == nil then return nil end
        if parsed.unix ~= nil then return 'unix:' .. parsed.unix end
        return (parsed.host or parsed.ipv4 or parsed.ipv6 or '127.0.0.1') .. ':' .. parsed.service
    end

    local found, own = {}, {}
    local function note(sets)
        for key, set in pairs(sets) do found[set.id or set.uuid or key] = set end
    end
    for _, vshard in ipairs{'vshard', 'vshard-ee'} do
        local storage, router = package.loaded[vshard .. '.storage'], package.loaded[vshard .. '.router']
        local internal = storage and storage.internal
        if internal and internal.this_replicaset and internal.replicasets then
            note(internal.replicasets)
            own[internal.this_replicaset.id or internal.this_replicaset.uuid] = true
        end
        for _, r in pairs(router and router.internal and router.internal.routers or {}) do
            if type(r) == 'table' and r.replicasets then note(r.replicasets) end
        end
    end

    local all = setmetatable({}, {__serialize = 'seq'})
    for id, set in pairs(found) do
        local addresses, rest = setmetatable({}, {__serialize = 'seq'}), {}
        if set.master then table.insert(addresses, address(set.master)) end
        for _, replica in pairs(set.replicas or {}) do
            if replica ~= set.master then table.insert(rest, address(replica)) end
        end
        table.sort(rest)
        for _, a in ipairs(rest) do table.insert(addresses, a) end
        table.insert(all, {id, own[id] or false, addresses})
    end
    if #all == 0 and box.space._bucket ~= nil then return false end
    return all
end

return main(...)

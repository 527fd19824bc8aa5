-- cinch_status(spaces): what the server says of itself and of these spaces.
local function main(ids)
    local slabs, info = box.slab.info(), box.info
    local bytes, tuples = {}, {}
    for i, id in ipairs(ids) do
        local space = find(id)
        bytes[i], tuples[i] = space:bsize(), space:len()
    end
    local known, vinyl = pcall(function()
        local v = box.stat.vinyl()
        return v.disk.data + v.memory.level0
    end)
    return {
        version = 1, ro = info.ro, process = info.uuid .. '/' .. info.pid, cluster = (info.replicaset or info.cluster).uuid, -- 3.0 calls it so
        arena_used = slabs.arena_used, quota_used = slabs.quota_used, quota_size = slabs.quota_size,
        items_used = slabs.items_used, vinyl = known and vinyl or -1,
        bytes = bytes, tuples = tuples, max_tuple = box.cfg.memtx_max_tuple_size,
    }
end

return main(...)

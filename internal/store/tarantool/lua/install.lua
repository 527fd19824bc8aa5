-- 'cinch tarantool init' runs this script with an administrator's rights. It does the steps that are missing,
-- and returns their names. Arguments: names of users or roles, functions as {name, text, setuid}, whether only
-- to return the names, whether to remove everything.
local grantees, functions, dry, remove = ...
local ADMIN = 1 -- the user's number
local did = {}
local function step(what, f)
    table.insert(did, what)
    if not dry then f() end
end

local spaces = {
    {'cinch_dictionaries', {{'number', 'unsigned'}, {'sha256', 'string'}, {'content', 'string'}, {'state', 'string'}, {'created', 'unsigned'}}},
    {'cinch_records', {{'name', 'string'}, {'version', 'unsigned'}, {'text', 'string'}}},
}

local function install()
    if box.info.ro then error('cinch: this server is read-only: run init on the master', 0) end

    if remove then
        for _, f in ipairs(functions) do
            if box.space._func.index.name:get(f[1]) ~= nil then
                step('removed function ' .. f[1], function() box.schema.func.drop(f[1]) end)
            end
        end
        if box.space.cinch_records ~= nil then
            step('removed space cinch_records', function() box.space.cinch_records:drop() end)
        end
        local dictionaries, held = box.space.cinch_dictionaries, 0
        if dictionaries ~= nil and dictionaries.index[0] ~= nil then
            for _, t in dictionaries:pairs() do
                if t.state ~= 'forgotten' then held = held + 1 end
            end
        end
        if dictionaries ~= nil and held == 0 then
            step('removed space cinch_dictionaries', function() dictionaries:drop() end)
        elseif dictionaries ~= nil then
            table.insert(did, ('left space cinch_dictionaries: it holds %d, and values may name them'):format(held))
        end
        return did
    end

    for _, grantee in ipairs(grantees) do -- before anything is done
        if box.space._user.index.name:get(grantee) == nil then
            error(("cinch: there is no user or role %s: create it with box.schema.user.create('%s', {password = '…'})"):format(grantee, grantee), 0)
        end
    end

    -- The owner of a space could change it later.
    for _, s in ipairs(spaces) do
        local there = box.space._space.index.name:get(s[1])
        if there ~= nil and there.owner ~= ADMIN then
            error(('cinch: space %s belongs to user %s, and not to admin: look what it is, and drop it'):format(s[1], box.space._user:get(there.owner).name), 0)
        end
    end

    for _, s in ipairs(spaces) do
        if box.space[s[1]] == nil then
            step('created space ' .. s[1], function()
                box.schema.space.create(s[1], {format = s[2]}):create_index('primary', {parts = {{1, s[2][1][2]}}})
            end)
        elseif box.space[s[1]].index[0] == nil then
            step('created the index of space ' .. s[1], function()
                box.space[s[1]]:create_index('primary', {parts = {{1, s[2][1][2]}}})
            end)
        end
    end

    local func_names = box.space._func.index.name
    local fresh = {}
    for _, f in ipairs(functions) do
        local name, body, setuid = unpack(f)
        local there = func_names:get(name)
        local function create() box.schema.func.create(name, {body = body, setuid = setuid}) end
        fresh[name] = there == nil
        if there == nil then
            step('created function ' .. name, create)
        elseif there.body ~= body or there.setuid ~= (setuid and 1 or 0) or there.owner ~= ADMIN then
            step('renewed function ' .. name, function()
                -- In one transaction, so that callers always find the function, and with its grants.
                local grants = box.space._priv.index.object:select{'function', there.id}
                box.begin()
                local ok, err = pcall(function()
                    box.schema.func.drop(name)
                    create()
                    local id = func_names:get(name).id
                    for _, g in ipairs(grants) do
                        if there.owner == ADMIN and g.grantee ~= ADMIN then -- grants by another owner are dropped
                            box.space._priv:replace{g.grantor, g.grantee, 'function', id, g.privilege}
                        end
                    end
                end)
                if not ok then box.rollback() error(err, 0) end
                box.commit()
            end)
        end
    end

    local function granted(grantee, kind, name, bit_of)
        local object
        if kind == 'function' then object = func_names:get(name) else object = box.space._space.index.name:get(name) end
        local user = box.space._user.index.name:get(grantee)
        if object == nil then return false end
        local p = box.space._priv:get{user[1], kind, object[1]}
        return p ~= nil and bit.band(p[5], bit_of) ~= 0, user[4]
    end

    local function grant(grantee, right, bit_of, kind, name)
        local there, sort = granted(grantee, kind, name, bit_of)
        if there then return end
        step(('granted %s on %s %s to %s'):format(right, kind, name, grantee), function()
            local _, sort = granted(grantee, kind, name, bit_of)
            box.schema[sort].grant(grantee, right, kind, name, {if_not_exists = true})
        end)
    end

    -- All users may call functions that run with the caller's own rights, and see which fields constraints read.
    -- Dictionaries hold pieces of values: only the named users and roles may read and add them.
    for _, f in ipairs(functions) do
        if not f[3] then grant('public', 'execute', 4, 'function', f[1]) end
        for _, grantee in ipairs(grantees) do grant(grantee, 'execute', 4, 'function', f[1]) end
    end
    for _, name in ipairs{'_ck_constraint', '_fk_constraint'} do
        if box.space[name] ~= nil then grant('public', 'read', 1, 'space', name) end
    end
    for _, grantee in ipairs(grantees) do
        for _, s in ipairs(spaces) do grant(grantee, 'read', 1, 'space', s[1]) end
    end
    return did
end

-- Only the owner of an object may grant rights to it, and setuid functions run as their owner: the user admin.
return box.session.su('admin', install)

-- cinch_record(name, version, text): puts text in the place of the record of this version, 0 if
-- there is none yet. The answer is the new version, or 0 if the record has another one by now.
local function main(name, version, text)
    local space = box.space.cinch_records
    local there = space:get(name)
    if (there and there[2] or 0) ~= version then return 0 end
    if #text > 64 * 1024 then error('cinch: a record has at most 64 KiB', 0) end
    space:replace{name, version + 1, text}
    return version + 1
end

return main(...)

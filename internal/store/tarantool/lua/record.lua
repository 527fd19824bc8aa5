-- cinch_record(name, version, text): puts text in the place of the record of this version, 0 if
-- there is none yet. The answer is the new version, or 0 if the record has another one by now.
-- An empty text removes the record. Without a version it is the version there is, 0 for none, and the text.
local function main(name, version, text)
    local space = box.space.cinch_records
    local there = space:get(name)
    if version == nil then
        if there == nil then return 0, '' end
        return there[2], there[3]
    end
    if (there and there[2] or 0) ~= version then return 0, '' end
    if #text > 64 * 1024 then error('cinch: a record has at most 64 KiB', 0) end
    if text == '' then space:delete(name) else space:replace{name, version + 1, text} end
    return version + 1, text
end

return main(...)

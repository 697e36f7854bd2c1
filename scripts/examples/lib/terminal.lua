-- What the examples need of the terminal: is there one, how wide is it, a picture of half blocks.
local Terminal = {}

-- Lua has no isatty; the shell's test has, and it inherits our files.
function Terminal.is_tty(file_number)
  return os.execute(("test -t %d"):format(file_number)) == true
end

function Terminal.columns()
  return tonumber(os.getenv("COLUMNS")) or 80
end

-- A picture given as rows of {red, green, blue, red, green, blue, ...} from 0 to 255: each sign is two pixels, the
-- upper half block in the upper pixel's colour on the lower pixel's.
function Terminal.half_blocks(rows)
  local lines = {}
  for i = 1, #rows - 1, 2 do
    local upper, lower, signs = rows[i], rows[i + 1], {}
    for j = 1, #upper - 2, 3 do
      signs[#signs + 1] = ("\27[38;2;%d;%d;%dm\27[48;2;%d;%d;%dm▀"):format(
        upper[j], upper[j + 1], upper[j + 2], lower[j], lower[j + 1], lower[j + 2])
    end
    lines[#lines + 1] = table.concat(signs) .. "\27[0m"
  end
  return table.concat(lines, "\n") .. "\n"
end

-- The same without colours, for a file or a pipe: darker and lighter signs, two rows of pixels to a line.
function Terminal.ascii(rows)
  local ramp, lines = " .:-=+*#%@", {}
  for i = 1, #rows - 1, 2 do
    local signs = {}
    for j = 1, #rows[i] - 2, 3 do
      local sum = 0
      for k = j, j + 2 do
        sum = sum + rows[i][k] + rows[i + 1][k]
      end
      local step = math.min(#ramp, 1 + sum * #ramp // (6 * 256))
      signs[#signs + 1] = ramp:sub(step, step)
    end
    lines[#lines + 1] = table.concat(signs)
  end
  return table.concat(lines, "\n") .. "\n"
end

return Terminal

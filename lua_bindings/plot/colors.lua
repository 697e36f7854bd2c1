-- Color maps: numbers from 0 to 1 as colors.
--
-- viridis, magma, inferno and plasma are those of Nathaniel Smith, Stefan van der Walt and Eric Firing (CC0, 2015), even
-- steps of which look even; coolwarm is Kenneth Moreland's, for values around a middle ("Diverging color maps for
-- scientific visualization", 2009). Each is 33 of its colors, between which it is linear: at most 3 of 255 away.

local M = ...
local bytes = use("plot/picture.c", "bytes")
local maps = {
  viridis = "440154470d6048186a482374472d7b4537814240863e49893b528b375b8d33638d2f6b8e2c728e297a8e26828e23898e21918c"
    .. "1f978b1f9f8821a68527ad8131b57b3dbc744cc26c5cc8636ece5881d34d95d840aadc32c0df25d5e21aeae51afde725",
  magma = "0000040303120a0822130d341d114729115a36106b440f7651127c5d177f6a1c81762181832681902a819c2e7faa337db73779"
    .. "c23b75cf4070db476ae55064ee5b5ef4695cf9785dfb8761fd9668fea571feb47bfec287fed194fde0a1fceeb0fcfdbf",
  inferno = "0000040403120b0724150b37210c4a2f0a5b3d09654a0c6b57106e64156e71196e7d1e6d8a226a972766a32c61b0315bbc3754"
    .. "c63d4dd04545da4e3ce35933eb6429f1711ff67e14f98c0afb9b06fcaa0ffbba1ff9c932f5d949f2e865f3f586fcffa4",
  plasma = "0d08872206903105973f049c4c02a15901a56600a77201a87e03a88a09a59511a1a01a9caa2395b32c8ebc3587c43e7fcc4778"
    .. "d24f71d9586adf6263e56b5deb7556f07f4ff48948f89441fb9f3afdab33feb72dfdc328fcd025f9dd25f5eb27f0f921",
  coolwarm = "3b4cc0445acc4d68d75775e16282ea6c8ef1779af782a5fb8db0fe98b9ffa3c2ffaec9fdb8d0f9c2d5f4ccd9eed5dbe6dddddd"
    .. "e5d8d1ecd3c5f1ccb9f5c4adf7bba0f7b194f7a687f49a7bf18d6fec7f63e57058de604dd55042cb3e38c0282fb40426",
  gray = "000000ffffff",
}

local function digit(byte) return byte < 58 and byte - 48 or byte - 87 end

-- Text as "44015447..." to lists of red, green and blue.
function M.read_colors(hex)
  local b, list = bytes(hex), {}
  for i = 1, #b, 6 do
    list[#list + 1] = { digit(b[i]) * 16 + digit(b[i + 1]), digit(b[i + 2]) * 16 + digit(b[i + 3]), digit(b[i + 4]) * 16 + digit(b[i + 5]) }
  end
  return list
end

-- A function from a number of 0 to 1, and none else, to a color 0xRRGGBB. It knows 256 of them.
function M.color_map(name)
  local list, known = M.read_colors(maps[name]), {}
  for i = 0, 255 do
    local at = i / 255 * (#list - 1)
    local k = at // 1 | 0
    local a, b, f = list[k + 1], list[k + 2] or list[k + 1], at - k
    local c = 0
    for j = 1, 3 do c = c << 8 | (a[j] + f * (b[j] - a[j]) + 0.5) // 1 | 0 end
    known[i] = c
  end
  return function(t) return known[(t * 255 + 0.5) // 1 | 0] end
end

-- The least and the greatest of the numbers in the list, without NaN and infinities; nil where there is none.
function M.finite_range(list)
  local low, high
  for i = 1, #list do
    local v = list[i]
    if v - v == 0 then
      if not low then low, high = v, v elseif v < low then low = v elseif v > high then high = v end
    end
  end
  return low, high
end

-- A function from values to colors: those beyond the limits take the color at the end, NaN the given one. Limits that
-- fall turn the colors round.
function M.color_scale(name, low, high, nan)
  local of, span = M.color_map(name), high - low
  return function(v)
    if v ~= v then return nan end
    local t = span ~= 0 and (v - low) / span or 0.5
    return of(t > 1 and 1 or t > 0 and t or 0)
  end
end

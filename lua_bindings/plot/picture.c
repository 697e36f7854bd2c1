/* picture.c: what tensors look like: in a terminal (plot/imshow.lua), and as curves, dots and areas between axes
 * (plot/plot.lua). Here is what those cannot do in Lua: numbers of tensors, pixels to tensors, and what is known of the
 * terminal. */
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "call/each.h"
#include "tensor/tensor.h"

/* {==== For the chunks */

/* numbers(x): a list of the values of a tensor in C's order, and its number of dimensions. */
static int script_numbers(lua_State *L) {
  ltide_state *S = ltide_enter(L);
  const tide_options o = {TIDE_FLOAT64, TIDE_CPU, false};
  ltide_tensor *u = ltide_new_tensor(L, S);
  ltide_try(L, tide_to(&u->t, ltide_check_tensor(L, S, 1, "x"), &o, false, false));
  int64_t n = tide_tensor_numel(u->t);
  double *values = lua_newuserdatauv(L, (size_t)n * sizeof *values + 1, 0);
  ltide_try(L, tide_read(values, u->t));
  lua_createtable(L, n < INT32_MAX ? (int)n : 0, 0);
  for (int64_t i = 0; i < n; i++) {
    lua_pushnumber(L, values[i]);
    lua_rawseti(L, -2, i + 1);
    ltide_poll(L, i);
  }
  lua_pushinteger(L, tide_tensor_ndim(u->t));
  return 2;
}

/* picture(list, height, width): the colors 0xRRGGBB as a uint8 tensor [height, width, 3]. */
static int script_picture(lua_State *L) {
  ltide_state *S = ltide_enter(L);
  int64_t size[3] = {lua_tointeger(L, 2), lua_tointeger(L, 3), 3}, n = size[0] * size[1];
  const tide_options o = {TIDE_UINT8, TIDE_CPU, false};
  ltide_tensor *u = ltide_new_tensor(L, S);
  ltide_try(L, tide_empty(&u->t, size, 3, &o));
  uint8_t *to = tide_tensor_data(u->t);
  for (int64_t i = 1; i <= n; i++, to += 3) {
    lua_rawgeti(L, 1, i);
    lua_Integer c = lua_tointeger(L, -1);
    to[0] = (uint8_t)(c >> 16), to[1] = (uint8_t)(c >> 8), to[2] = (uint8_t)c;
    lua_pop(L, 1);
  }
  return 1;
}

static int script_save_picture(lua_State *L) {
  ltide_need(L, TIDE_LUA_FILES, "plot: path");
  return ltide_done(L, tide_png_save(lua_tostring(L, 1), ltide_check_tensor(L, ltide_enter(L), 2, "picture")));
}

static int script_bytes(lua_State *L) {
  size_t n;
  const char *text = lua_tolstring(L, 1, &n);
  lua_createtable(L, (int)n, 0);
  for (size_t i = 0; i < n; i++) {
    lua_pushinteger(L, (unsigned char)text[i]);
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
  return 1;
}

static int script_log10(lua_State *L) { return lua_pushnumber(L, log10(lua_tonumber(L, 1))), 1; }

/* general(v, digits): so many significant ones. */
static int script_general(lua_State *L) {
  char text[64];
  snprintf(text, sizeof text, "%.*g", (int)lua_tointeger(L, 2), lua_tonumber(L, 1));
  return lua_pushstring(L, text), 1;
}

/* What a program is told of the colors that its terminal has. */
static const char *colors_of_terminal(void) {
  const char *term = getenv("TERM"), *color = getenv("COLORTERM"), *no = getenv("NO_COLOR");
  if (!isatty(STDOUT_FILENO) || !term || !strcmp(term, "dumb") || (no && *no)) return "none";
  if (color && (!strcmp(color, "truecolor") || !strcmp(color, "24bit"))) return "true";
  return strstr(term, "direct") ? "true" : strstr(term, "256") ? "256" : "none";
}

/* terminal_colors(): "true", "256" or "none". */
static int script_terminal_colors(lua_State *L) { return lua_pushstring(L, colors_of_terminal()), 1; }

#include <rows/picture.inc>

void ltide_open_picture(lua_State *L, ltide_state *S) {
  LTIDE_GIVE(L, "plot/picture.c", numbers, picture, save_picture, bytes, log10, general, terminal_colors);
  ltide_register_rows(L, "tide", picture_rows);
}

/* chunks.c: writes Lua's chunks as C: a list of {name, text, its length, code, its length}, which script.c includes.
 * The code is what Lua has compiled the text to, with its lines.
 *
 * usage: tide_chunks OUT ROOM/FILE.lua... */
#include <lauxlib.h>
#include <lua.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static FILE *out;

static int put(lua_State *L, const void *bytes, size_t size, void *length) {
  (void)L;
  for (size_t i = 0; i < size; i++) fprintf(out, "%d,", ((const unsigned char *)bytes)[i]);
  *(size_t *)length += size;
  return 0;
}

/* ROOM/FILE.lua, of a path. */
static const char *name_of(const char *path) {
  const char *at = path + strlen(path);
  for (int slashes = 0; at > path && (slashes += at[-1] == '/') < 2; at--) continue;
  return at;
}

static char *read_all(lua_State *L, const char *path, size_t *length) {
  FILE *f = fopen(path, "rb");
  luaL_Buffer b;
  luaL_buffinit(L, &b);
  for (size_t n = 1; f && n > 0;) {
    n = fread(luaL_prepbuffer(&b), 1, LUAL_BUFFERSIZE, f);
    luaL_addsize(&b, n);
  }
  if (!f || ferror(f)) luaL_error(L, "%s cannot be read", path);
  fclose(f);
  luaL_pushresult(&b);
  return (char *)lua_tolstring(L, -1, length);
}

/* Their code is little else than their text once more. */
static bool has_long_strings(const char *name) { return strstr(name, "texts.lua") || strstr(name, "examples.lua"); }

static int write_chunk(lua_State *L) {
  size_t text_length, length = 0;
  const char *path = lua_tostring(L, 1), *text = read_all(L, path, &text_length);
  const char *name = lua_pushfstring(L, "=[tide %s]", name_of(path));
  if (luaL_loadbufferx(L, text, text_length, name, "t") != LUA_OK) return lua_error(L);
  fprintf(out, "{\"%s\", (const char[]){", name);
  put(L, text, text_length, &length);
  fprintf(out, "}, %zu", length);
  length = 0;
  if (!has_long_strings(name)) {
    fprintf(out, ", (const unsigned char[]){");
    lua_dump(L, put, &length, 0);
    fprintf(out, "}, %zu", length);
  }
  fprintf(out, "},\n");
  return 0;
}

int main(int argc, char **argv) {
  lua_State *L = luaL_newstate();
  if (!L || argc < 2 || !(out = fopen(argv[1], "w"))) return 2;
  for (int i = 2; i < argc; i++) {
    lua_pushcfunction(L, write_chunk);
    lua_pushstring(L, argv[i]);
    if (lua_pcall(L, 1, 0, 0) != LUA_OK) {
      fprintf(stderr, "tide_chunks: %s\n", lua_tostring(L, -1));
      remove(argv[1]);
      return 1;
    }
  }
  lua_close(L);
  return fclose(out) != 0;
}

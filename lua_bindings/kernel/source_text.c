/* source_text.c: the text of a function, for kernels written in Lua.
 *
 * Lua keeps no text, but says where it was: in a file, which a host may keep in an archive, or in the string that was
 * loaded. A file may have been edited since, and a name may be wrong, so that what is found is compiled, and holds the
 * function only if the code of it is the same to the byte. No message shows anything of a file that does not.
 *
 * Invariant: the text that is given out holds the function. LuaJIT's code has no form to compare: there it is believed
 * that it does. */
#include <stdlib.h>

#include "kernel.h"

#include "call/each.h"
#include "call/system.h"

enum { MOST = 16 << 20, HEADER = 32 }; /* bytes of a file; of what stands before a function's code in a dump */

/* {==== Is it the same function? */

typedef struct dump {
  char *bytes;
  size_t size, room;
  bool full; /* there is no memory for more */
} dump;

static int write_dump(lua_State *L, const void *bytes, size_t size, void *user) {
  dump *d = user;
  if (d->size + size > d->room) {
    size_t room = 2 * (d->size + size);
    char *more = realloc(d->bytes, room);
    if (!more) return d->full = true;
    d->bytes = more, d->room = room;
  }
  memcpy(d->bytes + d->size, bytes, size);
  d->size += size;
  return 0;
}

/* Does the chunk at the top hold the function at `fn`? */
static bool holds(lua_State *L, int fn) {
  dump all = {0}, one = {0};
  if (LUA_VERSION_NUM < 504) return true; /* nothing is known of the form */
  bool same = lua_dump(L, write_dump, &all, 1) == 0;
  lua_pushvalue(L, fn);
  same = same && lua_dump(L, write_dump, &one, 1) == 0 && one.size > HEADER &&
         memmem(all.bytes, all.size, one.bytes + HEADER, one.size - HEADER);
  lua_pop(L, 1);
  free(all.bytes), free(one.bytes);
  if (all.full || one.full) ltide_error(L, "OutOfMemoryError", "kernel: no host memory for the text of the function");
  return same;
}

/* The text at the top: of the function at fn? */
static bool is_text_of(lua_State *L, int fn, const char *name) {
  size_t size;
  const char *text = lua_tolstring(L, -1, &size), *code = text;
  if (*text == '#') code = strchr(text, '\n'); /* the first line of a program, as luaL_loadfile skips it */
  if (!code || luaL_loadbufferx(L, code, size - (size_t)(code - text), name, "t") != LUA_OK)
    return code && (lua_pop(L, 1), false);
  bool same = holds(L, fn);
  lua_pop(L, 1);
  return same;
}

/* {==== Where it is */

/* Pushes what is in the file; false: it cannot be read, or is none. */
static bool push_file(lua_State *L, const char *path) {
  luaL_Buffer b;
  FILE *f = ltide_open_plain(path);
  if (!f) return false;
  luaL_buffinit(L, &b);
  size_t all = 0, n = 1;
  while (n > 0 && all <= MOST) {
    char *room = luaL_prepbuffer(&b);
    n = fread(room, 1, LUAL_BUFFERSIZE, f);
    luaL_addsize(&b, n);
    all += n;
  }
  bool good = all <= MOST && !ferror(f);
  fclose(f);
  luaL_pushresult(&b);
  if (!good) lua_pop(L, 1);
  return good;
}

static const char key_reader;

int ltide_set_source_reader(lua_State *L) {
  lua_settop(L, 1);
  if (!lua_isfunction(L, 1) && !lua_isnil(L, 1))
    return ltide_error(L, "ArgumentError", "set_source_reader: read: got %s, expected a function of a name, or nil",
                       ltide_typename(L, 1));
  return lua_rawsetp(L, LUA_REGISTRYINDEX, &key_reader), 0;
}

/* Pushes what reads sources: what was set, or else LÖVE's reader; false: there is none. */
static bool push_reader(lua_State *L) {
  int top = lua_gettop(L);
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &key_reader) == LUA_TFUNCTION) return true;
  static const char *const path[] = {"love", "filesystem", "read"};
  lua_pushglobaltable(L);
  for (int i = 0; i < 3 && lua_istable(L, -1); i++) lua_pushstring(L, path[i]), lua_rawget(L, -2);
  if (!lua_isfunction(L, -1)) return lua_settop(L, top), false;
  lua_replace(L, top + 1);
  lua_settop(L, top + 1);
  return true;
}

/* Pushes the text of a source that lies where the host keeps it, in an archive, say. An error of the reader is the
 * caller's. */
static bool push_from_host(lua_State *L, const char *name) {
  luaL_checkstack(L, LUA_MINSTACK, "kernel");
  if (!push_reader(L)) return false;
  lua_pushstring(L, name);
  lua_call(L, 1, 1);
  if (lua_isnil(L, -1)) return lua_pop(L, 1), false;
  if (lua_type(L, -1) != LUA_TSTRING)
    ltide_error(L, "ArgumentError", "set_source_reader: read('%s'): got %s, expected the text, or nil", name,
                ltide_typename(L, -1));
  return true;
}

static const char key_texts;
enum { TEXTS = 64 };

void ltide_keep_text(lua_State *L) {
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &key_texts) != LUA_TTABLE) {
    lua_pop(L, 1);
    lua_createtable(L, TEXTS, 0);
    lua_pushvalue(L, -1);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &key_texts);
  }
  lua_Integer n = (lua_Integer)lua_rawlen(L, -1);
  if (n < TEXTS) {
    lua_pushvalue(L, -2);
    lua_rawseti(L, -2, n + 1);
  } else { /* the oldest goes */
    for (lua_Integer i = 1; i < n; i++) lua_rawgeti(L, -1, i + 1), lua_rawseti(L, -2, i);
    lua_pushvalue(L, -2);
    lua_rawseti(L, -2, n);
  }
  lua_pop(L, 1);
}

/* Pushes the text of a prompt that the function stands in. */
static bool push_kept(lua_State *L, int fn, const char *source) {
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &key_texts) != LUA_TTABLE) return lua_pop(L, 1), false;
  for (lua_Integer i = (lua_Integer)lua_rawlen(L, -1); i > 0; i--, lua_pop(L, 1)) {
    lua_rawgeti(L, -1, i);
    if (LUA_VERSION_NUM >= 504 && is_text_of(L, fn, source)) return lua_remove(L, -2), true;
  }
  lua_pop(L, 1);
  return false;
}

/* Pushes the text of a function in a file, which is the host's or the system's to read; NULL, or why there is none. */
static const char *push_source(lua_State *L, int fn, const char *source) {
  static bool (*const push[])(lua_State *, const char *) = {push_from_host, push_file};
  const char *why = "its file cannot be read";
  for (int i = 0; i < 2; i++) {
    if (!push[i](L, source + 1)) continue;
    if (is_text_of(L, fn, source)) return NULL;
    lua_pop(L, 1);
    why = "its file was edited since it was loaded";
  }
  return why;
}

/* function_text(f): the text that it stands in, the name of that, and the first line of it; or nil and why not. */
static int script_function_text(lua_State *L) {
  lua_Debug ar;
  const char *why = NULL;
  lua_settop(L, 1);
  lua_pushvalue(L, 1);
  if (lua_iscfunction(L, 1)) return lua_pushnil(L), lua_pushliteral(L, "it is a function of C"), 2;
  lua_getinfo(L, ">S", &ar);
  luaL_checkstack(L, LUA_MINSTACK, "kernel");
  if (*ar.source == '@') {
    why = push_source(L, 1, ar.source);
  } else if (*ar.source == '=') {
    if (!push_kept(L, 1, ar.source)) why = "its text is not known, as it came from a buffer or was stripped";
  } else {
    lua_pushstring(L, ar.source);
    if (!is_text_of(L, 1, ar.source)) why = "its text is not known";
  }
  if (why) return lua_pushnil(L), lua_pushstring(L, why), 2;
  lua_pushstring(L, ar.source);
  lua_pushinteger(L, ar.linedefined);
  return 3;
}

/* function_in(f, text, name): does the function stand in the text? nil: that cannot be told. */
static int script_function_in(lua_State *L) {
  const char *name = lua_tostring(L, 3);
  lua_settop(L, 2);
  if (LUA_VERSION_NUM < 504) return lua_pushnil(L), 1;
  return lua_pushboolean(L, is_text_of(L, 1, name)), 1;
}

/* objection(text, name): why Lua's compiler refuses a text; nil: it does not, or only by a limit of its own. */
static int script_objection(lua_State *L) {
  const char *name = lua_pushfstring(L, "=%s", lua_tostring(L, 2));
  if (LUA_VERSION_NUM < 504 || !luaL_loadbufferx(L, lua_tostring(L, 1), lua_rawlen(L, 1), name, "t"))
    return lua_pushnil(L), 1;
  const char *why = lua_tostring(L, -1), *end = strstr(why, " near ");
  for (const char *const *limit = (const char *const[]){"too ", "overflow", NULL}; *limit; limit++) {
    const char *found = strstr(why, *limit);
    if (found && (!end || found < end)) return lua_pushnil(L), 1;
  }
  return 1;
}

const luaL_Reg ltide_kernel_texts[] = LTIDE_SCRIPT(function_text, function_in, objection);

/* fuse_pure.c: the C functions whose results depend on their arguments alone, which a function that is fused may call
 * as it likes: most of Lua's own libraries, and what devices and dtypes tell of themselves. */
#include "fuse.h"

#if LUA_VERSION_NUM == 504

static const char key_pure;

static fuse_purity listed(lua_State *L, lua_CFunction fn) {
  void *address;
  memcpy(&address, &fn, sizeof address);
  lua_rawgetp(L, LUA_REGISTRYINDEX, &key_pure);
  lua_rawgetp(L, -1, address);
  fuse_purity purity = (fuse_purity)lua_tointeger(L, -1);
  lua_pop(L, 2);
  return purity;
}

/* Is the function at the top one of devices or dtypes, which never change: device.type, a == b, tostring(dtype)? */
static bool is_of_constants(lua_State *L) {
  static const char *const metas[] = {"tide.device", "tide.dtype"}, *const events[] = {"__index", "__eq", "__tostring"};
  int fn = lua_gettop(L);
  bool is = false;
  for (int i = 0; i < 2; i++) {
    luaL_getmetatable(L, metas[i]);
    for (int k = 0; k < 3 && lua_istable(L, fn + 1); k++, lua_settop(L, fn + 1)) {
      lua_pushstring(L, events[k]);
      lua_rawget(L, fn + 1);
      is |= lua_rawequal(L, -1, fn);
    }
    lua_settop(L, fn);
  }
  return is;
}

fuse_purity fuse_purity_of(lua_State *L) {
  fuse_purity purity = listed(L, lua_tocfunction(L, -1));
  return purity != FUSE_IMPURE || !is_of_constants(L) ? purity : FUSE_PURE;
}

static fuse_purity purity_of_name(const char *name) {
  if (ltide_is_in(" insert move remove sort rawset setmetatable ", name)) return FUSE_WRITES;
  if (ltide_is_in(" pairs next ", name)) return FUSE_WALKS;
  if (ltide_is_in(" tostring format ", name)) return FUSE_SHOWS;
  return ltide_is_in(" ipairs unpack concat rawget rawlen ", name) ? FUSE_READS : FUSE_PURE;
}

static void add_pure(lua_State *L, int list, int index, fuse_purity purity) {
  lua_CFunction fn = lua_tocfunction(L, index);
  void *address;
  memcpy(&address, &fn, sizeof address);
  if (!fn) return;
  lua_pushinteger(L, purity);
  lua_rawsetp(L, list, address);
}

static void add_library(lua_State *L, int list, const char *library, const char *names, const char *without) {
  int top = lua_gettop(L);
  lua_getfield(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
  if (lua_getfield(L, -1, library) == LUA_TTABLE)
    for (lua_pushnil(L); lua_next(L, top + 2); lua_pop(L, 1)) {
      const char *name = lua_type(L, -2) == LUA_TSTRING ? lua_tostring(L, -2) : "";
      if (lua_iscfunction(L, -1) && (!names || ltide_is_in(names, name)) && !ltide_is_in(without, name))
        add_pure(L, list, lua_gettop(L), purity_of_name(name));
    }
  lua_settop(L, top);
}

static void add_iterator(lua_State *L, int list) {
  lua_getfield(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
  if (lua_getfield(L, -1, LUA_GNAME) == LUA_TTABLE && lua_getfield(L, -1, "ipairs") == LUA_TFUNCTION &&
      lua_iscfunction(L, -1)) {
    lua_newtable(L);
    lua_call(L, 1, 1);
    add_pure(L, list, lua_gettop(L), FUSE_PURE);
  }
  lua_settop(L, list);
}

void ltide_fuse_note_library(lua_State *L, bool all) {
  int list = lua_gettop(L) + 1;
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &key_pure) != LUA_TTABLE) { /* the module is not open */
    lua_settop(L, list - 1);
    return;
  }
  add_library(L, list, LUA_GNAME,
              " assert error ipairs next pairs pcall xpcall rawequal rawget rawlen rawset select setmetatable "
              "getmetatable tonumber tostring type ",
              "");
  if (all) {
    add_library(L, list, "math", NULL, " random randomseed ");
    add_library(L, list, "string", NULL, " gmatch ");
    add_library(L, list, "table", NULL, "");
    add_library(L, list, "utf8", NULL, " codes ");
    add_iterator(L, list);
  }
  lua_settop(L, list - 1);
}

void ltide_fuse_note_pure(lua_State *L, lua_CFunction fused) {
  lua_newtable(L);
  int list = lua_gettop(L);
  lua_pushcfunction(L, fused);
  add_pure(L, list, list + 1, FUSE_PURE);
  lua_settop(L, list);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &key_pure);
  ltide_fuse_note_library(L, true);
}

#else

void ltide_fuse_note_library(lua_State *L, bool all) { (void)L, (void)all; }

#endif

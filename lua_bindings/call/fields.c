/* fields.c: structs of core's as tables. Which members there are, and under which keys, is said where they are used. */
#include "fields.h"
#include "object.h"

typedef struct timed { /* a tide_duration_stat with what is worked out of it */
  int64_t total, count, max, min, avg;
} timed;

#define POOL(key, pool)                                                                                                \
  { key, 'S', (pool) * sizeof(tide_stat) }
static const ltide_field stat[] = LTIDE_FIELDS(tide_stat, current, peak, allocated, freed),
                         duration[] = LTIDE_FIELDS(timed, total, count, max, min, avg),
                         pools[] = {POOL("all", TIDE_POOL_ALL),
                                    POOL("large_pool", TIDE_POOL_LARGE),
                                    POOL("small_pool", TIDE_POOL_SMALL),
                                    {0}};

static void push_value(lua_State *L, char kind, const void *at) {
  switch (kind) {
  case 'i': lua_pushinteger(L, *(const int *)at); break;
  case 'l': lua_pushinteger(L, *(const int64_t *)at); break;
  case 'b': lua_pushboolean(L, *(const bool *)at); break;
  case 'd': lua_pushnumber(L, *(const double *)at); break;
  case 's': lua_pushstring(L, *(const char *const *)at); break;
  default: lua_pushstring(L, at);
  }
}

/* prefix: before the keys, "" or with a dot at its end. */
static void set_fields(lua_State *L, const ltide_field *f, const void *data, const char *prefix, bool nested) {
  int table = lua_gettop(L);
  for (; f->key; f++, lua_settop(L, table)) {
    const void *at = (const char *)data + f->at;
    const ltide_field *parts = f->kind == 'S' ? stat : f->kind == 'P' ? pools : f->kind == 'D' ? duration : NULL;
    const tide_duration_stat *d = at;
    const char *key = *prefix ? lua_pushfstring(L, "%s%s", prefix, f->key) : f->key;
    if (parts) {
      timed t = {0};
      if (f->kind == 'D') t = (timed){d->total, d->count, d->max, d->min, d->count ? d->total / d->count : 0}, at = &t;
      const char *inner = nested ? "" : lua_pushfstring(L, "%s.", key);
      if (nested)
        lua_createtable(L, 0, 5);
      else
        lua_pushvalue(L, table);
      set_fields(L, parts, at, inner, nested);
      if (nested) lua_setfield(L, table, key);
      continue;
    }
    push_value(L, f->kind, at);
    lua_setfield(L, table, key);
  }
}

bool ltide_push_field(lua_State *L, const ltide_field *f, const void *data, const char *key) {
  while (f && f->key && strcmp(f->key, key)) f++;
  if (!f || !f->key) return false;
  push_value(L, f->kind, (const char *)data + f->at);
  return true;
}

void ltide_set_fields(lua_State *L, const ltide_field *fields, const void *data, bool nested) {
  luaL_checkstack(L, 16, "tide: fields");
  set_fields(L, fields, data, "", nested);
}

void ltide_push_device(lua_State *L, int device) {
  luaL_getsubtable(L, LUA_REGISTRYINDEX, "tide.devices");
  if (lua_rawgeti(L, -1, device) == LUA_TNIL) {
    lua_pop(L, 1);
    *(int *)ltide_new_object(L, sizeof device, 0) = device;
    ltide_setmetatable(L, "tide.device");
    lua_pushvalue(L, -1);
    lua_rawseti(L, -3, device);
  }
  lua_remove(L, -2);
}

/* {==== What a function owns */

typedef struct owned {
  void *value;
  void (*release)(void *);
} owned;
#define OWNED_META "tide.owned"

static int owned_close(lua_State *L) {
  owned *o = ltide_test_object(L, 1, OWNED_META);
  void *value = o ? o->value : NULL;
  if (value) o->value = NULL, o->release(value);
  return 0;
}

void **ltide_new_owned(lua_State *L, void (*release)(void *)) {
  static const luaL_Reg meta[] = {{"__gc", owned_close}, {"__close", owned_close}, {0}};
  owned *o = ltide_new_object(L, sizeof *o, 0);
  *o = (owned){NULL, release};
  if (ltide_newmetatable(L, OWNED_META)) luaL_setfuncs(L, meta, 0);
  lua_pop(L, 1);
  ltide_setmetatable(L, OWNED_META);
  return &o->value;
}

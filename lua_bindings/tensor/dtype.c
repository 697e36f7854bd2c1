/* dtype.c: tide.float32 and the like: one object for each dtype and Lua state, so that == compares them.
 *
 * The objects live in a registry table, indexed by the enum; ltide_push_dtype makes no garbage. Wherever a dtype is
 * expected its name or alias will do as well. */
#include "call/class.h"

#define DTYPE_META "tide.dtype"

static char kind(void *d) { return tide_dtype_kind(*(tide_dtype *)d); }

static int name_of(lua_State *L, void *d) { return lua_pushstring(L, tide_dtype_name(*(tide_dtype *)d)), 1; }
static int size_of(lua_State *L, void *d) {
  return ltide_give_integer(L, (lua_Integer)tide_dtype_size(*(tide_dtype *)d));
}
static int is_float(lua_State *L, void *d) { return ltide_give_boolean(L, kind(d) == 'F'); }
static int is_complex(lua_State *L, void *d) { return ltide_give_boolean(L, kind(d) == 'C'); }
static int is_signed(lua_State *L, void *d) { return ltide_give_boolean(L, kind(d) != 'B' && kind(d) != 'U'); }

static int dtype_tostring(lua_State *L, void *d) {
  return lua_pushfstring(L, "tide.%s", tide_dtype_name(*(tide_dtype *)d)), 1;
}

static int lset_default_dtype(lua_State *L, ltide_call *c) {
  return ltide_done(L, tide_set_default_dtype(c->v[0].dtype));
}

static int lget_default_dtype(lua_State *L, ltide_call *c) { return ltide_push_dtype(L, tide_get_default_dtype()), 1; }

static int lpromote_types(lua_State *L, ltide_call *c) {
  return ltide_push_dtype(L, tide_dtype_promote(c->v[0].dtype, c->v[1].dtype)), 1;
}

static int lcan_cast(lua_State *L, ltide_call *c) {
  return ltide_give_boolean(L, tide_dtype_can_cast(c->v[0].dtype, c->v[1].dtype));
}

static int lis_dtype(lua_State *L, ltide_call *c) { return ltide_give_boolean(L, ltide_dtype_of(L, 1) != NULL); }

static void set_object(lua_State *L, int module, tide_dtype d, const char *name, const char *alias) {
  ltide_push_dtype(L, d);
  lua_pushvalue(L, -1);
  lua_setfield(L, module, name);
  lua_setfield(L, module, alias);
}

void ltide_open_dtype(lua_State *L, ltide_state *S) {
#include <rows/dtype_fields.inc>
#include <rows/dtype.inc>
  static const ltide_class class = {.meta = DTYPE_META,
                                    .name = "dtype",
                                    .rows = dtype_fields_rows,
                                    .size = sizeof(tide_dtype),
                                    .tostring = dtype_tostring};
  int module = lua_gettop(L);
  ltide_handle_of(S)->dtype_meta = ltide_open_class(L, &class);
  lua_createtable(L, TIDE_DTYPE_COUNT, 1);
  for (int d = 0; d < TIDE_DTYPE_COUNT; d++) {
    *(tide_dtype *)ltide_new_instance(L, &class) = (tide_dtype)d;
    lua_rawseti(L, -2, d);
  }
  lua_rawsetp(L, LUA_REGISTRYINDEX, &ltide_dtype_objects);
#define DTYPE(name, NAME, type, bytes, kind, alias) set_object(L, module, TIDE_##NAME, #name, #alias);
#include "tide/dtype.def"
#undef DTYPE
  ltide_register_rows(L, "tide", dtype_rows);
}

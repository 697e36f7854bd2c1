/* class.c: what the classes of userdata have in common. Each metamethod is one function for all of them, which finds
 * the class in an upvalue and checks by the seal that the object is one of it, whatever a script calls it with. */
#include "class.h"
#include "did_you_mean.h"

enum { METHODS = 1, CLASS, ADDRESS }; /* upvalues; the last one is that of the metatable */

static const ltide_class *own_class(lua_State *L) { return lua_touserdata(L, lua_upvalueindex(CLASS)); }

static void *test_instance(lua_State *L, int arg) {
  return ltide_test_meta(L, arg, lua_touserdata(L, lua_upvalueindex(ADDRESS)));
}

/* The pointer that the object at 1 holds, or its struct. */
static void *check_instance(lua_State *L, const ltide_class *c) {
  ltide_enter(L);
  void **u = test_instance(L, 1);
  if (!u) ltide_arg_error(L, 1, "self", c->meta);
  if (c->size) return u;
  if (!*u) ltide_freed_error(L, "self", c->name);
  return *u;
}

/* Adds the word to the text at the top. */
static void add_word(lua_State *L, const char *word) {
  lua_pushfstring(L, "%s%s", *lua_tostring(L, -1) ? " " : "", word);
  lua_concat(L, 2);
}

static int class_index(lua_State *L) {
  lua_pushvalue(L, 2);
  if (lua_rawget(L, lua_upvalueindex(METHODS)) != LUA_TNIL) return 1;
  const ltide_class *c = own_class(L);
  void *object = check_instance(L, c);
  const char *key = ltide_check_text(L, 2, "key");
  for (const ltide_row *r = c->rows; r && r->name; r++)
    if (!r->fn && !strcmp(r->name, key)) {
      ltide_need(L, r->needs, key);
      return r->core.field(L, object);
    }
  if (ltide_push_field(L, c->members, object, key)) return 1;
  lua_pushliteral(L, "");
  for (const ltide_row *r = c->rows; r && r->name; r++)
    if (!r->fn && !r->same && ltide_granted(L, r->needs)) add_word(L, r->name);
  for (const ltide_field *f = c->members; f && f->key; f++) add_word(L, f->key);
  return ltide_no_field(L, c->name, key, lua_upvalueindex(METHODS), lua_tostring(L, -1));
}

static int class_gc(lua_State *L) {
  const ltide_class *c = own_class(L);
  void **u = test_instance(L, 1), *object = u && !c->size ? *u : u;
  if (u && !c->size) *u = NULL;
  if (object) c->release(object);
  return 0;
}

static int class_eq(lua_State *L) {
  const ltide_class *c = own_class(L);
  void **a = test_instance(L, 1), **b = test_instance(L, 2);
  if (!c->size) a = a ? *a : NULL, b = b ? *b : NULL;
  return lua_pushboolean(L, a && b && c->equal(a, b)), 1;
}

static int class_tostring(lua_State *L) {
  const ltide_class *c = own_class(L);
  return c->tostring(L, check_instance(L, c));
}

/* The table of methods is at -2, the metatable at -1. */
static void set_function(lua_State *L, const ltide_class *c, const char *name, lua_CFunction f) {
  lua_pushvalue(L, -2);
  lua_pushlightuserdata(L, (void *)c);
  lua_pushlightuserdata(L, (void *)lua_topointer(L, -3));
  lua_pushcclosure(L, f, 3);
  lua_setfield(L, -2, name);
}

const void *ltide_open_class(lua_State *L, const ltide_class *c) {
  static const luaL_Reg read_only[] = {{"__newindex", ltide_read_only}, {0}};
  lua_newtable(L);
  if (c->rows) ltide_register_rows(L, c->name, c->rows);
  ltide_newmetatable(L, c->meta);
  luaL_setfuncs(L, read_only, 0);
  if (c->others) luaL_setfuncs(L, c->others, 0);
  set_function(L, c, "__index", class_index);
  if (c->release) set_function(L, c, "__gc", class_gc);
  if (c->equal) set_function(L, c, "__eq", class_eq);
  if (c->tostring) set_function(L, c, "__tostring", class_tostring);
  const void *address = lua_topointer(L, -1);
  lua_pop(L, 2);
  return address;
}

void *ltide_new_instance(lua_State *L, const ltide_class *c) {
  size_t size = c->size ? c->size : sizeof(void *);
  void *object = memset(ltide_new_object(L, size, 0), 0, size);
  ltide_setmetatable(L, c->meta);
  return object;
}

/* did_you_mean.c: names that do not exist: an error where they are written, with the nearest that does.
 *
 * Every table of the module, every class and every table of methods gets a metatable whose __index raises, so that a
 * name that exists costs what it cost before. It is done once, after all rooms have opened, by walking what they have
 * made. Keys that are no strings, and those that begin with two underscores, which libraries look for in anything, stay
 * nil. */
#include "did_you_mean.h"

#include "row.h"

static const char key_spaces, key_strict;

/* {==== What there is instead */

typedef struct instead {
  unsigned where;
  const char *names, *hint; /* names: with a blank on either side */
} instead;

#define AUTOGRAD                    "tide has no autograd"
#define INSTEAD(where, names, hint) {LTIDE_OF_##where, names, hint},
static const instead insteads[] = {
#include "call/api/instead.def"
};

#undef INSTEAD

const char *ltide_instead(const char *name, unsigned where) {
  for (size_t i = 0; i < sizeof insteads / sizeof *insteads; i++)
    if ((insteads[i].where & where) && ltide_is_in(insteads[i].names, name)) return insteads[i].hint;
  char plain[64];
  size_t n = strlen(name);
  if (n < 2 || n >= sizeof plain || name[n - 1] != '_') return NULL;
  memcpy(plain, name, n - 1), plain[n - 1] = 0; /* x:greater_() writes to x */
  return ltide_instead(plain, where);
}

const char *ltide_instead_at(int i, const char **names) {
  if (i >= (int)(sizeof insteads / sizeof *insteads)) return NULL;
  return *names = insteads[i].names, insteads[i].hint;
}

/* {==== The error */

void ltide_push_module(lua_State *L) {
  lua_rawgetp(L, LUA_REGISTRYINDEX, &key_spaces);
  lua_getfield(L, -1, "tide");
  lua_remove(L, -2);
}

/* Pushes the path of the module's table, or of the methods of tensors, that has the name: the shortest. */
static const char *push_elsewhere(lua_State *L, const char *name) {
  lua_rawgetp(L, LUA_REGISTRYINDEX, &key_spaces);
  int spaces = lua_gettop(L);
  const char *best = NULL;
  for (lua_pushnil(L); lua_next(L, spaces); lua_pop(L, 1)) {
    const char *path = lua_tostring(L, -2);
    lua_pushstring(L, name);
    bool has = lua_istable(L, -2) && lua_rawget(L, -2) != LUA_TNIL;
    lua_pop(L, 1);
    size_t n = strlen(path), m = best ? strlen(best) : 0;
    if (has && (!best || n < m || (n == m && strcmp(path, best) < 0))) best = path;
  }
  if (best && !strcmp(best, "tide.Tensor"))
    lua_pushfstring(L, "use x:%s()", name);
  else if (best)
    lua_pushfstring(L, "use %s.%s", best, name);
  lua_remove(L, spaces);
  return best ? lua_tostring(L, -1) : NULL;
}

static int raise_tensor(lua_State *L, int methods, int fields, const char *name) {
  const char *hint = ltide_instead(name, LTIDE_OF_TENSOR | LTIDE_OF_ANY);
  if (hint) return ltide_error(L, "ArgumentError", "x.%s: a tensor has no such field or method; %s", name, hint);
  ltide_nearest method = {.wanted = name}, field = {.wanted = name};
  ltide_nearest_keys(L, methods, &method);
  ltide_nearest_keys(L, fields, &field);
  bool is_field = field.name && (!method.name || field.distance <= method.distance);
  if (!is_field && !method.name)
    return ltide_error(L, "ArgumentError", "x.%s: a tensor has no such field or method; help(x) lists them", name);
  return ltide_error(L, "ArgumentError", "x.%s: a tensor has no such field or method, did you mean %s%s?", name,
                     is_field ? "x." : "x:", is_field ? field.name : lua_pushfstring(L, "%s()", method.name));
}

int ltide_no_tensor_name(lua_State *L, int methods, int fields) {
  const char *name = lua_tostring(L, 2);
  if (name[0] == '_' && name[1] == '_') return 0;
  return raise_tensor(L, methods, fields, name);
}

int ltide_no_field(lua_State *L, const char *object, const char *name, int methods, const char *fields) {
  luaL_checkstack(L, 100, object); /* names stay, as the nearest one points to one of them */
  ltide_nearest near = {.wanted = name};
  if (methods) ltide_nearest_keys(L, methods, &near);
  for (const char *p = fields; *p; p += strspn(p, " ")) {
    size_t n = strcspn(p, " ");
    ltide_nearest_try(&near, lua_pushlstring(L, p, n));
    p += n;
  }
  if (near.name)
    return ltide_error(L, "ArgumentError", "%s: no field or method '%s', did you mean %s?", object, name, near.name);
  const char *list = *fields ? luaL_gsub(L, fields, " ", ", ") : "one";
  return ltide_error(L, "ArgumentError", "%s: no field or method '%s', expected %s%s", object, name, list,
                     !methods  ? ""
                     : *fields ? " or a method that help(object) lists"
                               : " that help(object) lists");
}

/* __index of the tables; upvalue: the path, "tide.cuda" or "Stream". */
static int lno_name(lua_State *L) {
  const char *path = lua_tostring(L, lua_upvalueindex(1));
  bool in_module = !strncmp(path, "tide", 4);
  if (!in_module && lua_isinteger(L, 2)) /* ipairs(object) would silently find nothing */
    return ltide_error(L, "ArgumentError", "%s: got the key %I, expected a method that help(object) lists", path,
                       lua_tointeger(L, 2));
  if (lua_type(L, 2) != LUA_TSTRING) return 0;
  const char *name = lua_tostring(L, 2);
  if (name[0] == '_' && name[1] == '_') return 0;
  if (!strcmp(path, "tide") && !strcmp(name, "ffi") && ltide_granted(L, TIDE_LUA_NATIVE) && ltide_push_ffi(L)) return 1;
  const char *hint = in_module ? ltide_instead(name, LTIDE_OF_MODULE | LTIDE_OF_ANY) : NULL;
  if (!hint && in_module) hint = push_elsewhere(L, name);
  if (!hint && in_module) hint = ltide_instead(name, LTIDE_OF_TENSOR);
  ltide_nearest near = {.wanted = name};
  if (!hint && lua_istable(L, 1)) ltide_nearest_keys(L, 1, &near);
  lua_pushnil(L);
  lua_replace(L, 1); /* it is no argument: no hint at a dot */
  if (hint) return ltide_error(L, "ArgumentError", "%s.%s: there is no such name; %s", path, name, hint);
  if (near.name)
    return ltide_error(L, "ArgumentError", "%s.%s: there is no such name, did you mean %s?", path, name, near.name);
  return ltide_error(L, "ArgumentError", "%s.%s: there is no such name; %s", path, name,
                     in_module ? lua_pushfstring(L, "tide.has '%s' asks for one, help '%s' searches", name, name)
                               : "help(object) lists the methods");
}

bool ltide_is_module(lua_State *L, int arg) {
  int top = lua_gettop(L);
  if (ltide_push_thawed(L, arg)) arg = top + 1;
  bool is = lua_istable(L, arg) && lua_getmetatable(L, arg) && lua_rawgetp(L, -1, &key_strict) != LUA_TNIL;
  lua_settop(L, top);
  return is;
}

/* {==== Hints about a call */

const char *ltide_usage(lua_State *L) {
  const ltide_row *row = ltide_row_running(L);
  return row && row->doc ? ltide_push_doc(L, row, true) : NULL;
}

static const char *dot_hint(lua_State *L) {
  if (!ltide_row_running(L) || !ltide_is_module(L, 1)) return "";
  return lua_pushfstring(L, "; %s is called with a dot, not with a colon", ltide_function_name(L));
}

/* The name of the method of tensors that the row is, or NULL. */
static const char *method_name(const ltide_row *row) { return row && row->where & LTIDE_IN_METHODS ? row->name : NULL; }

static bool takes_option(lua_State *L, const char *key) {
  const char *usage = ltide_usage(L);
  return usage && (strstr(usage, key) || strstr(usage, "opts"));
}

bool ltide_has_function(lua_State *L, const char *library, const char *name) {
  int top = lua_gettop(L);
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
  if (library)
    lua_getfield(L, -1, library);
  else
    ltide_push_methods(L);
  lua_pushstring(L, name);
  bool has = lua_istable(L, -2) && lua_rawget(L, -2) == LUA_TFUNCTION;
  lua_settop(L, top);
  return has;
}

const char *ltide_arg_hint(lua_State *L, int arg, const char *expected) {
  tide_dtype dtype;
  lua_Debug ar = {0};
  arg = lua_absindex(L, arg);
  if (ltide_is_module(L, 1)) return ""; /* see dot_hint */
  const char *method = method_name(ltide_row_at(L, arg));
  if (method) return lua_pushfstring(L, "; %s is a method, it is to be called: x:%s()", method, method);
  if (!strstr(expected, "dtype") && ltide_test_dtype(L, arg, &dtype) && takes_option(L, "dtype="))
    return lua_pushfstring(L, "; a dtype is an option: {dtype = tide.%s}", tide_dtype_name(dtype));
  if (!strstr(expected, "device") && ltide_is_device(L, arg) && takes_option(L, "device=")) {
    const char *name = luaL_tolstring(L, arg, NULL);
    return lua_pushfstring(L, "; a device is an option: {device = '%s'}", name);
  }
  if (lua_isboolean(L, arg) && strstr(expected, "tensor"))
    return "; x == y compares whole tensors, x:eq(y) compares their elements";
  bool is_list = !strncmp(expected, "a table of tensors", 18);
  if (is_list && ltide_test_handle(L, ltide_enter(L), arg)) return "; {x, y} is one";
  bool wants_tensor = !strncmp(expected, "a tensor", 8);
  if (wants_tensor && lua_type(L, arg) == LUA_TTABLE) return "; tide.tensor(t) makes one of a table";
  method = arg == 1 && wants_tensor ? method_name(ltide_row_running(L)) : NULL;
  if (lua_getstack(L, 0, &ar)) lua_getinfo(L, "n", &ar);
  if (ar.namewhat && !strcmp(ar.namewhat, "metamethod")) return "";
  if (method && !strcmp(method, "log") && lua_type(L, arg) == LUA_TSTRING) return "; tide.note writes a line of a log";
  bool is_number = wants_tensor && lua_type(L, arg) == LUA_TNUMBER && !strstr(expected, "number");
  if (method)
    return lua_pushfstring(L, "; a method is called with a colon: x:%s(...)%s", method,
                           is_number && ltide_has_function(L, LUA_MATHLIBNAME, method)
                               ? lua_pushfstring(L, ", of numbers it is math.%s", method)
                               : "");
  if (is_number) {
    lua_pushvalue(L, arg); /* tostring converts in place */
    return lua_pushfstring(L, "; tide.tensor(%s) is one", lua_tostring(L, -1));
  }
  const char *usage = lua_isnone(L, arg) ? ltide_usage(L) : NULL;
  return usage ? lua_pushfstring(L, "; %s", usage) : "";
}

/* {==== Opening */

/* Makes __index of the table's metatable raise; a metatable that has one keeps it. Classes have a metatable already,
 * and are given to their own __call: they do not count as what stands before a dot. */
static void make_strict(lua_State *L, int table, const char *path) {
  table = lua_absindex(L, table);
  if (!lua_getmetatable(L, table)) {
    lua_createtable(L, 0, 3);
    lua_pushstring(L, path);
    lua_setfield(L, -2, "__metatable");
    lua_pushboolean(L, 1);
    lua_rawsetp(L, -2, &key_strict);
    lua_pushvalue(L, -1);
    lua_setmetatable(L, table);
  }
  lua_pushliteral(L, "__index");
  if (lua_rawget(L, -2) == LUA_TNIL) {
    lua_pushstring(L, path);
    lua_pushcclosure(L, lno_name, 1);
    lua_setfield(L, -3, "__index");
  }
  lua_pop(L, 2);
}

/* Notes the table at the top under its path, unless it is a class, and appends it to the list of those to look
 * through. */
static void visit(lua_State *L, int spaces, int list, const char *path) {
  int table = lua_gettop(L);
  lua_pushvalue(L, table);
  lua_pushboolean(L, 1);
  lua_rawset(L, list);
  if (!lua_getmetatable(L, table)) {
    lua_pushvalue(L, table);
    lua_setfield(L, spaces, path);
  }
  lua_settop(L, table);
  make_strict(L, table, path);
  lua_Integer n = (lua_Integer)lua_rawlen(L, list);
  lua_rawseti(L, list, n + 1);
  lua_pushstring(L, path);
  lua_rawseti(L, list, n + 2);
}

/* The module and the tables in it, the upper ones first: a table that has several names is known by the shortest. */
static void walk_module(lua_State *L, int module, int spaces) {
  lua_newtable(L);
  int list = lua_gettop(L);
  lua_pushvalue(L, module);
  visit(L, spaces, list, "tide");
  for (lua_Integer at = 1; lua_rawgeti(L, list, at) == LUA_TTABLE; at += 2, lua_settop(L, list)) {
    lua_rawgeti(L, list, at + 1);
    const char *path = lua_tostring(L, -1);
    for (lua_pushnil(L); lua_next(L, list + 1); lua_settop(L, list + 3)) {
      lua_pushvalue(L, -1);
      bool is_new = lua_istable(L, -1) && lua_rawget(L, list) == LUA_TNIL;
      lua_settop(L, list + 4);
      if (!is_new || lua_type(L, -2) != LUA_TSTRING) continue;
      const char *below = lua_pushfstring(L, "%s.%s", path, lua_tostring(L, -2));
      lua_pushvalue(L, list + 4);
      visit(L, spaces, list, below);
    }
  }
  lua_settop(L, list - 1);
}

/* Tables of methods: the __index of the metatables that are registered under a name of ours. */
static void walk_classes(lua_State *L) {
  for (lua_pushnil(L); lua_next(L, LUA_REGISTRYINDEX); lua_pop(L, 1)) {
    const char *name = lua_type(L, -2) == LUA_TSTRING ? lua_tostring(L, -2) : "", *dot = strrchr(name, '.');
    if (strncmp(name, "tide.", 5) || !lua_istable(L, -1)) continue;
    lua_pushliteral(L, "__index");
    if (lua_rawget(L, -2) == LUA_TTABLE) make_strict(L, -1, dot + 1);
    lua_pop(L, 1);
  }
}

void ltide_open_names(lua_State *L, ltide_state *S) {
  int module = lua_gettop(L);
  lua_newtable(L);
  lua_pushvalue(L, -1);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &key_spaces);
  ltide_error_of(S)->dot_hint = dot_hint, ltide_error_of(S)->arg_hint = ltide_arg_hint;
  walk_module(L, module, module + 1);
  lua_settop(L, module);
  walk_classes(L);
}

/* serialize.c: tide.save, load, serialize and deserialize: trees of Lua values and tensors as bytes.
 *
 * The bytes are core's (tide/values.h); here are the walks. Tables and tensors are numbered as they are met, and one
 * that was met before is written as its number, so what is shared stays shared, and a table may hold itself.
 *
 * map_location, a __tostring or a finaliser may close the file of the script in the middle: core asks before it touches
 * it. */
#include "tide/values.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "row.h"
#include "file.h"
#include "serialize.h"
#include "tide/ipc.h"

#define VALUES_META "tide.values"
enum { DEEPEST = 1000 }; /* tables in tables; each level takes some of the C stack */

static int values_gc(lua_State *L) {
  tide_values_free(ltide_take_pointer(L, VALUES_META));
  return 0;
}

/* The file at 1 that a script has opened, if that is `file`. */
static const luaL_Stream *stream_of(lua_State *L, const FILE *file) {
  const luaL_Stream *open = luaL_testudata(L, 1, LUA_FILEHANDLE);
  return open && lua_rawlen(L, 1) == sizeof *open && open->f == file ? open : NULL;
}

static bool is_open(void *user) { return ((const luaL_Stream *)user)->closef != NULL; }

static tide_values_config configure(lua_State *L, FILE *file) {
  const luaL_Stream *stream = stream_of(L, file);
  return (tide_values_config){
      .what = ltide_function_name(L), .file = file, .is_open = stream ? is_open : NULL, .user = (void *)stream};
}

/* Pushes a closed handle of a file, which the collector closes. */
static tide_values **push_values(lua_State *L) {
  tide_values **v = ltide_new_object(L, sizeof(tide_values *), 0);
  *v = NULL;
  if (ltide_newmetatable(L, VALUES_META)) {
    lua_pushcfunction(L, values_gc);
    lua_setfield(L, -2, "__gc");
  }
  lua_pop(L, 1);
  ltide_setmetatable(L, VALUES_META);
  return v;
}

/* {==== Writing */

typedef struct writer {
  lua_State *L;
  ltide_state *S;
  tide_values *values;
  int seen, handles; /* stack indexes: numbers of tables and tensors, IPC handles or 0 */
  lua_Integer objects;
} writer;

/* Where in the tree we are, for messages. */
typedef struct place {
  const struct place *up;
  int key; /* stack index */
  int depth;
} place;

/* Pushes "value.layers[2]". */
static const char *push_place(lua_State *L, const place *at) {
  if (!at->up) return lua_pushliteral(L, "value");
  const char *before = push_place(L, at->up), *key = luaL_tolstring(L, at->key, NULL);
  lua_pushfstring(L, lua_type(L, at->key) == LUA_TSTRING ? "%s.%s" : "%s[%s]", before, key);
  return lua_tostring(L, -1);
}

static void put(const writer *w, const tide_saved *value) { ltide_try(w->L, tide_values_put(w->values, value)); }

static bool put_number_of(writer *w, int index) {
  lua_State *L = w->L;
  lua_pushvalue(L, index);
  bool known = lua_rawget(L, w->seen) != LUA_TNIL;
  if (known) {
    put(w, &(tide_saved){.kind = TIDE_SAVED_REFERENCE, .integer = lua_tointeger(L, -1)});
  } else {
    lua_pushvalue(L, index);
    lua_pushinteger(L, ++w->objects);
    lua_rawset(L, w->seen);
  }
  lua_pop(L, 1);
  return known;
}

static void put_tensor(const writer *w, tide_tensor *x) {
  lua_State *L = w->L;
  if (!w->handles || tide_tensor_device(x) < 0) {
    put(w, &(tide_saved){.kind = TIDE_SAVED_TENSOR, .tensor = x});
    return;
  }
  tide_ipc_tensor handle;
  ltide_try(L, tide_tensor_ipc_handle(&handle, x));
  lua_pushlstring(L, (const char *)handle.bytes, sizeof handle.bytes);
  lua_rawseti(L, w->handles, (lua_Integer)lua_rawlen(L, w->handles) + 1);
  put(w, &(tide_saved){.kind = TIDE_SAVED_HANDLE, .text = (const char *)handle.bytes});
}

static void put_value(writer *w, int index, const place *at);

static void put_table(writer *w, int index, const place *at) {
  lua_State *L = w->L;
  lua_pushvalue(L, index);
  index = lua_gettop(L);
  ltide_plain_shape(L, index);
  put(w, &(tide_saved){.kind = TIDE_SAVED_TABLE});
  for (lua_pushnil(L); lua_next(L, index); lua_pop(L, 1)) {
    place below = {at, lua_gettop(L) - 1, at->depth + 1};
    put_value(w, below.key, &below);
    put_value(w, below.key + 1, &below);
  }
  put(w, &(tide_saved){.kind = TIDE_SAVED_NIL});
  lua_pop(L, 1);
}

/* Is it neither a tensor nor a table, and can be written? Pushes the text of a device. */
static bool to_plain(lua_State *L, int index, tide_saved *v) {
  tide_dtype dtype;
  switch (lua_type(L, index)) {
  case LUA_TNIL: v->kind = TIDE_SAVED_NIL; return true;
  case LUA_TBOOLEAN:
    v->kind = TIDE_SAVED_BOOLEAN;
    v->integer = lua_toboolean(L, index);
    return true;
  case LUA_TNUMBER:
    v->kind = lua_isinteger(L, index) ? TIDE_SAVED_INTEGER : TIDE_SAVED_NUMBER;
    v->integer = lua_tointeger(L, index), v->number = lua_tonumber(L, index);
    return true;
  case LUA_TSTRING:
    v->kind = TIDE_SAVED_TEXT;
    v->text = lua_tolstring(L, index, &v->length);
    return true;
  case LUA_TUSERDATA:
    if (ltide_test_dtype(L, index, &dtype)) {
      v->kind = TIDE_SAVED_DTYPE;
      v->integer = dtype;
      return true;
    }
    if (!ltide_is_device(L, index)) return false;
    v->kind = TIDE_SAVED_DEVICE;
    v->text = luaL_tolstring(L, index, &v->length);
    return true;
  default: return false;
  }
}

static void put_value(writer *w, int index, const place *at) {
  lua_State *L = w->L;
  int top = lua_gettop(L);
  tide_saved plain;
  luaL_checkstack(L, 12, "tide.save: tables nested too deeply");
  if (to_plain(L, index, &plain)) {
    put(w, &plain);
    lua_settop(L, top);
    return;
  }
  tide_tensor *x = ltide_test_tensor(L, w->S, index);
  if (at->depth > DEEPEST)
    ltide_error(L, "ValueError", "%s: got tables nested more than %d deep, expected fewer", ltide_function_name(L),
                DEEPEST);
  if (!x && !lua_istable(L, index)) {
    const char *got = ltide_typename(L, index);
    ltide_error(L, "ArgumentError", "%s: %s: got %s, expected tensors, numbers, strings, booleans and tables of them",
                ltide_function_name(L), push_place(L, at), got);
  }
  if (put_number_of(w, index)) return;
  if (x)
    put_tensor(w, x);
  else
    put_table(w, index, at);
}

int ltide_write_value(lua_State *L, ltide_state *S, FILE *file, int index, int handles) {
  int top = lua_gettop(L), error = 0;
  place root = {NULL, 0, 0};
  tide_values_config config = configure(L, file);
  lua_newtable(L);
  tide_values **v = push_values(L);
  ltide_try(L, tide_values_write(v, &config));
  writer w = {.L = L, .S = S, .values = *v, .seen = top + 1, .handles = handles};
  put_value(&w, index, &root);
  ltide_try(L, tide_values_flush(*v, &error));
  tide_values_free(*v);
  *v = NULL;
  lua_settop(L, top);
  return error;
}

/* {==== Reading */

typedef struct reader {
  lua_State *L;
  ltide_state *S;
  tide_values *values;
  int objects, map; /* stack indexes: tables and tensors by their numbers, map_location or nil */
  bool shared;
  lua_Integer count;
} reader;

static void broken(const reader *r, const char *how) { ltide_try(r->L, tide_values_broken(r->values, how)); }

/* The device for storages that were on the one of that name. */
static int find_device(const reader *r, const tide_saved *v) {
  lua_State *L = r->L;
  lua_pushlstring(L, v->text, v->length);
  int name = lua_gettop(L), type = lua_type(L, r->map);
  if (!ltide_is_device(L, name)) broken(r, "a device is unknown");
  if (type == LUA_TTABLE) {
    lua_pushvalue(L, name);
    lua_gettable(L, r->map);
  } else if (type == LUA_TFUNCTION) {
    lua_pushvalue(L, r->map);
    lua_pushvalue(L, name);
    lua_call(L, 1, 1);
    ltide_enter(L);
  } else
    lua_pushvalue(L, r->map);
  if (lua_isnil(L, -1)) lua_pushvalue(L, name);
  int device = ltide_check_device(L, lua_gettop(L), "map_location", LTIDE_CPU_OK);
  if (device >= tide_device_count())
    ltide_error(L, "DeviceError",
                "%s: a tensor belongs to %s, but there are %d GPUs; map_location='cpu' puts it elsewhere",
                ltide_function_name(L), luaL_tolstring(L, -1, NULL), tide_device_count());
  lua_settop(L, name - 1);
  return device;
}

/* The next value, with the storages before it placed. */
static tide_saved get(const reader *r) {
  tide_saved v;
  ltide_try(r->L, tide_values_get(&v, r->values));
  if (v.kind != TIDE_SAVED_PLACE) return v;
  ltide_try(r->L, tide_values_place(r->values, find_device(r, &v)));
  ltide_try(r->L, tide_values_get(&v, r->values));
  return v;
}

/* Numbers the table or tensor at the top. */
static void number(reader *r) {
  lua_pushvalue(r->L, -1);
  lua_rawseti(r->L, r->objects, ++r->count);
}

static void push_value(reader *r, int depth);

static void push_read_table(reader *r, int depth) {
  lua_State *L = r->L;
  lua_newtable(L);
  number(r);
  while (true) {
    push_value(r, depth + 1);
    if (lua_isnil(L, -1)) break;
    if (lua_type(L, -1) == LUA_TNUMBER && lua_tonumber(L, -1) != lua_tonumber(L, -1)) broken(r, "a key is wrong");
    push_value(r, depth + 1);
    lua_rawset(L, -3);
  }
  lua_pop(L, 1);
}

static void push_read_tensor(reader *r, const tide_saved *v) {
  ltide_tensor *u = ltide_new_tensor(r->L, r->S);
  tide_tensor_retain(v->tensor);
  u->t = v->tensor;
  ltide_made(r->L, r->S);
  number(r);
}

static void push_shared(reader *r, const tide_saved *v) {
  tide_ipc_tensor handle;
  if (!r->shared) broken(r, "a tensor of another process");
  memcpy(handle.bytes, v->text, sizeof handle.bytes);
  ltide_try(r->L, tide_tensor_from_ipc(&ltide_new_tensor(r->L, r->S)->t, &handle));
  number(r);
}

static void push_device(const reader *r, const tide_saved *v) {
  lua_State *L = r->L;
  lua_pushlstring(L, v->text, v->length);
  if (!ltide_is_device(L, -1)) broken(r, "a device is unknown");
  ltide_push_device(L, ltide_check_device(L, lua_gettop(L), "device", LTIDE_CPU_OK));
  lua_remove(L, -2);
}

static void push_value(reader *r, int depth) {
  lua_State *L = r->L;
  luaL_checkstack(L, 12, "tide.load: tables nested too deeply");
  if (depth > DEEPEST) broken(r, "tables are nested too deeply");
  tide_saved v = get(r);
  switch (v.kind) {
  case TIDE_SAVED_BOOLEAN: lua_pushboolean(L, (int)v.integer); break;
  case TIDE_SAVED_INTEGER: lua_pushinteger(L, v.integer); break;
  case TIDE_SAVED_NUMBER: lua_pushnumber(L, v.number); break;
  case TIDE_SAVED_TEXT: lua_pushlstring(L, v.text, v.length); break;
  case TIDE_SAVED_TABLE: push_read_table(r, depth); break;
  case TIDE_SAVED_REFERENCE:
    if (lua_rawgeti(L, r->objects, v.integer) == LUA_TNIL) broken(r, "a reference is wrong");
    break;
  case TIDE_SAVED_DTYPE: ltide_push_dtype(L, (tide_dtype)v.integer); break;
  case TIDE_SAVED_DEVICE: push_device(r, &v); break;
  case TIDE_SAVED_TENSOR: push_read_tensor(r, &v); break;
  case TIDE_SAVED_HANDLE: push_shared(r, &v); break;
  default: lua_pushnil(L);
  }
}

void ltide_read_value(lua_State *L, ltide_state *S, FILE *file, const char *name, int map, bool shared,
                      tide_mapping *mapping) {
  int top = lua_gettop(L);
  tide_values_config config = configure(L, file);
  config.name = name, config.mapping = mapping;
  lua_newtable(L);
  tide_values **v = push_values(L);
  ltide_try(L, tide_values_read(v, &config));
  reader r = {.L = L, .S = S, .values = *v, .objects = top + 1, .map = map, .shared = shared};
  push_value(&r, 0);
  tide_values_free(*v);
  *v = NULL;
  lua_replace(L, top + 1);
  lua_settop(L, top + 1);
  ltide_made(L, S);
}

/* {==== The functions */

static int lsave(lua_State *L) {
  ltide_state *S = ltide_enter(L);
  ltide_no_options(L, 2);
  const char *name;
  ltide_file *own;
  if (lua_isnone(L, 2)) return ltide_arg_error(L, 2, "value", "what is to be saved");
  lua_settop(L, 2);
  ltide_write_value(L, S, NULL, 2, 0); /* a value that cannot be saved leaves an open file alone */
  FILE *file = ltide_check_file(L, 1, true, &own, &name);
  errno = ltide_write_value(L, S, file, 2, 0);
  if (errno) return ltide_file_error(L, "written", name);
  ltide_file_finish(L, own);
  return 0;
}

/* Leaves map_location, or nil, at index 2; gives the option mmap, where the function has it. */
static bool check_map(lua_State *L, bool has_mmap) {
  static const char *const keys[] = {"map_location", "mmap", NULL}, *const few[] = {"map_location", NULL};
  lua_settop(L, 2);
  if (lua_isnil(L, 2)) return false;
  if (!lua_istable(L, 2))
    ltide_arg_error(L, 2, "opts", has_mmap ? "a table {map_location=, mmap=}" : "a table {map_location=}");
  ltide_check_keys(L, 2, has_mmap ? keys : few);
  bool mapped = has_mmap && ltide_opt_boolean(L, 2, "mmap", false);
  ltide_rawfield(L, 2, "map_location");
  lua_replace(L, 2);
  return mapped;
}

static int lload(lua_State *L) {
  ltide_state *S = ltide_enter(L);
  ltide_no_options(L, 2);
  const char *name;
  ltide_file *own;
  bool mapped = check_map(L, true);
  FILE *file = ltide_check_file(L, 1, false, &own, &name);
  ltide_read_value(L, S, file, name, 2, false, mapped ? ltide_push_mapping(L, file, name) : NULL);
  return 1;
}

static int lserialize(lua_State *L) {
  ltide_state *S = ltide_enter(L);
  ltide_no_options(L, 1);
  if (lua_isnone(L, 1)) return ltide_arg_error(L, 1, "value", "what is to be serialized");
  lua_settop(L, 1);
  ltide_file *f = ltide_push_file(L);
  f->file = open_memstream(&f->bytes, &f->size);
  if (!f->file) return ltide_error(L, "OutOfMemoryError", "serialize: no memory");
  if (ltide_write_value(L, S, f->file, 1, 0)) return ltide_error(L, "OutOfMemoryError", "serialize: no memory");
  lua_pushlstring(L, f->bytes, f->size);
  return 1;
}

static int ldeserialize(lua_State *L) {
  ltide_state *S = ltide_enter(L);
  ltide_no_options(L, 2);
  size_t n = 0;
  const char *bytes = lua_type(L, 1) == LUA_TSTRING ? lua_tolstring(L, 1, &n) : NULL;
  if (!bytes) return ltide_arg_error(L, 1, "bytes", "a string that serialize gave");
  check_map(L, false);
  ltide_file *f = ltide_push_file(L);
  f->file = n ? fmemopen((void *)bytes, n, "rb") : fopen("/dev/null", "rb");
  if (!f->file) return ltide_error(L, "OutOfMemoryError", "deserialize: no memory");
  ltide_read_value(L, S, f->file, "bytes", 2, false, NULL);
  return 1;
}

#define PATH "tide."
static ltide_row serialize_rows[] = {
#include "api/serialize.def"
    {0}};

void ltide_open_serialize(lua_State *L, ltide_state *S) {
  (void)S;
  ltide_register_rows(L, "tide", serialize_rows);
}

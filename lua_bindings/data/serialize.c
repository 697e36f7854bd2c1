/* serialize.c: tide.save, load, serialize and deserialize: trees of Lua values and tensors as bytes.
 *
 * The bytes are core's (tide/values.h), the walks are in data/serialize.lua; here is what goes between them.
 *
 * map_location, a __tostring or a finaliser may close the file of the script in the middle: core asks before it touches
 * it. */
#include "tide/values.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "call/fields.h"
#include "file.h"
#include "serialize.h"
#include "call/system.h"
#include "tensor/tensor.h"
#include "tide/ipc.h"

static void free_values(void *values) { tide_values_free(values); }

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

static tide_values *values_of(lua_State *L) { return lua_touserdata(L, 1); }

static void put(lua_State *L, const tide_saved *value) { ltide_try(L, tide_values_put(values_of(L), value)); }

/* {==== Writing */

/* Writes a value that is neither a tensor nor a table; false: it is no such value. */
static bool put_plain(lua_State *L, int index) {
  tide_saved v = {.kind = TIDE_SAVED_NIL};
  tide_dtype dtype;
  switch (lua_type(L, index)) {
  case LUA_TNIL: break;
  case LUA_TBOOLEAN: v.kind = TIDE_SAVED_BOOLEAN, v.integer = lua_toboolean(L, index); break;
  case LUA_TNUMBER:
    v.integer = lua_tointeger(L, index), v.number = lua_tonumber(L, index);
    /* In LuaJIT -0. is an integer, too. */
    v.kind = lua_isinteger(L, index) && (v.integer || !signbit(v.number)) ? TIDE_SAVED_INTEGER : TIDE_SAVED_NUMBER;
    break;
  case LUA_TSTRING: v.kind = TIDE_SAVED_TEXT, v.text = lua_tolstring(L, index, &v.length); break;
  case LUA_TUSERDATA:
    if (ltide_test_dtype(L, index, &dtype)) {
      v.kind = TIDE_SAVED_DTYPE, v.integer = dtype;
      break;
    }
    if (!ltide_is_device(L, index)) return false;
    v.kind = TIDE_SAVED_DEVICE, v.text = luaL_tolstring(L, index, &v.length);
    put(L, &v);
    lua_pop(L, 1);
    return true;
  default: return false;
  }
  put(L, &v);
  return true;
}

static int script_put(lua_State *L) { return ltide_give_boolean(L, put_plain(L, 2)); }

/* put_pairs(values, table, key): what stands behind the key, to the end, or to the first pair with a key or value that
 * is a tensor or a table: gives that one. Of such a pair the key is written where it is plain, else is_key is true. */
static int script_put_pairs(lua_State *L) {
  lua_settop(L, 3);
  while (lua_next(L, 2)) {
    bool is_key = !put_plain(L, 3);
    if (is_key || !put_plain(L, 4)) return lua_pushboolean(L, is_key), 3;
    lua_settop(L, 3);
  }
  put(L, &(tide_saved){.kind = TIDE_SAVED_NIL});
  return 0;
}

static int script_put_table(lua_State *L) { return put(L, &(tide_saved){.kind = TIDE_SAVED_TABLE}), 0; }

static int script_put_reference(lua_State *L) {
  return put(L, &(tide_saved){.kind = TIDE_SAVED_REFERENCE, .integer = lua_tointeger(L, 2)}), 0;
}

/* put_tensor(values, x, handles) */
static int script_put_tensor(lua_State *L) {
  tide_tensor *x = ltide_check_tensor(L, ltide_enter(L), 2, "value");
  tide_ipc_tensor handle;
  if (!lua_istable(L, 3) || tide_tensor_device(x) < 0)
    return put(L, &(tide_saved){.kind = TIDE_SAVED_TENSOR, .tensor = x}), 0;
  ltide_try(L, tide_tensor_ipc_handle(&handle, x));
  lua_pushlstring(L, (const char *)handle.bytes, sizeof handle.bytes);
  lua_rawseti(L, 3, (lua_Integer)lua_rawlen(L, 3) + 1);
  return put(L, &(tide_saved){.kind = TIDE_SAVED_HANDLE, .text = (const char *)handle.bytes}), 0;
}

int ltide_write_value(lua_State *L, FILE *file, int index, int handles) {
  int top = lua_gettop(L), error = 0;
  ltide_check_time(L);
  tide_values_config config = configure(L, file);
  tide_values **v = (tide_values **)ltide_push_owned(L, free_values);
  ltide_try(L, tide_values_write(v, &config));
  ltide_script_push(L, "data/serialize.write_value");
  lua_pushlightuserdata(L, *v), lua_pushvalue(L, index);
  if (handles)
    lua_pushvalue(L, handles);
  else
    lua_pushnil(L);
  lua_call(L, 3, 0);
  ltide_try(L, tide_values_flush(*v, &error));
  lua_settop(L, top);
  return error;
}

/* {==== Reading */

static int broken(lua_State *L, const char *how) { return ltide_done(L, tide_values_broken(values_of(L), how)); }

static void push_device(lua_State *L, const tide_saved *v) {
  lua_pushlstring(L, v->text, v->length);
  if (!ltide_is_device(L, -1)) broken(L, "a device is unknown");
  ltide_push_device(L, ltide_check_device(L, lua_gettop(L), "device", LTIDE_CPU_OK));
  lua_remove(L, -2);
}

/* Pushes the next value and returns NULL, or the kind of one that is to be resolved, with what it says. */
static const char *push_next(lua_State *L) {
  tide_saved v;
  ltide_try(L, tide_values_get(&v, values_of(L)));
  switch (v.kind) {
  case TIDE_SAVED_BOOLEAN: return lua_pushboolean(L, (int)v.integer), NULL;
  case TIDE_SAVED_INTEGER: return lua_pushinteger(L, v.integer), NULL;
  case TIDE_SAVED_NUMBER: return lua_pushnumber(L, v.number), NULL;
  case TIDE_SAVED_TEXT: return lua_pushlstring(L, v.text, v.length), NULL;
  case TIDE_SAVED_DTYPE: return ltide_push_dtype(L, (tide_dtype)v.integer), NULL;
  case TIDE_SAVED_DEVICE: return push_device(L, &v), NULL;
  case TIDE_SAVED_TABLE: return lua_pushnil(L), "table";
  case TIDE_SAVED_REFERENCE: return lua_pushinteger(L, v.integer), "reference";
  case TIDE_SAVED_HANDLE: return lua_pushlstring(L, v.text, sizeof((tide_ipc_tensor *)0)->bytes), "handle";
  case TIDE_SAVED_PLACE:
    lua_pushlstring(L, v.text, v.length);
    if (!ltide_is_device(L, -1)) broken(L, "a device is unknown");
    return "place";
  case TIDE_SAVED_TENSOR: {
    ltide_state *S = ltide_enter(L);
    ltide_new_tensor(L, S)->t = v.tensor;
    tide_tensor_retain(v.tensor);
    ltide_made(L, S);
    return "tensor";
  }
  default: return lua_pushnil(L), NULL;
  }
}

static int script_read(lua_State *L) {
  const char *kind = push_next(L);
  return lua_pushstring(L, kind), 2;
}

/* read_pairs(values, table): sets what follows in the table, to its end, or to the first pair with a key or value that
 * is to be resolved: gives the key, if that was plain, what is to be resolved, its kind, and is it the key? */
static int script_read_pairs(lua_State *L) {
  while (true) {
    lua_settop(L, 2);
    const char *kind = push_next(L);
    if (kind) return lua_pushnil(L), lua_insert(L, 3), lua_pushstring(L, kind), lua_pushboolean(L, 1), 4;
    if (lua_isnil(L, 3)) return 0;
    if (lua_type(L, 3) == LUA_TNUMBER && lua_tonumber(L, 3) != lua_tonumber(L, 3)) return broken(L, "a key is wrong");
    if ((kind = push_next(L))) return lua_pushstring(L, kind), 3;
    lua_rawset(L, 2);
  }
}

/* put_storage(values, device): the bytes that come go there. */
static int script_put_storage(lua_State *L) {
  ltide_enter(L);
  int device = ltide_check_device(L, 2, "map_location", LTIDE_CPU_OK);
  if (device >= tide_device_count())
    ltide_fail(L, "DeviceError", "a tensor belongs to %s, but there are %d GPUs; map_location='cpu' puts it elsewhere",
               luaL_tolstring(L, 2, NULL), tide_device_count());
  return ltide_done(L, tide_values_place(values_of(L), device));
}

static int script_open_handle(lua_State *L) {
  tide_ipc_tensor handle;
  memcpy(handle.bytes, lua_tostring(L, 1), sizeof handle.bytes);
  return ltide_give(L, tide_tensor_from_ipc(&ltide_new_tensor(L, ltide_enter(L))->t, &handle));
}

static int script_broken(lua_State *L) { return broken(L, lua_tostring(L, 2)); }

void ltide_read_value(lua_State *L, FILE *file, const char *name, int map, bool shared, tide_mapping *mapping) {
  int top = lua_gettop(L);
  tide_values_config config = configure(L, file);
  config.name = name, config.mapping = mapping;
  lua_pushnil(L);
  tide_values **v = (tide_values **)ltide_push_owned(L, free_values);
  ltide_try(L, tide_values_read(v, &config));
  ltide_script_push(L, "data/serialize.read_value");
  lua_pushlightuserdata(L, *v);
  if (map)
    lua_pushvalue(L, map);
  else
    lua_pushnil(L);
  lua_pushboolean(L, shared);
  lua_call(L, 3, 1);
  lua_replace(L, top + 1);
  lua_settop(L, top + 1);
  ltide_made(L, ltide_enter(L));
}

/* {==== The functions */

/* Any value, nil too, so it is no table of options either. */
static int lsave(lua_State *L, ltide_call *c) {
  const char *name;
  ltide_file *own;
  if (lua_isnone(L, 2)) return ltide_arg_error(L, 2, "value", "what is to be saved");
  lua_settop(L, 2);
  ltide_write_value(L, NULL, 2, 0); /* a value that cannot be saved leaves an open file alone */
  FILE *file = ltide_check_file(L, 1, true, &own, &name);
  errno = ltide_write_value(L, file, 2, 0);
  if (errno) return ltide_file_error(L, "written", name);
  ltide_file_finish(L, own);
  return 0;
}

static int lload(lua_State *L, ltide_call *c) {
  const char *name;
  ltide_file *own;
  FILE *file = ltide_check_file(L, 1, false, &own, &name);
  tide_mapping *mapping = c->v[2].boolean ? ltide_push_mapping(L, file, name) : NULL;
  ltide_read_value(L, file, name, c->v[1].at, false, mapping);
  return 1;
}

/* The value at 1 as a string. What it opens is closed when it returns. */
static int give_bytes(lua_State *L) {
  ltide_file *f = ltide_push_file(L);
  f->file = ltide_bytes_writer(&f->bytes, &f->size);
  if (!f->file || ltide_write_value(L, f->file, 1, 0) || !ltide_bytes_take(f->file, &f->bytes, &f->size))
    return ltide_error(L, "OutOfMemoryError", "serialize: no memory");
  return lua_pushlstring(L, f->bytes, f->size), 1;
}

/* The value of the string at 1. */
static int give_value(lua_State *L) {
  size_t n;
  const char *bytes = lua_tolstring(L, 1, &n);
  ltide_file *f = ltide_push_file(L);
  f->file = ltide_bytes_reader(bytes, n);
  if (!f->file) return ltide_error(L, "OutOfMemoryError", "deserialize: no memory");
  ltide_read_value(L, f->file, "bytes", 0, false, NULL);
  return 1;
}

void ltide_push_serialized(lua_State *L, int index) {
  index = lua_absindex(L, index);
  lua_pushcfunction(L, give_bytes);
  lua_pushvalue(L, index);
  lua_call(L, 1, 1);
}

void ltide_push_deserialized(lua_State *L, const char *bytes, size_t n) {
  lua_pushcfunction(L, give_value);
  lua_pushlstring(L, bytes, n);
  lua_call(L, 1, 1);
}

static int lserialize(lua_State *L, ltide_call *c) {
  if (lua_isnone(L, 1)) return ltide_arg_error(L, 1, "value", "what is to be serialized");
  lua_settop(L, 1);
  return give_bytes(L);
}

static int ldeserialize(lua_State *L, ltide_call *c) {
  size_t n = 0;
  const char *bytes = lua_type(L, 1) == LUA_TSTRING ? lua_tolstring(L, 1, &n) : NULL;
  if (!bytes) return ltide_arg_error(L, 1, "bytes", "a string that serialize gave");
  ltide_file *f = ltide_push_file(L);
  f->file = ltide_bytes_reader(bytes, n);
  if (!f->file) return ltide_error(L, "OutOfMemoryError", "deserialize: no memory");
  ltide_read_value(L, f->file, "bytes", c->v[1].at, false, NULL);
  return 1;
}

#include <rows/serialize.inc>

void ltide_open_serialize(lua_State *L, ltide_state *S) {
  LTIDE_GIVE(L, "data/serialize.c", put, put_pairs, put_table, put_reference, put_tensor, read, read_pairs, put_storage,
             open_handle, broken);
  ltide_register_rows(L, "tide", serialize_rows);
}

/* handle.c: the objects among the arguments of a call: told from everything else, and read. What makes them and gives
 * them their fields and methods stands a floor above.
 *
 * Dtypes and devices are one object each in a Lua state, which registry tables hold: == compares dtypes, and the field
 * of a tensor makes no garbage. Wherever one of them is expected its name will do as well. */
#include <limits.h>
#include <stdlib.h>

#include "did_you_mean.h"
#include "handle.h"

LTIDE_PART_SIZE(handle)

/* {==== Tensors, and handles of one pointer */

tide_tensor *ltide_check_tensor(lua_State *L, ltide_state *S, int arg, const char *name) {
  ltide_tensor *u = ltide_test_handle(L, S, arg);
  if (!u) ltide_arg_error(L, arg, name, "a tensor");
  if (!u->t) ltide_freed_error(L, name, "tensor");
  return u->t;
}

tide_tensor *ltide_test_tensor(lua_State *L, ltide_state *S, int arg) {
  ltide_tensor *u = ltide_test_handle(L, S, arg);
  if (u && !u->t) ltide_freed_error(L, "tensor", "tensor");
  return u ? u->t : NULL;
}

/* What the handle at arg holds. */
static void *check_handle(lua_State *L, int arg, const void *meta, const char *name, const char *expected,
                          const char *noun) {
  void **u = ltide_test_meta(L, arg, meta);
  if (!u) ltide_arg_error(L, arg, name, expected);
  if (!*u) ltide_freed_error(L, name, noun);
  return *u;
}

tide_stream *ltide_check_stream(lua_State *L, int arg, const char *name) {
  return check_handle(L, arg, ltide_handle_of(ltide_enter(L))->stream_meta, name, "a tide.cuda.Stream", "stream");
}

tide_tensor *ltide_check_storage(lua_State *L, int arg, const char *name) {
  return check_handle(L, arg, ltide_handle_of(ltide_enter(L))->storage_meta, name, "a storage", "storage");
}

tide_event *ltide_check_event(lua_State *L, int arg, const char *name) {
  return check_handle(L, arg, ltide_handle_of(ltide_enter(L))->event_meta, name, "a tide.cuda.Event", "event");
}

tide_generator *ltide_check_generator(lua_State *L, int arg, const char *name) {
  return check_handle(L, arg, ltide_handle_of(ltide_enter(L))->generator_meta, name, "a tide.Generator", "generator");
}

/* {==== Dtypes */

const char ltide_dtype_objects;

void ltide_push_dtype(lua_State *L, tide_dtype dtype) {
  lua_rawgetp(L, LUA_REGISTRYINDEX, &ltide_dtype_objects);
  lua_rawgeti(L, -1, dtype);
  lua_remove(L, -2);
}

const tide_dtype *ltide_dtype_of(lua_State *L, int arg) {
  return ltide_test_meta(L, arg, ltide_handle_of(ltide_enter(L))->dtype_meta);
}

bool ltide_test_dtype(lua_State *L, int arg, tide_dtype *out) {
  const tide_dtype *d = ltide_dtype_of(L, arg);
  if (d) *out = *d;
  return d || (lua_type(L, arg) == LUA_TSTRING && tide_dtype_parse(out, lua_tostring(L, arg)));
}

tide_dtype ltide_check_dtype(lua_State *L, int arg, const char *name) {
  tide_dtype dtype = TIDE_DTYPE_NONE;
  if (ltide_test_dtype(L, arg, &dtype)) return dtype;
  arg = lua_absindex(L, arg);
  ltide_nearest near = {.wanted = lua_type(L, arg) == LUA_TSTRING ? lua_tostring(L, arg) : ""};
#define DTYPE(dname, NAME, type, bytes, kind, alias) ltide_nearest_try(&near, #dname), ltide_nearest_try(&near, #alias);
#include "tide/dtype.def"
#undef DTYPE
  ltide_arg_error(L, arg, name,
                  near.name ? lua_pushfstring(L, "a dtype such as tide.%s", near.name)
                            : "a dtype such as tide.float32, or its name");
  return dtype;
}

/* {==== Devices */

#define ACCEPTED     "nil, an id from 0, 'cpu', 'cuda', 'cuda:N' or a tide.device"
#define ACCELERATORS "nil, an id from 0, 'cuda', 'cuda:N' or such a tide.device"

const int *ltide_test_device(lua_State *L, int arg) {
  return ltide_test_meta(L, arg, ltide_handle_of(ltide_enter(L))->device_meta);
}

/* The number of "cuda:N" is up to three digits as one writes them, without zeros in front. */
static bool parse_name(lua_State *L, int arg, int *out) {
  size_t length;
  const char *name = lua_tolstring(L, arg, &length), *digits = name + 5;
  *out = strcmp(name, "cpu") ? TIDE_CURRENT : TIDE_CPU;
  if (strlen(name) != length) return false;
  if (*out == TIDE_CPU || !strcmp(name, "cuda")) return true;
  if (strncmp(name, "cuda:", 5) != 0 || length < 6 || length > 8 || strspn(digits, "0123456789") != length - 5)
    return false;
  *out = (int)strtol(digits, NULL, 10);
  return length == 6 || *digits != '0';
}

bool ltide_is_device(lua_State *L, int arg) {
  int device;
  return lua_type(L, arg) == LUA_TSTRING ? parse_name(L, arg, &device) : ltide_test_device(L, arg) != NULL;
}

int ltide_check_device(lua_State *L, int arg, const char *name, int flags) {
  const int *object = ltide_test_device(L, arg);
  int device = object ? *object : TIDE_CURRENT, is_id;
  lua_Integer id;
  const char *accepted = (flags & LTIDE_CPU_OK ? ACCEPTED : ACCELERATORS) + (flags & LTIDE_NIL_OK ? 0 : 5);
  if (!object && lua_isnoneornil(L, arg)) {
    if (!(flags & LTIDE_NIL_OK)) return ltide_arg_error(L, arg, name, accepted);
  } else if (!object && lua_type(L, arg) == LUA_TNUMBER && (id = lua_tointegerx(L, arg, &is_id), is_id)) {
    if (id > INT_MAX || (id < 0 && !(flags & LTIDE_NEGATIVE_OK)))
      return ltide_fail(L, "ValueError", "%s: got %I, expected an id from 0", name, id);
    if (id >= 0) device = (int)id;
  } else if (!object && (lua_type(L, arg) != LUA_TSTRING || !parse_name(L, arg, &device)))
    return ltide_arg_error(L, arg, name, accepted);
  if (device == TIDE_CPU && !(flags & LTIDE_CPU_OK))
    return ltide_fail(L, "DeviceError", "%s: got cpu, expected a cuda device: 'cuda', 'cuda:N' or an id from 0", name);
  return device;
}

/* fft.c: tide.fft and the plan cache, tide.backends.cuda.cufft_plan_cache.
 *
 * Dimensions count from 1 and are -1, the last two or all where nothing is said; s alone means the last dimensions. The
 * cache is an object without state: it names a device, or none for the current one at the moment of use. */

#include "tensor.h"

#include "tide/fft.h"

/* How a function reads its dimensions. */
typedef enum fft_dims { ONE, TWO, ALL } fft_dims;

/* Fills the dimensions that were not named; returns how many there are. */
static int default_dims(lua_State *L, fft_dims form, int ndim, int lengths, int *dims) {
  int n = form == TWO ? 2 : form == ONE ? 1 : lengths >= 0 ? lengths : ndim;
  if (n > ndim) ltide_fail(L, "IndexError", "got a tensor of %d dimensions, expected at least %d", ndim, n);
  for (int i = 0; i < n; i++) dims[i] = ndim - n + i;
  return n;
}

/* The kind and the form are in the tag. */
static int ltransform(lua_State *L, ltide_call *c) {
  fft_dims form = (fft_dims)(c->row->tag % 3);
  const char *s = form == ONE ? "n" : "s";
  const ltide_value *lengths = &c->v[1], *named = &c->v[2];
  int own[TIDE_MAX_DIMS], ndims = named->n, most = lengths->given ? lengths->n : -1;
  if (!named->given) ndims = default_dims(L, form, tide_tensor_ndim(c->x), most, own);
  if (form == ONE && ndims != 1) return ltide_fail(L, "ValueError", "dim: got %d dimensions, expected one", ndims);
  if (lengths->given && lengths->n != ndims)
    return ltide_fail(L, "ValueError", "%s: got %d lengths for %d dimensions, expected one for each", s, lengths->n,
                      ndims);
  if (form == ONE && lengths->n == 1 && lengths->sizes[0] < 1)
    return ltide_fail(L, "ValueError", "n: got %I, expected at least 1", (lua_Integer)lengths->sizes[0]);
  tide_tensor **slot = ltide_slot(L, c);
  return ltide_finish_into(L, c,
                           tide_fft(slot, (tide_fft_kind)(c->row->tag / 3), c->x, named->given ? named->dims : own,
                                    lengths->given ? lengths->sizes : NULL, ndims, (tide_fft_norm)c->v[3].i, c->into,
                                    ltide_function_name(L)));
}

/* {==== Frequencies and their order */

static int lfreq(lua_State *L, ltide_call *c) {
  tide_options o = TIDE_OPTIONS;
  ltide_opt_options(L, c->opts, &o);
  return ltide_finish(L, c, tide_fft_freq(ltide_result(L, c), c->v[0].i, c->v[1].number, c->row->tag, &o));
}

static int lshift(lua_State *L, ltide_call *c) {
  int own[TIDE_MAX_DIMS], n = c->v[1].n;
  if (!c->v[1].given) n = default_dims(L, ALL, tide_tensor_ndim(c->x), -1, own);
  const int *dims = c->v[1].given ? c->v[1].dims : own;
  return ltide_finish(L, c, tide_fft_shift(ltide_result(L, c), c->x, dims, n, c->row->tag));
}

/* {==== The plan cache */

#define CACHE_META "tide.cufft_plan_cache"

/* The device that the object at arg 1 stands for. */
static int cache_device(lua_State *L) { return *(int *)ltide_check_object(L, 1, CACHE_META); }

static void push_cache(lua_State *L, int device) {
  *(int *)ltide_new_object(L, sizeof device, 0) = device;
  ltide_setmetatable(L, CACHE_META);
}

static int lcache_clear(lua_State *L) {
  ltide_enter(L);
  ltide_need(L, TIDE_LUA_GLOBALS, "cufft_plan_cache.clear");
  return ltide_done(L, tide_fft_cache_clear(cache_device(L)));
}

/* A field, or the cache of a device: [0], ["cuda:1"], [device]. */
static int lcache_index(lua_State *L) {
  ltide_enter(L);
  int64_t value;
  int device = cache_device(L);
  const char *key = lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : NULL;
  if (key && !strcmp(key, "clear")) {
    lua_pushcfunction(L, lcache_clear);
  } else if (key && (!strcmp(key, "size") || !strcmp(key, "max_size"))) {
    ltide_try(L, key[0] == 's' ? tide_fft_cache_size(&value, device) : tide_fft_cache_get_max(&value, device));
    lua_pushinteger(L, value);
  } else if (key && !ltide_is_device(L, 2)) {
    return ltide_error(L, "ArgumentError",
                       "cufft_plan_cache: no field '%s', expected max_size, size, clear or a device", key);
  } else {
    device = ltide_check_device(L, 2, "cufft_plan_cache", 0);
    ltide_try(L, tide_fft_cache_get_max(&value, device)); /* a device that is not there is an error at once */
    push_cache(L, device);
  }
  return 1;
}

static int lcache_newindex(lua_State *L) {
  ltide_enter(L);
  const char *key = lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : "";
  if (!strcmp(key, "size"))
    return ltide_error(L, "ArgumentError", "cufft_plan_cache: size is read-only: it counts the plans in the cache");
  if (strcmp(key, "max_size"))
    return ltide_error(L, "ArgumentError", "cufft_plan_cache: nothing to set but max_size, got %s",
                       ltide_typename(L, 2));
  int is_integer = 0;
  lua_Integer size = lua_type(L, 3) == LUA_TNUMBER ? lua_tointegerx(L, 3, &is_integer) : 0;
  if (!is_integer)
    return ltide_error(L, "ArgumentError", "cufft_plan_cache: max_size: got %s, expected an integer",
                       ltide_typename(L, 3));
  ltide_need(L, TIDE_LUA_GLOBALS, "cufft_plan_cache.max_size");
  return ltide_done(L, tide_fft_cache_set_max(cache_device(L), size));
}

static int lcache_tostring(lua_State *L) {
  int device = cache_device(L);
  if (device == TIDE_CURRENT)
    lua_pushliteral(L, "cufft_plan_cache of the current device");
  else
    lua_pushfstring(L, "cufft_plan_cache of cuda:%d", device);
  return 1;
}

static void open_cache(lua_State *L) {
  static const luaL_Reg meta[] = {
      {"__index", lcache_index}, {"__newindex", lcache_newindex}, {"__tostring", lcache_tostring}, {NULL, NULL}};
  ltide_newmetatable(L, CACHE_META);
  luaL_setfuncs(L, meta, 0);
  lua_pop(L, 1);
  luaL_getsubtable(L, -1, "backends");
  luaL_getsubtable(L, -1, "cuda");
  push_cache(L, TIDE_CURRENT);
  lua_setfield(L, -2, "cufft_plan_cache");
  lua_pop(L, 2);
}

#include <rows/fft.inc>

void ltide_open_fft(lua_State *L, ltide_state *S) {
  lua_newtable(L);
  ltide_register_rows(L, "tide.fft", fft_rows);
  lua_setfield(L, -2, "fft");
  open_cache(L);
}

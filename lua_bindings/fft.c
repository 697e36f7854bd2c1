/* fft.c: tide.fft and the plan cache, tide.backends.cuda.cufft_plan_cache.
 *
 * Dimensions count from 1 and are -1, the last two or all where nothing is said; s alone means the last dimensions. The
 * cache is an object without state: it names a device, or none for the current one at the moment of use. */
#include <string.h>

#include "args.h"

#include "tide/fft.h"

/* How a function reads its dimensions. */
typedef enum fft_dims { ONE, TWO, ALL } fft_dims;

static tide_fft_norm opt_norm(lua_State *L, int opts) {
  static const char *const names[] = {"backward", "ortho", "forward"};
  tide_fft_norm norm = TIDE_FFT_BACKWARD;
  if (!opts) return norm;
  if (ltide_rawfield(L, opts, "norm") != LUA_TNIL) {
    const char *text = lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : "";
    int i = 0;
    while (i < 3 && strcmp(text, names[i])) i++;
    if (i == 3) ltide_arg_error(L, lua_gettop(L), "norm", "'backward', 'ortho' or 'forward'");
    norm = (tide_fft_norm)i;
  }
  lua_pop(L, 1);
  return norm;
}

/* The option as integers; -1 when it is not given. */
static int opt_integers(lua_State *L, int opts, const char *key, int64_t *values) {
  int n = -1;
  if (!opts) return n;
  if (ltide_rawfield(L, opts, key) != LUA_TNIL) n = ltide_check_integers(L, lua_gettop(L), values, TIDE_MAX_DIMS, key);
  lua_pop(L, 1);
  return n;
}

static int opt_dims(lua_State *L, int opts, int ndim, int *dims) {
  int n = -1;
  if (!opts) return n;
  if (ltide_rawfield(L, opts, "dim") != LUA_TNIL) n = ltide_check_dims(L, lua_gettop(L), ndim, dims, "dim");
  lua_pop(L, 1);
  return n;
}

/* Fills the dimensions that were not named; returns how many there are. */
static int default_dims(lua_State *L, fft_dims form, int ndim, int lengths, int *dims) {
  int n = form == TWO ? 2 : form == ONE ? 1 : lengths >= 0 ? lengths : ndim;
  if (n > ndim)
    ltide_error(L, "IndexError", "%s: got a tensor of %d dimensions, expected at least %d", ltide_function_name(L),
                ndim, n);
  for (int i = 0; i < n; i++) dims[i] = ndim - n + i;
  return n;
}

static int transform(lua_State *L, tide_fft_kind kind, fft_dims form) {
  static const char *const line_keys[] = {"n", "dim", "norm", "out", NULL}, *const keys[] = {"s", "dim", "norm", "out",
                                                                                             NULL};
  ltide_state *S = ltide_enter(L);
  ltide_by_place(L, 2, LTIDE_NAMES(form == ONE ? "n" : "s", "dim", "norm"));
  tide_tensor *x = ltide_check_tensor(L, S, 1, "x");
  ltide_args args = ltide_split(L, 1);
  ltide_check_count(L, args, 1);
  ltide_check_keys(L, args.opts, form == ONE ? line_keys : keys);
  int64_t n[TIDE_MAX_DIMS];
  int dims[TIDE_MAX_DIMS], lengths = opt_integers(L, args.opts, form == ONE ? "n" : "s", n);
  int ndims = opt_dims(L, args.opts, tide_tensor_ndim(x), dims);
  if (ndims < 0) ndims = default_dims(L, form, tide_tensor_ndim(x), lengths, dims);
  if (form == ONE && ndims != 1)
    return ltide_error(L, "ValueError", "%s: dim: got %d dimensions, expected one", ltide_function_name(L), ndims);
  if (lengths >= 0 && lengths != ndims)
    return ltide_error(L, "ValueError", "%s: %s: got %d lengths for %d dimensions, expected one for each",
                       ltide_function_name(L), form == ONE ? "n" : "s", lengths, ndims);
  if (form == ONE && lengths == 1 && n[0] < 1)
    return ltide_error(L, "ValueError", "%s: n: got %I, expected at least 1", ltide_function_name(L),
                       (lua_Integer)n[0]);
  tide_fft_norm norm = opt_norm(L, args.opts);
  tide_tensor *out = ltide_opt_tensor(L, S, args.opts, "out");
  ltide_tensor *u = out ? NULL : ltide_new_tensor(L, S);
  ltide_try(
      L, tide_fft(u ? &u->t : NULL, kind, x, dims, lengths < 0 ? NULL : n, ndims, norm, out, ltide_function_name(L)));
  if (out) ltide_rawfield(L, args.opts, "out");
  ltide_made(L, S);
  return 1;
}

#define FACES(name, kind)                                                                                              \
  static int l##name(lua_State *L) { return transform(L, kind, ONE); }                                                 \
  static int l##name##2(lua_State * L) { return transform(L, kind, TWO); }                                             \
  static int l##name##n(lua_State *L) { return transform(L, kind, ALL); }
FACES(fft, TIDE_FFT_FFT)
FACES(ifft, TIDE_FFT_IFFT)
FACES(rfft, TIDE_FFT_RFFT)
FACES(irfft, TIDE_FFT_IRFFT)
FACES(hfft, TIDE_FFT_HFFT)
FACES(ihfft, TIDE_FFT_IHFFT)

/* {==== Frequencies and their order */

static int freq(lua_State *L, bool half) {
  static const char *const keys[] = {LTIDE_OUT_KEYS, NULL};
  ltide_state *S = ltide_enter(L);
  ltide_args args = ltide_split(L, 1);
  ltide_check_count(L, args, 2);
  ltide_check_keys(L, args.opts, keys);
  int64_t n = ltide_check_integer(L, 1, "n");
  double d = args.n > 1 ? ltide_check_number(L, 2, "d") : 1;
  tide_options o = TIDE_OPTIONS;
  ltide_opt_options(L, args.opts, &o);
  ltide_tensor *u = ltide_new_tensor(L, S);
  ltide_try(L, tide_fft_freq(&u->t, n, d, half, &o));
  return ltide_deliver(L, S, args.opts, 1);
}
static int lfftfreq(lua_State *L) { return freq(L, false); }
static int lrfftfreq(lua_State *L) { return freq(L, true); }

static int shift(lua_State *L, bool inverse) {
  static const char *const keys[] = {"dim", "out", NULL};
  ltide_state *S = ltide_enter(L);
  tide_tensor *x = ltide_check_tensor(L, S, 1, "x");
  ltide_args args = ltide_split(L, 1);
  ltide_check_count(L, args, 2);
  ltide_check_keys(L, args.opts, keys);
  int dims[TIDE_MAX_DIMS], ndim = tide_tensor_ndim(x), n = opt_dims(L, args.opts, ndim, dims);
  if (args.n > 1) n = ltide_check_dims(L, 2, ndim, dims, "dim");
  if (n < 0) n = default_dims(L, ALL, ndim, -1, dims);
  ltide_check_out(L, S, args.opts, 1);
  ltide_tensor *u = ltide_new_tensor(L, S);
  ltide_try(L, tide_fft_shift(&u->t, x, dims, n, inverse));
  return ltide_deliver(L, S, args.opts, 1);
}
static int lfftshift(lua_State *L) { return shift(L, false); }
static int lifftshift(lua_State *L) { return shift(L, true); }

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
  ltide_try(L, tide_fft_cache_clear(cache_device(L)));
  return 0;
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
  ltide_try(L, tide_fft_cache_set_max(cache_device(L), size));
  return 0;
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

#define LINE_TAIL  " [, n [, dim=-1 [, norm='backward']]] [, {out=}]) -> Tensor\n"
#define PLANE_TAIL " [, s [, dim={-2, -1} [, norm='backward']]] [, {out=}]) -> Tensor\n"
#define FULL_TAIL  " [, s [, dim [, norm='backward']]] [, {out=}]) -> Tensor\n"
#define LENGTHS                                                                                                        \
  " n, or s for several dimensions (-1: as it is), crops or pads with zeros to that length. norm: 'backward' divides " \
  "the inverse by the number of points, 'forward' the other one, 'ortho' both by its root. float32 or float64 and "    \
  "the "                                                                                                               \
  "complex of both; integers count as the default dtype. On a GPU nothing waits."
#define ALL_DIMS " over all dimensions, or over dim, or over the last ones that s has lengths for."

void ltide_open_fft(lua_State *L, ltide_state *S) {
  (void)S;
  static const ltide_reg list[] = {
      {"fft", lfft, "tide.fft.fft(x" LINE_TAIL "The Fourier transform along one dimension; complex." LENGTHS},
      {"ifft", lifft, "tide.fft.ifft(x" LINE_TAIL "The inverse Fourier transform along one dimension." LENGTHS},
      {"rfft", lrfft,
       "tide.fft.rfft(x" LINE_TAIL "The Fourier transform of a real x: the n // 2 + 1 elements that the others are the "
       "conjugates of." LENGTHS},
      {"irfft", lirfft,
       "tide.fft.irfft(x" LINE_TAIL "The inverse of rfft, real. Its length n is 2 * (size - 1) if not given." LENGTHS},
      {"hfft", lhfft,
       "tide.fft.hfft(x" LINE_TAIL "The Fourier transform, real, of a signal of which x is the first half and that is "
       "its own conjugate mirrored." LENGTHS},
      {"ihfft", lihfft, "tide.fft.ihfft(x" LINE_TAIL "The inverse of hfft, of a real x." LENGTHS},
      {"fft2", lfft2, "tide.fft.fft2(x" PLANE_TAIL "fft over two dimensions." LENGTHS},
      {"ifft2", lifft2, "tide.fft.ifft2(x" PLANE_TAIL "ifft over two dimensions." LENGTHS},
      {"rfft2", lrfft2, "tide.fft.rfft2(x" PLANE_TAIL "rfft over two dimensions, the last of which is halved." LENGTHS},
      {"irfft2", lirfft2, "tide.fft.irfft2(x" PLANE_TAIL "The inverse of rfft2, real." LENGTHS},
      {"hfft2", lhfft2,
       "tide.fft.hfft2(x" PLANE_TAIL "hfft over two dimensions, the last of which is halved in x." LENGTHS},
      {"ihfft2", lihfft2, "tide.fft.ihfft2(x" PLANE_TAIL "The inverse of hfft2, of a real x." LENGTHS},
      {"fftn", lfftn, "tide.fft.fftn(x" FULL_TAIL "fft" ALL_DIMS LENGTHS},
      {"ifftn", lifftn, "tide.fft.ifftn(x" FULL_TAIL "ifft" ALL_DIMS LENGTHS},
      {"rfftn", lrfftn, "tide.fft.rfftn(x" FULL_TAIL "rfft" ALL_DIMS " The last one is halved." LENGTHS},
      {"irfftn", lirfftn, "tide.fft.irfftn(x" FULL_TAIL "The inverse of rfftn" ALL_DIMS LENGTHS},
      {"hfftn", lhfftn, "tide.fft.hfftn(x" FULL_TAIL "hfft" ALL_DIMS " The last one is halved in x." LENGTHS},
      {"ihfftn", lihfftn, "tide.fft.ihfftn(x" FULL_TAIL "The inverse of hfftn" ALL_DIMS LENGTHS},
      {"fftfreq", lfftfreq,
       "tide.fft.fftfreq(n [, d=1.0] [, {dtype=, device=, out=}]) -> Tensor\nThe frequencies of n samples d apart, in "
       "the "
       "order of fft: 0, 1, ..., -2, -1, over n * d."},
      {"rfftfreq", lrfftfreq,
       "tide.fft.rfftfreq(n [, d=1.0] [, {dtype=, device=, out=}]) -> Tensor\nThe frequencies of n samples d apart, in "
       "the "
       "order of rfft: 0 to n // 2, over n * d."},
      {"fftshift", lfftshift,
       "tide.fft.fftshift(x [, dim] [, {out=}]) -> Tensor\nRolls frequency 0 to the middle of the dimensions, "
       "all if not given."},
      {"ifftshift", lifftshift, "tide.fft.ifftshift(x [, dim] [, {out=}]) -> Tensor\nThe inverse of fftshift."},
      {NULL, NULL, NULL}};
  lua_newtable(L);
  ltide_register(L, "tide.fft", list);
  lua_setfield(L, -2, "fft");
  open_cache(L);
}

/* random_cuda.c: the random state of the GPUs (tide.cuda.manual_seed and its kin), and tide.random.fork_rng.
 *
 * The state of a device is that of its default generator. Seeding and setting a state touch no driver, so a script that
 * seeds everything runs anywhere, and a process that has only seeded may still be forked. Whether the device is there
 * is asked at the first use of a GPU, which then fails as DeferredCudaCallError if it is not. Reading a state is such a
 * use. */
#include <stdlib.h>

#include "call/row.h"
#include "random.h"
#include "call/block.h"
#include "tide/device.h"

/* For what reads: the calls that wait for the first use come first. */
static void first_use(lua_State *L) { ltide_try(L, tide_device_init()); }

static tide_status exists(void *user) {
  tide_generator *g;
  return tide_generator_default(&g, (int)(intptr_t)user);
}

/* The generator to be written, of a device that may turn out not to be there. */
static tide_generator *early_generator(lua_State *L, int device) {
  tide_generator *g;
  if (device == TIDE_CURRENT) device = tide_current_device();
  if (tide_is_initialized()) return ltide_default_generator(L, device);
  ltide_try(L, tide_generator_early(&g, device));
  ltide_traceback(L, L, NULL, 1);
  ltide_try(L, tide_defer(exists, NULL, (void *)(intptr_t)device, lua_tostring(L, -1)));
  lua_pop(L, 1);
  return g;
}

static int lcuda_get_rng_state(lua_State *L, ltide_call *c) {
  first_use(L);
  return ltide_push_rng_state(L, c->S, ltide_default_generator(L, c->v[0].device));
}

static int lcuda_get_rng_state_all(lua_State *L, ltide_call *c) {
  int n = tide_device_count();
  if (n) first_use(L);
  lua_createtable(L, n, 0);
  for (int i = 0; i < n; i++) {
    ltide_push_rng_state(L, c->S, ltide_default_generator(L, i));
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

static int lcuda_set_rng_state(lua_State *L, ltide_call *c) {
  uint64_t state[2];
  ltide_check_rng_state(L, c->S, 1, "state", state);
  ltide_set_rng_state(L, early_generator(L, c->v[1].device), state);
  return 0;
}

/* Every key counts a device from 1. */
static void check_list(lua_State *L, int arg, lua_Integer n) {
  for (lua_pushnil(L); lua_next(L, arg); lua_pop(L, 1)) {
    lua_Integer at = lua_isinteger(L, -2) ? lua_tointeger(L, -2) : 0;
    if (at >= 1 && at <= n) continue;
    ltide_fail(L, "ArgumentError", "states: got the key %s, expected a list of states, the first for device 0",
               luaL_tolstring(L, -2, NULL));
  }
}

/* All are read before the first is set. */
static int lcuda_set_rng_state_all(lua_State *L, ltide_call *c) {
  if (!lua_istable(L, 1)) return ltide_arg_error(L, 1, "states", "a table of states, the first for device 0");
  uint64_t state[TIDE_MAX_DEVICES][2];
  int n = (int)lua_rawlen(L, 1);
  if (n > tide_device_count())
    return ltide_error(L, "ValueError", "set_rng_state_all: states: got %d, expected at most %d, the number of devices",
                       n, tide_device_count());
  check_list(L, 1, n);
  for (int i = 0; i < n; i++, lua_pop(L, 1)) {
    char name[32];
    snprintf(name, sizeof name, "states[%d]", i + 1);
    lua_rawgeti(L, 1, i + 1);
    ltide_check_rng_state(L, c->S, lua_gettop(L), name, state[i]);
  }
  for (int i = 0; i < n; i++) ltide_set_rng_state(L, early_generator(L, i), state[i]);
  return 0;
}

/* Seeds the device that is given, which must be there, or the current one, or where `device` is NULL all, whether they
 * are there or not. */
static void seed_gpus(lua_State *L, uint64_t seed, const ltide_value *device) {
  ltide_check_settable(L, TIDE_CURRENT);
  if (device && device->given) {
    tide_generator_seed(early_generator(L, device->device), seed);
    return;
  }
  int first = device ? tide_current_device() : 0, last = device ? first : TIDE_MAX_DEVICES - 1;
  for (int i = first; i <= last; i++) {
    tide_generator *g;
    ltide_try(L, tide_generator_early(&g, i));
    tide_generator_seed(g, seed);
  }
}

/* The functions for all devices have no parameter for one. */
static int lcuda_manual_seed(lua_State *L, ltide_call *c) {
  seed_gpus(L, (uint64_t)c->v[0].i, c->sig->count > 1 ? &c->v[1] : NULL);
  return 0;
}

static int lcuda_seed(lua_State *L, ltide_call *c) {
  uint64_t seed = tide_random_seed();
  seed_gpus(L, seed, c->sig->count ? &c->v[0] : NULL);
  return ltide_give_integer(L, (lua_Integer)seed);
}

static int lcuda_initial_seed(lua_State *L, ltide_call *c) {
  first_use(L);
  return ltide_give_integer(L, (lua_Integer)tide_generator_get_seed(ltide_default_generator(L, c->v[0].device)));
}

/* {==== default_generators: a list whose entry i + 1 is device i */

static int lgenerators_index(lua_State *L) {
  ltide_enter(L);
  int is_integer;
  lua_Integer i = lua_tointegerx(L, 2, &is_integer);
  if (!is_integer || i < 1 || i > tide_device_count()) return 0;
  ltide_need(L, TIDE_LUA_GLOBALS, "default_generators");
  return ltide_push_generator(L, ltide_default_generator(L, (int)i - 1)), 1;
}

static int lgenerators_len(lua_State *L) {
  ltide_enter(L);
  return ltide_give_integer(L, tide_device_count());
}

/* {==== fork_rng */

typedef struct saved_state {
  int device;
  uint64_t seed, offset;
} saved_state;

/* A block. Those of coroutines may end in another order than they began: then the one that began earlier sets its
 * generators back and leaves its state to the next one, which would else bring back what was drawn inside the first. So
 * the last one to end sets back to what was before all of them. */
typedef struct ltide_fork {
  struct ltide_fork *older, **newest; /* the head of the list that it stands in */
  int n;
  saved_state list[TIDE_MAX_DEVICES + 1];
} ltide_fork;
struct ltide_fork_part {
  ltide_fork *newest; /* of the open blocks */
};
LTIDE_PART(fork)
LTIDE_PART_SIZE(fork)

/* Of the first block after this one that saved the device's state too; NULL if there is none. */
static saved_state *next_state(const ltide_fork *fork, int device) {
  saved_state *found = NULL;
  for (ltide_fork *f = *fork->newest; f != fork; f = f->older)
    for (int i = 0; i < f->n; i++)
      if (f->list[i].device == device) found = &f->list[i];
  return found;
}

static void set_back(const ltide_fork *fork, const saved_state *s) {
  tide_generator *g;
  saved_state *next = next_state(fork, s->device);
  if (next) *next = *s;
  if (tide_generator_default(&g, s->device) != TIDE_OK) return;
  tide_generator_seed(g, s->seed);
  (void)tide_generator_set_offset(g, s->offset);
}

static void leave_fork(lua_State *L, void *data) {
  ltide_fork *fork, **at;
  memcpy(&fork, data, sizeof fork);
  for (int i = 0; i < fork->n && L; i++) set_back(fork, &fork->list[i]);
  for (at = fork->newest; *at != fork;) at = &(*at)->older;
  *at = fork->older;
  free(fork);
}

static void save_state(lua_State *L, ltide_fork *saved, int device) {
  if (saved->n > TIDE_MAX_DEVICES) ltide_error(L, "ValueError", "fork_rng: devices: got too many");
  tide_generator *g = ltide_default_generator(L, device);
  saved->list[saved->n++] =
      (saved_state){tide_generator_device(g), tide_generator_get_seed(g), tide_generator_get_offset(g)};
}

/* The devices of the option, or all GPUs that there are. */
static void save_gpus(lua_State *L, ltide_fork *saved, int opts) {
  if (!opts || ltide_rawfield(L, opts, "devices") == LUA_TNIL) {
    if (tide_is_available())
      for (int i = 0; i < tide_device_count(); i++) save_state(L, saved, i);
    return;
  }
  int list = lua_gettop(L);
  if (!lua_istable(L, list)) ltide_arg_error(L, list, "devices", "a table of devices");
  for (lua_Integer i = 1, n = (lua_Integer)lua_rawlen(L, list); i <= n; i++) {
    lua_rawgeti(L, list, i);
    save_state(L, saved, ltide_check_device(L, list + 1, "devices", 0));
    lua_pop(L, 1);
  }
}

static int lfork_rng(lua_State *L) {
  static const char *const keys[] = {"devices", NULL};
  ltide_state *S = ltide_enter(L);
  int opts = lua_istable(L, 1) ? 1 : 0, fn = ltide_check_block(L, opts + 1);
  ltide_check_keys(L, opts, keys);
  ltide_fork saved = {.newest = &ltide_fork_of(S)->newest};
  int top = lua_gettop(L);
  save_state(L, &saved, TIDE_CPU);
  save_gpus(L, &saved, opts);
  if (saved.n > 1) ltide_check_settable(L, TIDE_CURRENT);
  lua_settop(L, top);
  void *data = ltide_block_new(L, "tide.random.fork_rng", fn, leave_fork, sizeof(ltide_fork *));
  ltide_fork *fork = malloc(sizeof *fork);
  if (!fork) return ltide_error(L, "OutOfMemoryError", "fork_rng: no memory for the block");
  *fork = saved;
  fork->older = ltide_fork_of(S)
                    ->newest; /* which one that is is known now: reading the options may have begun and ended others */
  ltide_fork_of(S)->newest = fork;
  memcpy(data, &fork, sizeof fork);
  return ltide_block_open(L, fn);
}

/* {==== Opening */

void ltide_open_random_cuda(lua_State *L, ltide_state *S) {
  static const luaL_Reg meta[] = {
      {"__index", lgenerators_index}, {"__len", lgenerators_len}, {"__newindex", ltide_read_only}, {NULL, NULL}};
#include <rows/random_cuda_cuda.inc>
#include <rows/random_cuda_random.inc>
  ltide_register_in(L, "tide.cuda", random_cuda_cuda_rows);
  ltide_register_in(L, "tide.random", random_cuda_random_rows);
  lua_getfield(L, -1, "cuda");
  ltide_register_also(L, "random", random_cuda_cuda_rows);
  lua_newtable(L);
  luaL_newlib(L, meta);
  ltide_set_text(L, "__name", "default_generators");
  ltide_protect(L, "default_generators");
  lua_setmetatable(L, -2);
  lua_setfield(L, -2, "default_generators");
  lua_pop(L, 1);
}

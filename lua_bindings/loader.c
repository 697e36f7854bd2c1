/* loader.c: tide.data.loader, the batches of a dataset.
 *
 * Lua never runs on a second thread: the items are asked for and checked in the thread that iterates, which allocates
 * the batch as well and notes what is to be copied (loader_collate.c). The copying into page-locked memory, and through
 * it to a device (loader_lane.c), is done by one worker thread of the iteration (loader_job.c), so it overlaps with
 * what the loop does. The iterator keeps `prefetch` batches ahead of the one it gives out, and waits for the oldest
 * only.
 *
 * A job is owned by the Lua thread: while it is made by a guard on the Lua stack, then by the iteration's queue, from
 * which the thread that iterates takes it. The worker holds no reference, and only reads what the job holds.
 *
 * Invariant: a job that the worker may look at is in the queue; it leaves the queue done, or after the worker has
 * ended. So a loop that is broken off, by `break`, an error or the collector, leaves nothing behind. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "args.h"
#include "loader.h"

#define LOADER_META    "tide.data.Loader"
#define ITERATION_META "tide.data.Iteration"
#define JOB_META       "tide.data.Job"

enum { LOADER_DATASET = 1, LOADER_COLLATE, LOADER_GENERATOR, LOADER_PASSES };          /* user values of the loader */
enum { ITERATION_DATASET = 1, ITERATION_COLLATE, ITERATION_BATCHES, ITERATION_ORDER }; /* and of an iteration */
enum { MOST_AHEAD = 1 << 16 };

typedef struct loader {
  lua_Integer batch_size, prefetch, size; /* size: of a function, else -1 */
  bool shuffle, drop_last, pin_memory;
  int device;          /* where batches go, unresolved; TIDE_CPU: nowhere */
  tide_stream *stream; /* on which, from the first iteration on */
  bool closed;         /* by the collector: a finaliser may have it still */
} loader;

typedef struct iteration {
  loader o;
  lua_Integer size, batches; /* items and batches of this iteration */
  lua_Integer asked, given;  /* batches in the queue and before; batches handed out */
  const int64_t *order;      /* the shuffled numbers, or NULL */
  ltide_loader_job *oldest, *newest;
  ltide_loader_job *next; /* the worker's: the first that is not done; under the lock */
  pthread_t thread;
  pthread_mutex_t lock;
  pthread_cond_t changed;
  bool open, threaded, stop;
  bool ready;       /* the batch after the one handed out last is copied, its job gone */
  tide_event *sent; /* what that job had */
  ltide_loader_lane lane;
} iteration;

/* {==== Jobs */

static int job_gc(lua_State *L) {
  ltide_loader_job *job = ltide_take_pointer(L, JOB_META);
  if (job) ltide_loader_free(job);
  return 0;
}

static ltide_loader_job **new_job(lua_State *L) {
  ltide_loader_job **guard = ltide_new_object(L, sizeof *guard, 0);
  *guard = NULL;
  ltide_setmetatable(L, JOB_META);
  if (!(*guard = calloc(1, sizeof **guard))) ltide_error(L, "OutOfMemoryError", "loader: no host memory for a batch");
  return guard;
}

/* {==== The worker */

static pthread_rwlock_t running = PTHREAD_RWLOCK_INITIALIZER;

void ltide_loader_pause(void) { pthread_rwlock_wrlock(&running); }
void ltide_loader_resume(void) { pthread_rwlock_unlock(&running); }

/* What a job queues is the line's that asked for its batch. */
static int job_site(void *user, const char **source) {
  const ltide_loader_job *job = *(ltide_loader_job **)user;
  *source = job->source;
  return job->line;
}

/* Copying is bound by memory, and gains nothing from the last cores; without one the loop would stop it now and then.
 */
static void *work(void *user) {
  iteration *it = user;
  ltide_loader_job *job;
  int threads = tide_get_num_threads();
  tide_set_thread_limit(threads - (threads + 3) / 4);
  tide_site_set(job_site, &job);
  pthread_mutex_lock(&it->lock);
  while (!it->stop) {
    if (!(job = it->next)) {
      pthread_cond_wait(&it->changed, &it->lock);
      continue;
    }
    pthread_mutex_unlock(&it->lock);
    pthread_rwlock_rdlock(&running);
    ltide_loader_run(job);
    pthread_rwlock_unlock(&running);
    pthread_mutex_lock(&it->lock);
    job->done = true;
    it->next = job->next;
    pthread_cond_broadcast(&it->changed);
  }
  pthread_mutex_unlock(&it->lock);
  return NULL;
}

/* Takes the job over. Where no thread can be started the copying is done at once. */
static void enqueue(iteration *it, ltide_loader_job *job) {
  if (it->o.prefetch && !it->threaded) it->threaded = pthread_create(&it->thread, NULL, work, it) == 0;
  if (!it->threaded) ltide_loader_run(job), job->done = true;
  pthread_mutex_lock(&it->lock);
  if (it->newest)
    it->newest->next = job;
  else
    it->oldest = job;
  it->newest = job;
  if (!it->next && !job->done) it->next = job;
  pthread_cond_broadcast(&it->changed);
  pthread_mutex_unlock(&it->lock);
}

/* The oldest job, when it is done. */
static ltide_loader_job *dequeue(iteration *it) {
  pthread_mutex_lock(&it->lock);
  ltide_loader_job *job = it->oldest;
  while (!job->done) pthread_cond_wait(&it->changed, &it->lock);
  it->oldest = job->next;
  if (!it->oldest) it->newest = NULL;
  pthread_mutex_unlock(&it->lock);
  return job;
}

static void end_iteration(iteration *it) {
  if (!it->open) return;
  it->open = false;
  pthread_mutex_lock(&it->lock);
  it->stop = true;
  pthread_cond_broadcast(&it->changed);
  pthread_mutex_unlock(&it->lock);
  if (it->threaded) pthread_join(it->thread, NULL);
  while (it->oldest) {
    ltide_loader_job *job = it->oldest;
    it->oldest = job->next;
    ltide_loader_free(job);
  }
  tide_event_release(it->sent);
  it->sent = NULL;
  ltide_loader_lane_close(&it->lane);
  pthread_cond_destroy(&it->changed);
  pthread_mutex_destroy(&it->lock);
}

/* Both __gc and __close. The user values go too, as a closed iteration may be kept for long. */
static int iteration_end(lua_State *L) {
  iteration *it = ltide_test_object(L, 1, ITERATION_META);
  if (!it) return 0;
  end_iteration(it);
  for (int i = ITERATION_DATASET; i <= ITERATION_ORDER; i++) {
    lua_pushnil(L);
    lua_setiuservalue(L, 1, i);
  }
  return 0;
}

/* {==== Iteration. The iteration is at index 1. */

static void push_item(lua_State *L, int dataset, lua_Integer i) {
  if (lua_type(L, dataset) == LUA_TFUNCTION) {
    lua_pushvalue(L, dataset);
    lua_pushinteger(L, i);
    lua_call(L, 1, 1);
  } else {
    lua_geti(L, dataset, i);
  }
  if (lua_isnil(L, -1)) ltide_error(L, "ValueError", "loader: dataset[%I]: got nil, expected an item", i);
}

/* Pushes a list of the items of batch k (from 0) and fills in their numbers. */
static void push_items(lua_State *L, const iteration *it, int dataset, lua_Integer k, int64_t *index, int n) {
  for (int i = 0; i < n; i++) {
    lua_Integer at = k * it->o.batch_size + i;
    index[i] = it->order ? it->order[at] : at + 1;
  }
  lua_createtable(L, n, 0);
  for (int i = 0; i < n; i++) {
    push_item(L, dataset, index[i]);
    lua_rawseti(L, -2, i + 1);
  }
}

/* Asks for the next batch: what comes of it is in the queue, its value and handles in the table of batches. */
static void ask(lua_State *L, ltide_state *S, iteration *it) {
  lua_settop(L, 1);
  lua_Integer k = it->asked, left = it->size - k * it->o.batch_size;
  int n = (int)(left < it->o.batch_size ? left : it->o.batch_size);
  lua_getiuservalue(L, 1, ITERATION_DATASET);
  int64_t *index = ltide_new_object(L, (size_t)n * sizeof *index, 0);
  ltide_loader_job **guard = new_job(L);
  lua_createtable(L, 2, 0);
  lua_newtable(L);
  bool device = it->lane.stream != NULL, pin = it->o.pin_memory;
  ltide_loader_batch b = {S, *guard, index, n, 6, pin, device, device && pin ? &it->lane : NULL};
  bool custom = lua_getiuservalue(L, 1, ITERATION_COLLATE) != LUA_TNIL;
  push_items(L, it, 2, k, index, n);
  if (custom) lua_call(L, 1, 1);
  ltide_enter(L); /* what was called may have run coroutines */
  if (!custom)
    ltide_loader_collate(L, &b, lua_gettop(L));
  else
    ltide_loader_pin(L, &b);
  ltide_made(L, S);
  lua_rawseti(L, 5, 1);
  lua_settop(L, 6);
  lua_rawseti(L, 5, 2);
  if (!it->open || it->asked != k)
    ltide_error(L, "StateError", "loader: dataset: this iteration was used while it asked for an item");
  lua_getiuservalue(L, 1, ITERATION_BATCHES);
  lua_pushvalue(L, 5);
  lua_rawseti(L, -2, k + 1);
  it->asked = k + 1;
  const char *source = "";
  b.job->line = ltide_line(L, &source);
  strncpy(b.job->source, source, sizeof b.job->source - 1);
  *guard = NULL;
  enqueue(it, b.job);
}

/* Hands the handles to the tide.scope around this call, as if they were made in it. */
static void adopt(lua_State *L, ltide_state *S, int handles) {
  for (lua_Integer i = 1, n = (lua_Integer)lua_rawlen(L, handles); S->arena && i <= n; i++) {
    lua_rawgeti(L, handles, i);
    ltide_arena_add(S, lua_touserdata(L, -1));
    lua_pop(L, 1);
  }
}

/* In a finaliser of the script's the handles of a batch may have been finalised before. */
static void check_alive(lua_State *L, int handles) {
  for (lua_Integer i = 1, n = (lua_Integer)lua_rawlen(L, handles); i <= n; i++) {
    lua_rawgeti(L, handles, i);
    bool is_alive = ((ltide_tensor *)lua_touserdata(L, -1))->t != NULL;
    lua_pop(L, 1);
    if (is_alive) continue;
    iteration_end(L);
    ltide_error(L, "StateError", "loader: got a batch with a freed tensor, expected all alive; the iteration ends");
  }
}

/* Lets batch k go, and raises the message at the top for it. */
static void leave_out(lua_State *L, iteration *it, lua_Integer k, tide_status status) {
  it->ready = false, it->given = k;
  lua_getiuservalue(L, 1, ITERATION_BATCHES);
  lua_pushnil(L);
  lua_rawseti(L, -2, k);
  ltide_error(L, tide_status_kind(status), "loader: batch %I: %s", k, lua_tostring(L, -2));
}

/* Waits for the job of batch k, and lets it go. A batch that could not be copied is left out. */
static void settle(lua_State *L, iteration *it, lua_Integer k) {
  ltide_loader_job *job = dequeue(it);
  tide_status status = job->status;
  if (status != TIDE_OK) lua_pushstring(L, job->message);
  tide_event_release(it->sent);
  it->sent = job->sent, job->sent = NULL;
  ltide_loader_free(job);
  it->ready = status == TIDE_OK;
  if (!it->ready) leave_out(L, it, k, status);
}

/* Pushes the value of the oldest batch. One that finds no room on the device is there for the next call, one that
 * cannot get there for another reason is left out. */
static void take(lua_State *L, ltide_state *S, iteration *it) {
  lua_Integer k = it->given + 1;
  lua_settop(L, 1);
  if (!it->ready) settle(L, it, k);
  lua_getiuservalue(L, 1, ITERATION_BATCHES);
  lua_rawgeti(L, 2, k);
  lua_rawgeti(L, 3, 2);
  check_alive(L, 4);
  tide_status status = ltide_loader_lane_move(L, &it->lane, k, 4, it->sent);
  if (status != TIDE_OK && status != TIDE_MEMORY) {
    lua_pushstring(L, tide_error_get()->message);
    leave_out(L, it, k, status);
  }
  ltide_try(L, status);
  ltide_made(L, S);
  it->ready = false, it->given = k;
  lua_pushnil(L);
  lua_rawseti(L, 2, k);
  adopt(L, S, 4);
  lua_rawgeti(L, 3, 1);
}

static int iteration_call(lua_State *L) {
  ltide_state *S = ltide_enter(L);
  iteration *it = ltide_check_object(L, 1, ITERATION_META);
  ltide_loader_lane_asked(L, &it->lane, it->given);
  while (it->open && it->asked < it->batches && it->asked - it->given <= it->o.prefetch) ask(L, S, it);
  ltide_enter(L); /* a dataset may have run coroutines */
  if (!it->open || it->given == it->batches) {
    lua_settop(L, 1);
    iteration_end(L);
    lua_pushnil(L);
    return 1;
  }
  take(L, S, it);
  lua_pushinteger(L, it->given);
  lua_insert(L, -2);
  return 2;
}

/* {==== The loader. It is at index 1. */

static loader *check_loader(lua_State *L) {
  loader *o = ltide_test_object(L, 1, LOADER_META);
  if (!o) ltide_arg_error(L, 1, "loader", "what tide.data.loader gives");
  return o;
}

/* How many items there are now. */
static lua_Integer count_items(lua_State *L, const loader *o) {
  if (o->size >= 0) return o->size;
  lua_getiuservalue(L, 1, LOADER_DATASET);
  lua_len(L, -1);
  int is_integer;
  lua_Integer n = lua_tointegerx(L, -1, &is_integer);
  if (!is_integer || n < 0)
    ltide_error(L, "ValueError", "loader: dataset: #dataset is %s, expected how many items there are",
                ltide_typename(L, -1));
  lua_pop(L, 2);
  return n;
}

static lua_Integer count_batches(const loader *o, lua_Integer size) {
  return size / o->batch_size + (!o->drop_last && size % o->batch_size != 0);
}

/* Pushes the numbers 1 to n in another order. */
static int64_t *push_shuffled(lua_State *L, ltide_state *S, lua_Integer n) {
  int64_t *order = ltide_new_object(L, (size_t)n * sizeof *order, 0);
  tide_generator *g = NULL;
  if (lua_getiuservalue(L, 1, LOADER_GENERATOR) != LUA_TNIL) g = ltide_check_generator(L, -1, "generator");
  ltide_tensor *u = ltide_new_tensor(L, S);
  tide_options o = {TIDE_INT64, TIDE_CPU, false};
  ltide_try(L, tide_randperm(&u->t, n, &o, g));
  ltide_try(L, tide_read(order, u->t));
  lua_pop(L, 2);
  return order;
}

static int lloader_iter(lua_State *L) {
  ltide_state *S = ltide_enter(L);
  ltide_no_options(L, 1);
  loader *o = check_loader(L);
  if (o->closed) return ltide_freed_error(L, "loader", "loader");
  lua_settop(L, 1);
  lua_Integer size = count_items(L, o);
  iteration *it = ltide_new_object(L, sizeof *it, ITERATION_ORDER);
  *it = (iteration){.o = *o, .size = size, .batches = count_batches(o, size)};
  ltide_setmetatable(L, ITERATION_META);
  lua_getiuservalue(L, 1, LOADER_DATASET);
  lua_setiuservalue(L, 2, ITERATION_DATASET);
  lua_getiuservalue(L, 1, LOADER_COLLATE);
  lua_setiuservalue(L, 2, ITERATION_COLLATE);
  lua_newtable(L);
  lua_setiuservalue(L, 2, ITERATION_BATCHES);
  if (o->shuffle && size) {
    it->order = push_shuffled(L, S, size);
    lua_setiuservalue(L, 2, ITERATION_ORDER);
  }
  pthread_mutex_init(&it->lock, NULL);
  pthread_cond_init(&it->changed, NULL);
  it->open = true;
  ltide_enter_again(L);
  ltide_try(L, ltide_loader_lane_open(&it->lane, &o->stream, o->device, o->prefetch));
  lua_pushnil(L);
  lua_pushnil(L);
  lua_pushvalue(L, 2);
  return 4;
}

/* {==== for batch in loader: Lua calls the loader itself with nil at first, then with the batch that it gave last. The
 * iteration of a loop is found by that batch, so that loops over one loader may stand in each other; the table of them
 * is weak, so that a loop that was broken off ends when its batch goes. A batch that is no object is found at `true`.
 */

/* Pushes the key of the batch at arg. */
static void push_pass_key(lua_State *L, int arg) {
  bool is_object = lua_istable(L, arg) || lua_type(L, arg) == LUA_TUSERDATA;
  if (is_object)
    lua_pushvalue(L, arg);
  else
    lua_pushboolean(L, 1);
}

static void push_passes(lua_State *L) {
  if (lua_getiuservalue(L, 1, LOADER_PASSES) == LUA_TTABLE) return;
  lua_pop(L, 1);
  lua_newtable(L);
  lua_createtable(L, 0, 1);
  lua_pushliteral(L, "k");
  lua_setfield(L, -2, "__mode");
  lua_setmetatable(L, -2);
  lua_pushvalue(L, -1);
  lua_setiuservalue(L, 1, LOADER_PASSES);
}

/* Pushes the iteration of the loop whose last batch is at 3, and forgets it: it is noted again with its next batch. */
static void take_pass(lua_State *L, int passes) {
  push_pass_key(L, 3);
  if (lua_rawget(L, passes) == LUA_TTABLE) {
    lua_rawgeti(L, -1, 2);
    if (!lua_rawequal(L, -1, 3) && lua_type(L, 3) != LUA_TTABLE && lua_type(L, 3) != LUA_TUSERDATA)
      lua_settop(L, passes);
  }
  if (!lua_istable(L, passes + 1))
    ltide_error(L, "StateError",
                "loader: got a batch that is not the last one of a loop over it, expected one; use loader:iter()");
  push_pass_key(L, 3);
  lua_pushnil(L);
  lua_rawset(L, passes);
  lua_rawgeti(L, passes + 1, 1);
  lua_replace(L, passes + 1);
  lua_settop(L, passes + 1);
}

static int lloader_call(lua_State *L) {
  ltide_enter(L);
  check_loader(L);
  lua_settop(L, 3);
  push_passes(L);
  int passes = lua_gettop(L), it = passes + 1;
  if (lua_isnil(L, 3)) {
    lua_pushcfunction(L, lloader_iter);
    lua_pushvalue(L, 1);
    lua_call(L, 1, 1);
  } else
    take_pass(L, passes);
  lua_pushvalue(L, it);
  lua_call(L, 0, 2);
  if (lua_isnil(L, -2)) return 1; /* the end: nil */
  if (lua_isnil(L, -1))
    return ltide_error(L, "ValueError", "loader: collate: got nil for a batch, expected a value; use loader:iter()");
  push_pass_key(L, lua_gettop(L));
  lua_createtable(L, 2, 0);
  lua_pushvalue(L, it);
  lua_rawseti(L, -2, 1);
  if (lua_isboolean(L, -2)) lua_pushvalue(L, it + 2), lua_rawseti(L, -2, 2);
  lua_rawset(L, passes);
  lua_insert(L, -2); /* the batch, then its number */
  return 2;
}

static int loader_gc(lua_State *L) {
  loader *o = ltide_test_object(L, 1, LOADER_META);
  if (!o) return 0;
  tide_stream_release(o->stream);
  o->stream = NULL, o->closed = true;
  return 0;
}

static int lloader_len(lua_State *L) {
  ltide_enter(L);
  const loader *o = check_loader(L);
  lua_pushinteger(L, count_batches(o, count_items(L, o)));
  return 1;
}

static lua_Integer opt_integer(lua_State *L, int opts, const char *key, lua_Integer otherwise, lua_Integer least,
                               lua_Integer most) {
  if (!opts) return otherwise;
  bool given = ltide_rawfield(L, opts, key) != LUA_TNIL;
  lua_Integer n = given ? ltide_check_integer(L, -1, key) : otherwise;
  lua_pop(L, 1);
  if (!given) return otherwise;
  if (n < least || n > most) ltide_error(L, "ValueError", "loader: %s: got %I, expected %I to %I", key, n, least, most);
  return n;
}

static int opt_device(lua_State *L, int opts) {
  if (!opts || ltide_rawfield(L, opts, "device") == LUA_TNIL) return TIDE_CPU;
  int device = ltide_check_device(L, -1, "device", LTIDE_CPU_OK);
  lua_pop(L, 1);
  return device;
}

/* Something with a length and items, or a function. */
static void check_dataset(lua_State *L) {
  bool fits = lua_type(L, 1) == LUA_TTABLE || lua_type(L, 1) == LUA_TFUNCTION;
  if (!fits && lua_type(L, 1) == LUA_TUSERDATA && luaL_getmetafield(L, 1, "__len") != LUA_TNIL) {
    lua_pop(L, 1);
    fits = luaL_getmetafield(L, 1, "__index") != LUA_TNIL;
    if (fits) lua_pop(L, 1);
  }
  if (!fits) ltide_arg_error(L, 1, "dataset", "what has #dataset and dataset[i], or a function with {size=}");
}

/* Notes the functions and objects of the options as user values of the loader at the top. */
static void note_objects(lua_State *L, int opts) {
  lua_pushvalue(L, 1);
  lua_setiuservalue(L, -2, LOADER_DATASET);
  if (!opts) return;
  if (ltide_rawfield(L, opts, "collate") != LUA_TNIL && !lua_isfunction(L, -1))
    ltide_arg_error(L, lua_gettop(L), "collate", "a function");
  lua_setiuservalue(L, -2, LOADER_COLLATE);
  tide_generator *g = ltide_opt_generator(L, opts);
  if (g && tide_generator_device(g) != TIDE_CPU)
    ltide_error(L, "DeviceError",
                "loader: generator: got one of cuda:%d, expected one of the cpu, which draws the order",
                tide_generator_device(g));
  ltide_rawfield(L, opts, "generator");
  lua_setiuservalue(L, -2, LOADER_GENERATOR);
}

static int lloader(lua_State *L) {
  static const char *const keys[] = {"batch_size", "shuffle",  "drop_last", "pin_memory", "collate",
                                     "generator",  "prefetch", "size",      "device",     NULL};
  ltide_enter(L);
  if (lua_gettop(L) > 2) return ltide_arg_error(L, 3, "argument", "a dataset and options, no more");
  lua_settop(L, 2);
  check_dataset(L);
  int opts = lua_isnil(L, 2) ? 0 : 2;
  if (opts && !lua_istable(L, 2)) return ltide_arg_error(L, 2, "options", "a table");
  ltide_check_keys(L, opts, keys);
  loader o = {.batch_size = opt_integer(L, opts, "batch_size", 1, 1, INT32_MAX),
              .prefetch = opt_integer(L, opts, "prefetch", 2, 0, MOST_AHEAD),
              .size = opt_integer(L, opts, "size", -1, 0, (lua_Integer)1 << 48),
              .shuffle = ltide_opt_boolean(L, opts, "shuffle", false),
              .drop_last = ltide_opt_boolean(L, opts, "drop_last", false),
              .pin_memory = ltide_opt_boolean(L, opts, "pin_memory", true) && tide_is_available(),
              .device = opt_device(L, opts)};
  if (o.size >= 0) ltide_loader_columns(L, o.size);
  if (lua_isfunction(L, 1) != (o.size >= 0))
    return ltide_error(L, "ArgumentError", "loader: size: got %s, expected %s", o.size < 0 ? "none" : "one",
                       o.size < 0 ? "how many items the function has" : "none, since the dataset tells its own");
  *(loader *)ltide_new_object(L, sizeof o, LOADER_PASSES) = o;
  ltide_setmetatable(L, LOADER_META);
  note_objects(L, opts);
  return 1;
}

/* {==== Registration */

static void new_meta(lua_State *L, const char *name, const luaL_Reg *meta) {
  ltide_newmetatable(L, name);
  luaL_setfuncs(L, meta, 0);
}

void ltide_open_loader(lua_State *L, ltide_state *S) {
  (void)S;
  static const luaL_Reg job[] = {{"__gc", job_gc}, {0}},
                        loader_meta[] = {{"__len", lloader_len}, {"__gc", loader_gc}, {"__call", lloader_call}, {0}},
                        iteration_meta[] = {
                            {"__call", iteration_call}, {"__gc", iteration_end}, {"__close", iteration_end}, {0}};
  static const ltide_reg methods[] = {
      {"iter", lloader_iter,
       "loader:iter() -> iterator\nfor i, batch in loader:iter() do ... end, with i "
       "from 1. Each call starts anew, with "
       "another order where the loader shuffles. `for batch, i in loader do` does the same, but what it has "
       "prepared stays until the collector comes where the loop is left early."},
      {0}};
  static const ltide_reg list[] = {
      {"loader", lloader,
       "tide.data.loader(dataset [, {batch_size=1, shuffle=false, drop_last=false, pin_memory=true, collate=, "
       "generator=, prefetch=2, size=, device=}]) -> loader\nBatches of what has #dataset and dataset[i], or of a "
       "function f(i) with {size=n}, or of the first n rows of a table of tensors with {size=n}, {X, Y} or {x=X, y=Y}: "
       "for i, batch in loader:iter(), or for batch in loader. #loader is how many. Tensors are stacked, numbers "
       "and booleans become a tensor, tables are walked by key, strings stay a list; collate(items) does it another "
       "way. Where there is a GPU the batches are in page-locked memory, but for a table with __gc or __close that "
       "collate gives: it stays what it is, and does not go with device=. With device= they come on that GPU, "
       "through a few pieces of page-locked memory and on a stream of the loader's own beside what the loop has "
       "queued; the loop's stream waits for the copy, the host while prefetch + 1 batches before it are still being "
       "used, and at most 2 * prefetch + 2 batches lie there; one that finds no room lies in host memory until it is "
       "given out. `prefetch` batches are prepared ahead on another thread, so an item, or what collate gives, must "
       "not be written to before its batch has come; an error of the dataset comes when the item is asked for."},
      {0}};
  new_meta(L, JOB_META, job);
  new_meta(L, ITERATION_META, iteration_meta);
  new_meta(L, LOADER_META, loader_meta);
  lua_newtable(L);
  ltide_register(L, "Loader", methods);
  lua_setfield(L, -2, "__index");
  lua_pop(L, 3);
  lua_newtable(L);
  ltide_register(L, "tide.data", list);
  lua_setfield(L, -2, "data");
}

/* host.c: a frame loop at 60 Hz that embeds Lua and tide.
 *
 *   host [script.lua [frames]]
 *
 * Everything of the script's runs on a stream of the host's own, beside which a renderer would use its streams: the
 * script's text when it is loaded, since what it makes there is used later, and its update(dt) in each frame. The
 * tensor that update returns is copied to pinned memory and read when an event says that it has arrived, some frames
 * later: the loop never waits for the GPU. A script that raises is reported and called again; one that changes on disk
 * is loaded again. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>

#include <lauxlib.h>
#include <lualib.h>

#include "tide/tide.h"
#include "tide/tide_lua.h"

typedef struct host {
  lua_State *L;
  const char *script;
  struct timespec loaded; /* the script's time stamp */
  tide_stream *stream;    /* NULL on a machine without a GPU */
  tide_tensor *landing;   /* pinned memory for the result under way */
  tide_event *arrived;
  bool under_way;
  double value;
  int errors, results, reloads;
} host;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static bool report(host *h, const char *what) {
  fprintf(stderr, "%s: %s\n", what, luaL_tolstring(h->L, -1, NULL));
  lua_settop(h->L, 0);
  h->errors++;
  return false;
}

/* Calls the function below its n arguments, which leaves `results` values: inside tide.cuda.stream(stream) where there
 * is a GPU, so that all of the script's work is in one stream, in order. */
static bool call(host *h, int n, int results, const char *what) {
  lua_State *L = h->L;
  if (h->stream) {
    lua_getglobal(L, "tide");
    lua_getfield(L, -1, "cuda");
    lua_getfield(L, -1, "stream");
    tide_lua_get(L)->push_stream(L, h->stream);
    lua_rotate(L, 1, 4); /* tide, tide.cuda, the block, the stream, then the function and its arguments */
    n += 2;
  }
  return lua_pcall(L, n, results, 0) == LUA_OK || report(h, what);
}

/* Loads the script if it is new or has changed. The old update stays when the new text does not load. */
static void load(host *h) {
  struct stat s;
  if (stat(h->script, &s) || (s.st_mtim.tv_sec == h->loaded.tv_sec && s.st_mtim.tv_nsec == h->loaded.tv_nsec)) return;
  h->loaded = s.st_mtim;
  h->reloads++;
  if (luaL_loadfile(h->L, h->script))
    report(h, "load");
  else
    call(h, 0, 0, "load");
  lua_settop(h->L, 0);
}

/* Queues the copy of a scalar result; the host's thread goes on at once. */
static void send_back(host *h, tide_tensor *result) {
  tide_tensor *flat = NULL;
  int64_t one = 1;
  if (h->under_way || tide_tensor_numel(result) != 1 || tide_view(&flat, result, &one, 1)) return;
  if (!h->landing) {
    tide_options o = tide_options_defaults();
    o.dtype = tide_tensor_dtype(result), o.device = TIDE_CPU, o.pin_memory = h->stream != NULL;
    if (tide_empty(&h->landing, &one, 1, &o)) fprintf(stderr, "result: %s\n", tide_error_get()->message);
  }
  if (h->landing && !tide_copy(h->landing, flat, true)) {
    h->under_way = true;
    if (h->stream) tide_event_record(h->arrived, h->stream);
  }
  tide_tensor_release(flat);
}

/* Reads the result if it has arrived. */
static void receive(host *h) {
  bool done = true;
  if (!h->under_way || (h->stream && (tide_event_query(&done, h->arrived) || !done))) return;
  h->value = *(const float *)tide_tensor_data(h->landing);
  h->under_way = false;
  h->results++;
}

static void update(host *h, double dt) {
  lua_State *L = h->L;
  if (lua_getglobal(L, "update") != LUA_TFUNCTION) {
    lua_settop(L, 0);
    return;
  }
  lua_pushnumber(L, dt);
  if (!call(h, 1, 1, "update")) return;
  tide_tensor *result = tide_lua_get(L)->to_tensor(L, -1);
  tide_current_bind(NULL); /* from here on the host's own device and streams */
  if (h->stream) tide_current_set_stream(h->stream);
  if (result) send_back(h, result);
  lua_settop(L, 0);
}

static bool open_host(host *h) {
  if (tide_init(NULL)) return false;
  if (tide_is_available() && (tide_stream_new(&h->stream, TIDE_CURRENT, 0) || tide_event_new(&h->arrived, 0)))
    return false;
  h->L = luaL_newstate();
  luaL_openlibs(h->L);
  lua_getglobal(h->L, "package");
  lua_pushliteral(h->L, HOST_LUA_CPATH);
  lua_setfield(h->L, -2, "cpath");
  lua_settop(h->L, 0);
  return luaL_dostring(h->L, "tide = require 'tide'") == LUA_OK || report(h, "require");
}

static void close_host(host *h) {
  if (h->L) lua_close(h->L);
  tide_tensor_release(h->landing);
  if (h->arrived) tide_event_release(h->arrived);
  if (h->stream) tide_stream_release(h->stream);
  tide_shutdown();
}

int main(int argc, char **argv) {
  host h = {.script = argc > 1 ? argv[1] : "game.lua"};
  int frames = argc > 2 ? atoi(argv[2]) : 600;
  if (!open_host(&h)) {
    fprintf(stderr, "cannot start: %s\n", tide_error_get()->message);
    return EXIT_FAILURE;
  }
  double worst = 0, sum = 0, next = now();
  for (int i = 0; i < frames; i++) {
    double start = now();
    load(&h);
    receive(&h);
    update(&h, 1.0 / 60);
    double spent = now() - start;
    sum += spent;
    if (i > 5 && spent > worst) worst = spent; /* the first frames open the device and load kernels */
    next += 1.0 / 60;
    double left = next - now();
    if (left > 0) nanosleep(&(struct timespec){0, (long)(left * 1e9)}, NULL);
  }
  if (h.under_way && h.stream) tide_event_synchronize(h.arrived); /* behind the last frame a host may wait */
  receive(&h);
  printf("%d frames on %s: %.3f ms of script a frame, worst %.3f ms; %d results read, the last %.6f; %d errors, %d "
         "loads\n",
         frames, h.stream ? "a GPU" : "the CPU", sum / frames * 1e3, worst * 1e3, h.results, h.value, h.errors,
         h.reloads);
  bool fine = h.results > 0 && isfinite(h.value) && h.value > 0 && h.errors == (frames >= 40);
  close_host(&h);
  return fine ? EXIT_SUCCESS : EXIT_FAILURE;
}

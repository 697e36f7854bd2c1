/* game.c: a game whose every frame a Lua script computes, on a GPU if there is one, and that loads the script again
 * when its file changes: the particles fly on, by new rules. What does not load, or raises, is printed, and the game
 * goes on with what it has.
 *
 *   game game.lua                              in a window; Escape ends it
 *   game game.lua --headless FOLDER            writes every tenth frame there, FOLDER/0010.png, ..., the same each time
 *   ... --frames N --device cpu|cuda|cuda:1    ends after N frames; computes there
 *
 * A frame never waits: the picture of one is read back while the next is drawn, and a device that has not finished one
 * does not get another. Scripts have no files, and half a second: one that hangs loses its frame, not the game. */
#include <dlfcn.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>

#include "screen.h"
#include "tide/tide.h"
#include "tide/tide_lua.h"

static const double RATE = 60;
enum { EVERY = 10, SECOND = 1000000, PATIENCE = SECOND / 2 };
enum { STALLED = 30 }; /* seconds without a frame, after which nobody waits for pictures */

typedef struct game {
  lua_State *L;
  const char *script, *folder, *device; /* folder NULL: in a window */
  long end;                             /* how many frames; 0: until the window is closed */
  struct timespec changed;              /* when the script was, that we know */
  char said[512];                       /* the last error, which is printed once */
  int loads, width, height;
  screen *screen;
  double x, y, still; /* the mouse, and for how many seconds nobody has moved it */
  tide_tensor *picture;
  tide_event *ready; /* of the picture that the device computes; NULL: none */
  long frames;       /* that have been shown */
  long particles;
  bool is_lost; /* the device: nothing comes from it any more */
} game;

static double seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* {==== The script */

/* Of an error that comes in each frame only the first is printed. */
static void say(game *g, const char *place, int line, const char *text) {
  char all[sizeof g->said];
  snprintf(all, sizeof all, "%s:%d: %s", place, line, text);
  if (!strcmp(all, g->said)) return;
  strcpy(g->said, all);
  printf("%s\n", all);
}

static void report(game *g) {
  tide_lua_error_info e;
  tide_lua_error(g->L, -1, &e);
  say(g, e.source, e.line, e.message);
  lua_pop(g->L, 1);
}

/* The text of the script if it is new; the caller frees it. An editor that writes a file in place
 * empties it first. */
static char *read_changed(game *g, size_t *size) {
  struct stat now;
  if (stat(g->script, &now) || !now.st_size || !memcmp(&now.st_mtim, &g->changed, sizeof g->changed)) return NULL;
  FILE *file = fopen(g->script, "rb");
  char *text = file ? malloc((size_t)now.st_size) : NULL;
  *size = text ? fread(text, 1, (size_t)now.st_size, file) : 0;
  if (file) fclose(file);
  g->changed = now.st_mtim;
  return text;
}

static void load(game *g) {
  size_t size;
  char *text = read_changed(g, &size);
  if (!text) return;
  g->said[0] = 0;
  tide_lua_quota_set(g->L, TIDE_QUOTA_MICROSECONDS, 10 * SECOND); /* the first time every tensor is made */
  if (tide_lua_reload(g->L, "game", text, size) == LUA_OK) {
    lua_setfield(g->L, LUA_REGISTRYINDEX, "game");
    printf("frame %ld: loaded %s%s\n", g->frames, g->script, g->loads++ ? " again" : "");
  } else {
    report(g);
  }
  free(text);
}

/* Pushes what the script has given of that name, or nil: its type. Raw, since no lua_pcall is around a metamethod. */
static int push(lua_State *L, const char *name) {
  if (lua_getfield(L, LUA_REGISTRYINDEX, "game") != LUA_TTABLE) return lua_pushnil(L), LUA_TNIL;
  lua_pushstring(L, name);
  return lua_rawget(L, -2);
}

static int integer_of(game *g, const char *name) {
  int value = push(g->L, name) == LUA_TNUMBER ? (int)lua_tointeger(g->L, -1) : 0;
  lua_settop(g->L, 0);
  return value;
}

/* Has the script compute a frame, and asks for its picture. used: of the last frame's time; negative: the script is to
 * keep its size. */
static void compute(game *g, double x, double y, double used) {
  lua_State *L = g->L;
  tide_frame_options o = {sizeof o, 12000, 1000, TIDE_FRAME_WAIT_RAISES, 0};
  tide_lua_quota_set(L, TIDE_QUOTA_MICROSECONDS, PATIENCE);
  if (push(L, "update") != LUA_TFUNCTION || !tide_frame_begin(L, &o)) {
    say(g, g->script, 0, "it gives no function update");
    lua_settop(L, 0);
    return;
  }
  lua_pushnumber(L, 1 / RATE);
  lua_pushnumber(L, x);
  lua_pushnumber(L, y);
  lua_pushnumber(L, (x - g->x) * RATE);
  lua_pushnumber(L, (y - g->y) * RATE);
  if (used < 0)
    lua_pushnil(L);
  else
    lua_pushnumber(L, used);
  int status = tide_frame_call(L, 6, 2);
  if (status > LUA_YIELD) {
    report(g);
  } else if (status == LUA_OK) {
    g->particles = (long)lua_tointeger(L, -1);
    if (tide_lua_readback(&g->picture, &g->ready, L, -2)) printf("%s\n", tide_error_get()->message);
  }
  tide_frame_end(L, NULL);
  lua_settop(L, 0);
  g->x = x, g->y = y;
}

static bool open_script(game *g) {
  void *module = dlopen(TIDE_MODULE, RTLD_NOW);
  g->L = luaL_newstate();
  if (!module || !g->L || tide_init(NULL)) return printf("game: %s\n", module ? "no tide" : dlerror()), false;
  luaL_requiref(g->L, LUA_GNAME, luaopen_base, 1), luaL_requiref(g->L, LUA_MATHLIBNAME, luaopen_math, 1);
  tide_lua_options options = tide_lua_defaults();
  options.capabilities = TIDE_LUA_WAITS; /* while they load; in a frame nothing waits */
  options.open = (lua_CFunction)dlsym(module, "luaopen_tide");
  options.device = g->device ? g->device : tide_is_available() ? "cuda" : "cpu";
  options.quota[TIDE_QUOTA_HOST_BYTES] = options.quota[TIDE_QUOTA_DEVICE_BYTES] = (int64_t)1 << 30;
  if (tide_lua_open(g->L, &options) != LUA_OK) return report(g), false;
  lua_setglobal(g->L, "tide");
  load(g);
  if (!g->changed.tv_sec) printf("%s: %s\n", g->script, strerror(errno));
  g->width = integer_of(g, "width"), g->height = integer_of(g, "height");
  if (g->loads && (g->width < 1 || g->height < 1)) printf("%s: no width and height\n", g->script);
  return g->width > 0 && g->height > 0;
}

/* {==== Pictures */

static void release_picture(game *g) {
  tide_tensor_release(g->picture), tide_event_release(g->ready);
  g->picture = NULL, g->ready = NULL;
}

static void save(game *g) {
  char path[4096];
  tide_tensor *bytes = NULL, *image = NULL;
  const int64_t *shape = tide_tensor_size(g->picture), size[] = {shape[0], shape[1], 4};
  snprintf(path, sizeof path, "%s/%04ld.png", g->folder, g->frames);
  if (tide_view_dtype(&bytes, g->picture, TIDE_UINT8) || tide_view(&image, bytes, size, 3) ||
      tide_png_save(path, image))
    printf("%s\n", tide_error_get()->message);
  tide_tensor_release(image), tide_tensor_release(bytes);
}

/* Shows the picture that was asked for, if nothing has failed on its way. false: the device has not finished it. */
static bool show(game *g, const char *title) {
  bool done = false;
  if (!g->picture) return true;
  if (tide_readback_poll(&done, g->ready)) {
    const tide_error *e = tide_error_get();
    g->is_lost = e->sticky;
    printf("%s\n", e->message);
    release_picture(g);
    return true;
  }
  if (!done) return false;
  const int64_t *size = tide_tensor_size(g->picture);
  bool is_picture =
      tide_tensor_ndim(g->picture) == 2 && tide_tensor_dtype(g->picture) == TIDE_INT32 && size[0] && size[1];
  g->frames++;
  if (!is_picture) say(g, g->script, 0, "the picture is not int32 [height, width]");
  if (is_picture && g->screen) screen_show(g->screen, tide_tensor_data(g->picture), (int)size[1], (int)size[0], title);
  if (is_picture && g->folder && g->frames % EVERY == 0) save(g);
  release_picture(g);
  return true;
}

/* {==== The loop */

/* A figure, where there is no mouse or nobody moves it. */
static void wander(long frame, double *x, double *y) {
  double t = (double)frame / RATE;
  *x = 0.6 * sin(1.3 * t), *y = 0.6 * sin(1.9 * t + 1);
}

static bool steer(game *g, double *x, double *y) {
  static double seen_x, seen_y;
  if (g->screen) {
    if (!screen_mouse(g->screen, x, y)) return false;
    g->still = *x == seen_x && *y == seen_y ? g->still + 1 / RATE : 0;
    seen_x = *x, seen_y = *y;
    if (g->still < 2) return true;
  }
  wander(g->frames, x, y);
  return true;
}

/* Until the next frame is due; one that is late begins anew. */
static void rest(double *due) {
  double now = seconds();
  *due += 1 / RATE;
  if (*due < now - 0.1) *due = now;
  struct timespec t = {(time_t)*due, (long)((*due - (double)(time_t)*due) * 1e9)};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR) {}
}

static void run(game *g) {
  double begin = seconds(), due = begin, reported = begin, used = 0, x, y, work = 0;
  long reported_frames = 0;
  char title[200] = "";
  while (!g->end || g->frames < g->end) {
    double start = seconds();
    long n = g->frames - reported_frames;
    if (start - reported >= 1 && n > 0) {
      snprintf(title, sizeof title, "%.1f frames/s, %ld particles, %.1f ms a frame", (double)n / (start - reported),
               g->particles, 1e3 * work / (double)n);
      printf("%s\n", title);
      reported = start, reported_frames = g->frames, work = 0;
    }
    load(g);
    if (!steer(g, &x, &y) || (g->folder && start - reported > STALLED)) break;
    bool late = !show(g, title[0] ? title : NULL);
    if (g->is_lost) break;
    if (!late) compute(g, x, y, g->folder ? -1 : used);
    double took = seconds() - start;
    used = late ? 1 : took * RATE;
    work += took;
    rest(&due);
  }
  double took = seconds() - begin;
  printf("%ld frames in %.1f s, %.1f a second; %ld particles, %d loads\n", g->frames, took, (double)g->frames / took,
         g->particles, g->loads);
}

static bool parse(game *g, int argc, char **argv) {
  for (int i = 1; i < argc; i++) {
    const char *value = i + 1 < argc ? argv[i + 1] : "";
    if (!strcmp(argv[i], "--headless"))
      g->folder = value, i++;
    else if (!strcmp(argv[i], "--device"))
      g->device = value, i++;
    else if (!strcmp(argv[i], "--frames"))
      g->end = atol(value), i++;
    else
      g->script = argv[i];
  }
  if (g->folder && !g->end) g->end = 600;
  return g->script;
}

int main(int argc, char **argv) {
  game g = {0};
  setvbuf(stdout, NULL, _IOLBF, 0);
  if (!parse(&g, argc, argv)) return printf("usage: game SCRIPT [--headless FOLDER] [--frames N] [--device NAME]\n"), 2;
  bool open = open_script(&g);
  if (open && !g.folder) open = (g.screen = screen_open(g.width, g.height));
  if (open) run(&g);
  screen_close(g.screen);
  release_picture(&g);
  if (g.L) lua_close(g.L);
  tide_shutdown();
  return open && g.frames >= (g.folder ? g.end : 1) ? EXIT_SUCCESS : EXIT_FAILURE;
}

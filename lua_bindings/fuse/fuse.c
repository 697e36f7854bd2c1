/* fuse.c: tide.fuse: functions whose operations are done by few kernels.
 *
 * A call runs the function. Inside, operations give tensors whose values are pending (tide/fuse.h); what needs values
 * computes them, and the function's results are computed together when it returns. So the function may do anything.
 *
 * The coroutine's record counts the fused functions that it is in. The object's user value is the function; the object
 * itself is closed when a call ends, whatever ends it. */
#include "tide/fuse.h"

#include <stdlib.h>

#include "call/row.h"
#include "call/scope.h"
#include "fuse.h"
#include "call/collector.h"

#define FUSED_META "tide.Fused"

typedef struct fuse_function {
  tide_fuse_kernel **kernel; /* what the last call ran, each with a reference */
  int kernels;
  bool called;
  char name[64], where[120];
} fuse_function;

static fuse_function *check_fused(lua_State *L, int arg) {
  fuse_function *f = ltide_test_meta(L, arg, ltide_fuse_of(ltide_enter(L))->meta);
  return f ? f : (fuse_function *)ltide_check_object(L, arg, FUSED_META); /* which raises */
}

static void drop_kernels(fuse_function *f) {
  for (int i = 0; i < f->kernels; i++) tide_fuse_kernel_release(f->kernel[i]);
  free(f->kernel);
  f->kernel = NULL, f->kernels = 0;
}

static int fused_gc(lua_State *L) {
  fuse_function *f = ltide_test_object(L, 1, FUSED_META);
  if (f) drop_kernels(f);
  return 0;
}

/* {==== Operations inside: move.c, index.c and scatter.c call these where S->is_fusing is set */

bool ltide_fuse_cast(lua_State *L, ltide_state *S, tide_tensor **out, tide_tensor *x, const tide_options *o,
                     bool copy) {
  bool done = false;
  if (o->device != tide_tensor_device(x) || o->pin_memory || copy || o->dtype == TIDE_DTYPE_NONE) return false;
  ltide_try(L, tide_fuse_cast(&done, out, ltide_fuse_of(S)->pending, x, o->dtype));
  return done;
}

bool ltide_fuse_gather(lua_State *L, ltide_state *S, tide_tensor **out, const tide_tensor *x, const tide_tensor *index,
                       int dim, int places) {
  const char *file = NULL;
  bool done;
  int line = ltide_line(L, &file);
  ltide_try(L, tide_fuse_gather(&done, out, ltide_fuse_of(S)->pending, x, index, dim, places, file, line));
  return done;
}

/* {==== Calls */

enum { RESULTS = 128, DEEP = 4 };

typedef struct result_list {
  tide_tensor *x[RESULTS];
  int n;
} result_list;

/* The tensors there, in tables too. Those that are missed stay pending. */
static void collect(lua_State *L, ltide_state *S, int at, int depth, result_list *list) {
  const ltide_tensor *u = ltide_test_handle(L, S, at);
  if (u && u->t && list->n < RESULTS && tide_tensor_is_pending(u->t)) list->x[list->n++] = u->t;
  if (u || depth == DEEP || !lua_istable(L, at) || !lua_checkstack(L, 4)) return;
  int top = lua_gettop(L), steps = 0;
  for (lua_pushnil(L); steps++ < RESULTS && lua_next(L, at); lua_settop(L, top + 1))
    collect(L, S, top + 2, depth + 1, list);
  lua_settop(L, top);
}

/* What the call ran, of many the first. */
static void note_kernels(fuse_function *f, const tide_fuse *fuse) {
  enum { MOST = 64 };
  tide_fuse_kernel *ran[MOST];
  int n = tide_fuse_trace(ran, MOST, fuse);
  f->called = true;
  if (n > MOST) n = MOST;
  if (n == f->kernels && (!n || !memcmp(ran, f->kernel, (size_t)n * sizeof *ran))) return;
  drop_kernels(f);
  f->kernel = malloc((size_t)(n ? n : 1) * sizeof *ran);
  for (int i = 0; i < n && f->kernel; i++) tide_fuse_kernel_retain(f->kernel[i] = ran[i]);
  if (f->kernel) f->kernels = n;
}

static void leave(ltide_state *S) {
  if (S->record->fusing) S->record->fusing--;
  S->is_fusing = S->record->fusing > 0;
}

/* Pushes the function; the operations of the coroutine are pending from now on. */
static ltide_state *enter(lua_State *L) {
  ltide_state *S = ltide_begin(L);
  struct ltide_fuse_part *part = ltide_fuse_of(S);
  check_fused(L, 1);
  if (!part->pending) ltide_try(L, tide_fuse_new(&part->pending, "fuse"));
  luaL_checkstack(L, 8, "tide.fuse");
  lua_getiuservalue(L, 1, 1);
  ltide_enter_again(L);
  if (!S->record->fusing) tide_fuse_trace_begin(part->pending);
  S->record->fusing++, S->is_fusing = true;
  return S;
}

/* The results are behind the object, at first .. top. Those of a function that another one has called stay pending. */
static int finish(lua_State *L, bool is_outer, int first) {
  ltide_state *S = ltide_enter(L);
  struct ltide_fuse_part *part = ltide_fuse_of(S);
  int top = lua_gettop(L);
  result_list list; /* a KiB, mostly unused: not cleared */
  list.n = 0;
  for (int i = first; i <= top && is_outer; i++) collect(L, S, i, 0, &list);
  if (list.n) ltide_try(L, tide_fuse_compute(part->pending, list.x, list.n));
  if (is_outer) note_kernels(check_fused(L, 1), part->pending);
  ltide_made(L, S);
  return top - first + 1;
}

#if LUA_VERSION_NUM == 504

static int fused_close(lua_State *L) {
  ltide_state *S = ltide_enter(L);
  if (ltide_test_meta(L, 1, ltide_fuse_of(S)->meta)) leave(S);
  return 0;
}

static int end_call(lua_State *L, int status, lua_KContext unused) {
  return finish(L, ltide_enter(L)->record->fusing == 1, 2);
}

static int lfused_call(lua_State *L) {
  int top = lua_gettop(L);
  enter(L);
  lua_insert(L, 2);
  lua_toclose(L, 1);
  lua_callk(L, top - 1, LUA_MULTRET, 0, end_call);
  return end_call(L, LUA_OK, 0);
}

static void set_call(lua_State *L) { (void)L; }

#else

/* There a C function cannot be yielded through, and a function of Lua calls. */
static const char call_text[] = "local begin, finish, pcall = ... "
                                "return function(f, ...) return finish(f, pcall(begin(f), ...)) end";

static int lfused_begin(lua_State *L) { return enter(L), 1; }

static int lfused_finish(lua_State *L) {
  bool is_outer = ltide_enter(L)->record->fusing == 1;
  leave(ltide_enter(L));
  if (!lua_toboolean(L, 2)) return lua_settop(L, 3), lua_error(L);
  return finish(L, is_outer, 3);
}

/* Where a host has opened no pcall. */
static int plain_pcall(lua_State *L) {
  int status = lua_pcall(L, lua_gettop(L) - 1, LUA_MULTRET, 0);
  lua_pushboolean(L, status == LUA_OK);
  lua_insert(L, 1);
  return lua_gettop(L);
}

static void set_call(lua_State *L) {
  luaL_getmetatable(L, FUSED_META);
  if (luaL_loadbuffer(L, call_text, sizeof call_text - 1, "=[tide fuse]") != LUA_OK) lua_error(L);
  lua_pushcfunction(L, lfused_begin), lua_pushcfunction(L, lfused_finish);
  lua_getglobal(L, "pcall");
  if (!lua_isfunction(L, -1)) lua_pop(L, 1), lua_pushcfunction(L, plain_pcall);
  lua_call(L, 3, 1);
  lua_setfield(L, -2, "__call");
  lua_pop(L, 1);
}

#endif

/* {==== Making */

static const char unnamed[] = "a function";

static void name_function(lua_State *L, fuse_function *f, int fn) {
  lua_Debug ar;
  lua_pushvalue(L, fn);
  lua_getinfo(L, ">S", &ar);
  if (ar.what[0] != 'C') snprintf(f->where, sizeof f->where, "%s:%d", ar.short_src, ar.linedefined);
  snprintf(f->name, sizeof f->name, "%s", unnamed);
}

static int lfuse(lua_State *L, ltide_call *c) {
  const ltide_value *name = ltide_get(L, c, "name");
  int fn = c->v[0].at;
  fuse_function *f = ltide_new_object(L, sizeof *f, 1);
  memset(f, 0, sizeof *f);
  ltide_setmetatable(L, FUSED_META);
  name_function(L, f, fn);
  if (name->given) snprintf(f->name, sizeof f->name, "%s", name->text);
  lua_pushvalue(L, fn);
  lua_setiuservalue(L, -2, 1);
  return 1;
}

/* {==== What the last call ran */

static int lfused_ready(lua_State *L, ltide_call *c) {
  const fuse_function *f = check_fused(L, 1);
  bool ready = f->called;
  for (int i = 0; i < f->kernels; i++) {
    tide_fuse_kernel_info k;
    tide_fuse_kernel_get(&k, f->kernel[i]);
    if (k.fused && !tide_fused_problem(k.fused)) ready = tide_fused_ready(k.fused) && ready;
  }
  return lua_pushboolean(L, ready), 1;
}

static int lfused_wait(lua_State *L, ltide_call *c) {
  const fuse_function *f = check_fused(L, 1);
  for (int i = 0; i < f->kernels; i++) {
    tide_fuse_kernel_info k;
    tide_fuse_kernel_get(&k, f->kernel[i]);
    if (k.fused) ltide_try(L, tide_fused_wait(k.fused));
  }
  lua_settop(L, 1);
  return 1;
}

static void push_kernel(lua_State *L, const tide_fuse_kernel *kernel) {
  tide_fuse_kernel_info k;
  tide_fuse_kernel_get(&k, kernel);
  lua_createtable(L, 0, 8);
  lua_createtable(L, k.operations, 0);
  for (int i = 0; i < k.operations; i++) lua_pushstring(L, k.operation[i]), lua_rawseti(L, -2, i + 1);
  lua_setfield(L, -2, "operations");
  ltide_set_integer(L, "reads", k.reads);
  ltide_set_integer(L, "writes", k.writes);
  ltide_set_integer(L, "bytes", k.bytes);
  ltide_set_integer(L, "elements", k.elements);
  lua_pushboolean(L, k.fused ? tide_fused_ready(k.fused) : k.operations == 1);
  lua_setfield(L, -2, "ready");
  lua_pushstring(L, k.fused ? tide_fused_problem(k.fused) : NULL);
  lua_setfield(L, -2, "problem");
}

static int lfused_kernels(lua_State *L, ltide_call *c) {
  const fuse_function *f = check_fused(L, 1);
  lua_createtable(L, f->kernels, 0);
  for (int i = 0; i < f->kernels; i++) push_kernel(L, f->kernel[i]), lua_rawseti(L, -2, i + 1);
  return 1;
}

static const char *state_of(const tide_fuse_kernel_info *k) {
  if (k->operations == 1) return "";
  if (!k->fused) return ", its operations one by one";
  if (tide_fused_problem(k->fused)) return ", its operations one by one, since the compiler failed";
  return tide_fused_ready(k->fused) ? "" : ", being compiled";
}

static void push_explanation(lua_State *L, const fuse_function *f) {
  luaL_Buffer b;
  luaL_buffinit(L, &b);
  lua_pushfstring(L, "%s%s%s%s: ", f->name, *f->where ? " (" : "", f->where, *f->where ? ")" : "");
  luaL_addvalue(&b);
  if (!f->called)
    luaL_addstring(&b, "not called yet");
  else
    lua_pushfstring(L, "the last call ran %d kernel%s", f->kernels, f->kernels == 1 ? "" : "s"), luaL_addvalue(&b);
  for (int i = 0; i < f->kernels; i++) {
    tide_fuse_kernel_info k;
    tide_fuse_kernel_get(&k, f->kernel[i]);
    lua_pushfstring(L, "\n  %d.", i + 1), luaL_addvalue(&b);
    for (int n = 0; n < k.operations; n++) luaL_addchar(&b, ' '), luaL_addstring(&b, k.operation[n]);
    lua_pushfstring(L, ": reads %d, writes %d, %I bytes an element%s", k.reads, k.writes, (LUAI_UACINT)k.bytes,
                    state_of(&k));
    luaL_addvalue(&b);
  }
  luaL_pushresult(&b);
}

static int lfused_explain(lua_State *L, ltide_call *c) {
  const fuse_function *f = check_fused(L, 1);
  lua_getglobal(L, "print");
  if (!lua_isfunction(L, -1)) return 0;
  push_explanation(L, f);
  lua_call(L, 1, 0);
  return 0;
}

#include <rows/fuse.inc>

#include <rows/fuse_fused.inc>

static int fused_tostring(lua_State *L) {
  const fuse_function *f = check_fused(L, 1);
  bool named = strcmp(f->name, unnamed) != 0 || !*f->where;
  return lua_pushfstring(L, "tide.fuse(%s)", named ? f->name : f->where), 1;
}

void ltide_open_fuse(lua_State *L, ltide_state *S) {
  static const luaL_Reg meta[] = {
    {"__gc", fused_gc},
#if LUA_VERSION_NUM == 504
    {"__close", fused_close},
    {"__call", lfused_call},
#endif
    {"__tostring", fused_tostring},
    {0}
  };
  ltide_new_class(L, FUSED_META, meta, "Fused", fuse_fused_rows, NULL);
  luaL_getmetatable(L, FUSED_META);
  ltide_fuse_of(S)->meta = lua_topointer(L, -1);
  lua_pop(L, 1);
  set_call(L);
  ltide_register_rows(L, "tide", fuse_rows);
}

LTIDE_PART_SIZE(fuse)

void ltide_fuse_end(ltide_state *S) {
  struct ltide_fuse_part *part = ltide_fuse_of(S);
  tide_fuse_free(part->pending);
  part->pending = NULL;
}

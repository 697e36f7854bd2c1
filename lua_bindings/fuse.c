/* fuse.c: tide.fuse: functions whose operations are done by few kernels.
 *
 * An object of this class holds the function and what it has shown, a record for each structure of its arguments
 * (fuse_record.c, fuse_plan.c). A call looks for one whose guards hold (fuse_guard.c), the one that served last first;
 * its steps do the function's work. Where none holds, the function runs and is recorded. LuaJIT does not tell what a
 * function calls; there it runs each time.
 *
 * The first user value of the object is a table: the function at 1, and for each record, under its address, a table of
 * what it refers to. */
#include "fuse.h"

#include <stdlib.h>

#define RECORDER_META "tide.Fused.recorder"

static fuse_function *check_fused(lua_State *L, int arg) {
  return (fuse_function *)ltide_check_object(L, arg, FUSED_META);
}

static void drop_records(fuse_function *f) {
  while (f->records) {
    fuse_record *p = f->records;
    f->records = p->next;
#if LUA_VERSION_NUM == 504
    fuse_record_free(p);
#endif
  }
  f->count = 0;
}

static int fused_gc(lua_State *L) {
  fuse_function *f = ltide_test_object(L, 1, FUSED_META);
  if (f) drop_records(f);
  return 0;
}

enum { VAIN = 12, AGAIN = 64 };
/* Has the last call run the function without a look at what it did? */
static bool is_changing(const fuse_function *f) { return f->changes > VAIN && f->changes % AGAIN != 0; }

/* Puts the function in the object's place, and calls it with the arguments. */
static int end_plain(lua_State *L, int status, lua_KContext unused) {
  (void)status, (void)unused;
  return lua_gettop(L);
}

static int call_plain(lua_State *L, int top) {
  lua_settop(L, top);
  lua_getiuservalue(L, 1, 1);
  lua_rawgeti(L, -1, 1);
  lua_replace(L, 1);
  lua_settop(L, top);
  lua_callk(L, top - 1, LUA_MULTRET, 0, end_plain);
  return end_plain(L, LUA_OK, 0);
}

#if LUA_VERSION_NUM == 504

/* {==== Recording */

static int recorder_close(lua_State *L) {
  fuse_recorder *r = ltide_test_object(L, 1, RECORDER_META);
  if (!r || !r->record) return 0;
  if (r->S->recorder == r) {
    fuse_decline(r, "it has failed");
    fuse_record_end(r, L);
  }
  fuse_record_free(r->record);
  r->record = NULL;
  return 0;
}

static fuse_record *new_record(lua_State *L) {
  fuse_record *p = calloc(1, sizeof *p);
  if (p) p->guard = calloc(FUSE_GUARDS, sizeof *p->guard), p->input = calloc(FUSE_INPUTS, sizeof *p->input);
  if (p && p->guard && p->input) return p;
  fuse_record_free(p);
  ltide_error(L, "OutOfMemoryError", "fuse: no host memory");
  return NULL;
}

static void warn_once(lua_State *L, fuse_function *f, const char *why) {
  if (f->warned) return;
  f->warned = true;
  ltide_warn(L, "tide.fuse: %s%s%s%s runs each time: %s", f->name, *f->where ? " (" : "", f->where,
             *f->where ? ")" : "", why);
}

/* The oldest gives place to a new one. `table`: the object's. */
static void add_record(lua_State *L, fuse_function *f, fuse_record *p, int table, int refs) {
  fuse_record **last = &f->records;
  while (*last && (*last)->next) last = &(*last)->next;
  if (f->count == FUSE_RECORDS) {
    lua_pushnil(L);
    lua_rawsetp(L, table, *last);
    fuse_record_free(*last);
    *last = NULL, f->count--;
  }
  lua_pushvalue(L, refs);
  lua_rawsetp(L, table, p);
  p->next = f->records, f->records = p, f->count++;
}

enum { RECORDER = 0, REFS, IDS, NAMES, TABLE, FUNCTION, PLACES }; /* on the stack behind the arguments */

static int end_recording(lua_State *L, int status, lua_KContext top) {
  int at = (int)top + 1, first = at + PLACES;
  fuse_recorder *r = lua_touserdata(L, at + RECORDER);
  fuse_function *f = lua_touserdata(L, 1);
  fuse_record *p = r->record;
  (void)status;
  ltide_enter_again(L);
  int results = lua_gettop(L);
  luaL_checkstack(L, 64, "tide.fuse");
  fuse_record_end(r, L);
  if (!p->eager) fuse_guards_check(r, 2);
  if (!p->eager) fuse_plan(r, f->label, first, results);
  lua_settop(L, results);
  p->slots = r->slots;
  add_record(L, f, p, at + TABLE, at + REFS); /* may raise: the recorder's until then */
  r->record = NULL;
  if (p->eager) warn_once(L, f, p->why);
  return results - first + 1;
}

static void push_recorder(lua_State *L, ltide_state *S, int top) {
  fuse_recorder *r = ltide_new_object(L, sizeof *r, 0);
  memset(r, 0, sizeof *r);
  ltide_setmetatable(L, RECORDER_META);
  r->L = L, r->S = S;
  r->record = new_record(L);
  r->record->args = top - 1;
  lua_toclose(L, -1);
}

/* A coroutine that has been left in the middle may never go on. */
static int record(lua_State *L, ltide_state *S, int top) {
  lua_settop(L, top);
  if (S->recorder) {
    fuse_decline(S->recorder, "another function was noted in the middle of it");
    fuse_record_end(S->recorder, L);
  }
  luaL_checkstack(L, top + 64, "tide.fuse");
  push_recorder(L, S, top);
  fuse_recorder *r = lua_touserdata(L, -1);
  lua_newtable(L);
  r->refs = lua_gettop(L);
  lua_newtable(L);
  r->ids = lua_gettop(L);
  lua_createtable(L, 0, 1);
  lua_pushliteral(L, "k");
  lua_setfield(L, -2, "__mode");
  lua_setmetatable(L, -2);
  lua_newtable(L);
  r->names = lua_gettop(L);
  lua_getiuservalue(L, 1, 1);
  lua_rawgeti(L, -1, 1);
  fuse_guards_note(r, lua_gettop(L), 2, top);
  lua_settop(L, top + PLACES);
  lua_pushvalue(L, -1);
  for (int i = 2; i <= top; i++) lua_pushvalue(L, i);
  ltide_enter_again(L);
  if (!r->record->eager) fuse_record_begin(r);
  lua_callk(L, top - 1, LUA_MULTRET, top, end_recording);
  return end_recording(L, LUA_OK, top);
}

/* {==== Calls */

/* Of the record that served last, and no longer does. `table`: the object's. */
static void note_changing(lua_State *L, fuse_function *f, int table) {
  int top = lua_gettop(L);
  const fuse_record *p = f->records;
  const fuse_guard *g = p && p->failed < p->guards ? &p->guard[p->failed] : NULL;
  lua_rawgetp(L, table, p);
  const char *what = g ? fuse_guard_what(L, g, top + 1) : "what it can see", *how = "is another";
  if (g && g->want == FUSE_TENSOR) how = "has other sizes, or is of another dtype or device,";
  snprintf(f->changing, sizeof f->changing, "%s %s at each call%s", what, how,
           g && g->type == LUA_TNUMBER ? "; numbers that change may be tensors without dimensions" : "");
  lua_settop(L, top);
}

/* What changes at each call is not worth to be noted at each. `table`: the object's. */
static bool is_worth_recording(lua_State *L, fuse_function *f, int table) {
  f->changes++;
  if (!is_changing(f)) return true;
  note_changing(L, f, table);
  warn_once(L, f, f->changing);
  return false;
}

static int lfused_call(lua_State *L) {
  ltide_state *S = ltide_begin(L);
  fuse_function *f = check_fused(L, 1);
  int top = lua_gettop(L);
  if ((S->recorder && S->recorder->L == L) || fuse_is_followed(L, S)) return call_plain(L, top);
  ltide_tensor *handles[FUSE_INPUTS];
  fuse_record *other = NULL; /* differs in numbers alone */
  bool may_follow = false;
  f->alone = FUSE_NOT_ALONE;
  lua_getiuservalue(L, 1, 1);
  for (fuse_record **at = &f->records, *p; (p = *at); at = &p->next) {
    bool differs = false;
    if (p->args != top - 1) continue;
    lua_settop(L, top + 1);
    luaL_checkstack(L, p->slots + 16, "tide.fuse");
    lua_rawgetp(L, top + 1, p);
    if (!fuse_guards_hold(L, S, p, top + 2, 2, handles, p->trace && !other ? &differs : NULL)) continue;
    if (differs) {
      other = p, may_follow = fuse_may_follow(L, S, p, handles);
      continue;
    }
    f->changes = 0;
    if (*at != f->records) *at = p->next, p->next = f->records, f->records = p;
    if (p->followed) fuse_put_back_numbers(L, p);
    int n = p->eager ? -1 : fuse_run(L, S, p, top + 2, top + 2);
    return n < 0 ? call_plain(L, top) : n;
  }
  if (other && !f->strayed && !is_changing(f)) {
    int n = may_follow ? fuse_follow(L, S, f, other, top) : -1;
    if (n >= 0) return n;
    f->alone = FUSE_SMALL;
    return call_plain(L, top);
  }
  f->strayed = false;
  return is_worth_recording(L, f, top + 1) ? record(L, S, top) : call_plain(L, top);
}

#else

tide_status ltide_fuse_elementwise(lua_State *L, ltide_state *S, tide_tensor **out, tide_op op, const tide_operand *in,
                                   const tide_scalar *p, tide_tensor *into) {
  (void)L, (void)S;
  return tide_elementwise(out, op, in, p, into);
}

tide_status ltide_fuse_reduce(lua_State *L, ltide_state *S, tide_tensor **out, tide_reduction op, const tide_tensor *x,
                              const tide_reduce_options *o) {
  (void)L, (void)S;
  return tide_reduce(out, op, x, o, NULL);
}

void ltide_fuse_note_reduction(lua_State *L, ltide_state *S, tide_reduction op, const tide_tensor *x,
                               const tide_reduce_options *o) {
  (void)L, (void)S, (void)op, (void)x, (void)o;
}

bool ltide_fuse_cast(lua_State *L, ltide_state *S, tide_tensor **out, tide_tensor *x, const tide_options *o,
                     bool copy) {
  (void)L, (void)S, (void)out, (void)x, (void)o, (void)copy;
  return false;
}

void ltide_fuse_note_gather(lua_State *L, ltide_state *S, const tide_tensor *x, const tide_tensor *index, int dim,
                            int places) {
  (void)L, (void)S, (void)x, (void)index, (void)dim, (void)places;
}

static int lfused_call(lua_State *L) {
  ltide_begin(L);
  check_fused(L, 1);
  return call_plain(L, lua_gettop(L));
}

#endif

/* {==== Making */

static const char unnamed[] = "a function";

static void name_function(lua_State *L, fuse_function *f, int fn) {
  lua_Debug ar;
  lua_pushvalue(L, fn);
  lua_getinfo(L, ">S", &ar);
  f->line = ar.linedefined;
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
  snprintf(f->label, sizeof f->label, "fuse: %s%s%s", f->name, *f->where ? " of " : "", f->where);
  lua_createtable(L, 1, 1);
  lua_pushvalue(L, fn);
  lua_rawseti(L, -2, 1);
  lua_setiuservalue(L, -2, 1);
  return 1;
}

/* {==== What there is */

static int lfused_ready(lua_State *L, ltide_call *c) {
  const fuse_function *f = check_fused(L, 1);
  bool ready = f->records && !f->records->eager;
  (void)c;
  for (const fuse_record *p = f->records; p; p = p->next)
    for (int i = 0; i < p->steps; i++)
      if (p->step[i].fused && !tide_fused_problem(p->step[i].fused))
        ready = tide_fused_ready(p->step[i].fused) && ready;
  return lua_pushboolean(L, ready), 1;
}

static int lfused_wait(lua_State *L, ltide_call *c) {
  const fuse_function *f = check_fused(L, 1);
  (void)c;
  for (const fuse_record *p = f->records; p; p = p->next)
    for (int i = 0; i < p->steps; i++)
      if (p->step[i].fused) ltide_try(L, tide_fused_wait(p->step[i].fused));
  lua_settop(L, 1);
  return 1;
}

static const char *node_name(const tide_fuse_node *n) {
  if (n->kind == TIDE_FUSE_REDUCE) return tide_reduction_get((tide_reduction)n->op)->name;
  if (n->kind == TIDE_FUSE_GATHER) return "gather";
  return n->kind == TIDE_FUSE_CAST ? tide_dtype_name(n->dtype) : tide_op_get((tide_op)n->op)->name;
}

static void push_operations(lua_State *L, const fuse_step *s) {
  lua_newtable(L);
  for (int i = 0, n = 0; i < s->nodes; i++)
    if (s->node[i].kind != TIDE_FUSE_INPUT) lua_pushstring(L, node_name(&s->node[i])), lua_rawseti(L, -2, ++n);
}

static void push_kernel(lua_State *L, const fuse_step *s) {
  lua_createtable(L, 0, 8);
  push_operations(L, s);
  lua_setfield(L, -2, "operations");
  ltide_set_integer(L, "reads", s->inputs);
  ltide_set_integer(L, "writes", s->outputs);
  ltide_set_integer(L, "bytes", s->bytes);
  ltide_set_integer(L, "elements", s->numel);
  lua_pushboolean(L, s->fused ? tide_fused_ready(s->fused) : fuse_has_one(s));
  lua_setfield(L, -2, "ready");
  lua_pushstring(L, s->fused ? tide_fused_problem(s->fused) : NULL);
  lua_setfield(L, -2, "problem");
}

static int lfused_kernels(lua_State *L, ltide_call *c) {
  const fuse_function *f = check_fused(L, 1);
  (void)c;
  lua_newtable(L);
  for (int i = 0, n = 0; f->records && !is_changing(f) && !f->alone && i < f->records->steps; i++)
    if (!f->records->step[i].is_call) push_kernel(L, &f->records->step[i]), lua_rawseti(L, -2, ++n);
  return 1;
}

/* What a step calls: a function of tide's, a kernel, which is its first argument, or what tensors have for [...]. */
static void push_called(lua_State *L, const fuse_step *s, int refs) {
  int top = lua_gettop(L);
  lua_rawgeti(L, refs, s->fn);
  const ltide_row *row = ltide_row_at(L, -1);
  if (row)
    lua_pushstring(L, row->name);
  else if (!s->is_kernel)
    lua_pushstring(L, s->results ? "x[...]" : "x[...] = value");
  else
    lua_rawgeti(L, refs, s->arg[0].ref), luaL_tolstring(L, -1, NULL);
  lua_replace(L, top + 1);
  lua_settop(L, top + 1);
}

/* For the record that served last. */
static void push_explanation(lua_State *L, const fuse_function *f) {
  const fuse_record *p = f->records;
  int count = 1;
  lua_pushfstring(L, "%s%s%s%s: ", f->name, *f->where ? " (" : "", f->where, *f->where ? ")" : "");
  if (!p) {
    lua_pushstring(L, LUA_VERSION_NUM == 504 ? "not called yet" : "runs each time: LuaJIT does not tell what it calls");
    lua_concat(L, 2);
    return;
  }
  if (p->eager || is_changing(f) || f->alone) {
    if (f->alone == FUSE_SMALL)
      lua_pushfstring(L, "runs where its numbers differ: kernels are no faster below %d elements on the CPU",
                      FUSE_WORTH);
    else if (f->alone)
      lua_pushstring(L, "ran alone: with these numbers it does something else");
    else
      lua_pushfstring(L, "runs each time: %s", is_changing(f) ? f->changing : p->why);
    lua_concat(L, 2);
    return;
  }
  lua_getiuservalue(L, 1, 1);
  lua_rawgetp(L, -1, p);
  int refs = lua_gettop(L);
  lua_pushvalue(L, refs - 2);
  lua_pushfstring(L, "%d step%s, for %s, %s", p->steps, p->steps == 1 ? "" : "s",
                  p->exact ? "these sizes" : "sizes of this pattern",
                  p->followed ? "after running it for its numbers" : "without running it");
  count++;
  for (int i = 0; i < p->steps; i++) {
    const fuse_step *s = &p->step[i];
    luaL_checkstack(L, 16, "tide.fuse");
    if (s->is_call) {
      lua_pushfstring(L, "\n  %d. calls ", i + 1);
      push_called(L, s, refs);
      lua_concat(L, 2);
    } else {
      const char *state = fuse_has_one(s)                ? ""
                          : !s->fused                    ? ", its operations one by one"
                          : tide_fused_problem(s->fused) ? ", which the compiler refuses"
                          : tide_fused_ready(s->fused)   ? ""
                                                         : ", being made";
      lua_pushfstring(L, "\n  %d. kernel that reads %d and writes %d, %I bytes an element%s:", i + 1, s->inputs,
                      s->outputs, (LUAI_UACINT)s->bytes, state);
      for (int k = 0; k < s->nodes; k++)
        if (s->node[k].kind != TIDE_FUSE_INPUT) {
          lua_pushfstring(L, " %s", node_name(&s->node[k]));
          lua_concat(L, 2);
        }
    }
    lua_concat(L, 2);
  }
  lua_concat(L, count);
}

static int lfused_explain(lua_State *L, ltide_call *c) {
  const fuse_function *f = check_fused(L, 1);
  (void)c;
  lua_getglobal(L, "print");
  if (!lua_isfunction(L, -1)) return 0;
  int text = lua_gettop(L) + 1;
  push_explanation(L, f);
  lua_copy(L, -1, text); /* it may lie on top of others */
  lua_settop(L, text);
  lua_call(L, 1, 0);
  return 0;
}

#define PATH "tide."
static ltide_row rows[] = {
#include "api/fuse.def"
    {0}};

static ltide_row fused_rows[] = {
#include "api/fuse_fused.def"
    {0}};

static int fused_tostring(lua_State *L) {
  const fuse_function *f = check_fused(L, 1);
  bool named = strcmp(f->name, unnamed) != 0 || !*f->where;
  return lua_pushfstring(L, "tide.fuse(%s)", named ? f->name : f->where), 1;
}

void ltide_open_fuse(lua_State *L, ltide_state *S) {
  static const luaL_Reg meta[] = {{"__gc", fused_gc}, {"__call", lfused_call}, {"__tostring", fused_tostring}, {0}};
  (void)S;
  ltide_new_class(L, FUSED_META, meta, "Fused", fused_rows, NULL);
#if LUA_VERSION_NUM == 504
  static const luaL_Reg closes[] = {{"__gc", recorder_close}, {"__close", recorder_close}, {0}};
  ltide_new_class(L, RECORDER_META, closes, NULL, NULL, NULL);
  fuse_open_follow(L);
  ltide_fuse_note_pure(L, lfused_call);
#endif
  ltide_register_rows(L, "tide", rows);
}

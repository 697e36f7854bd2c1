/* quota_hook.c: the hook that ends a script with its quota, and calls the host's own.
 *
 * Where instructions have a limit, the hook counts them in steps, which costs more than the script itself. Else only
 * the first step of a run is counted: then the hook goes, and quota_clock.c sets it again when something is used up.
 * Once the state has ended the hook raises at every instruction, and what catches errors lets this one pass.
 *
 * Invariant: of the coroutines of a state only the one that runs, its resumers through ours, and those in
 * `bare` lack the hook. So new ones, and most that a host resumes, have it, and say so at their first step; the clock
 * finds those in `bare` when something is used up. */
#include "interruptible_stdlib.h"
#include "quota_clock.h"
#include "call/error.h"

LTIDE_PART_SIZE(quota)

enum { STEP = 1000, FIRST = 2 };

/* Instructions from one call of the hook to the next. */
static int step_of(const ltide_state *S) {
  struct ltide_quota_part *q = ltide_quota_of(S);
  int count = q->mask & LUA_MASKCOUNT ? q->count : STEP;
  if (count > STEP) count /= count / STEP + (count % STEP != 0);
  return count > 0 ? count : 1;
}

static int mask_of(const ltide_state *S) { return ltide_quota_of(S)->mask | LUA_MASKCOUNT; }

static void set(const ltide_state *S, lua_State *L) {
  int mask = mask_of(S), step = step_of(S);
  if (lua_gethook(L) != ltide_quota_hook || lua_gethookmask(L) != mask || lua_gethookcount(L) != step)
    lua_sethook(L, ltide_quota_hook, mask, step);
}

static void replace_bare(ltide_state *S, int i, lua_State *co) {
  _Atomic(lua_State *) *place = &ltide_quota_of(S)->bare[i];
  lua_State *last = atomic_load_explicit(place, memory_order_relaxed);
  if (last) ltide_hook_on(S, last);
  atomic_store_explicit(place, co, memory_order_release);
}

void ltide_hook_all(ltide_state *S) {
  for (int i = 0; i < LTIDE_BARE; i++) replace_bare(S, i, NULL);
}

static void note_freedom(ltide_state *S) {
  struct ltide_quota_part *q = ltide_quota_of(S);
  q->is_free = !q->fn && tide_quota_get_limit(S->quota, TIDE_QUOTA_INSTRUCTIONS) < 0;
  if (!q->is_free) ltide_hook_all(S);
}

static void switch_to(ltide_state *S, lua_State *L) {
  struct ltide_quota_part *q = ltide_quota_of(S);
  q->running = L;
  ltide_clock_switch(q->clock, L);
}

void ltide_hook_on(ltide_state *S, lua_State *co) {
  lua_Hook there = lua_gethook(co);
  if (!S->quota) return;
  if (!there)
    lua_sethook(co, ltide_quota_hook, mask_of(S), step_of(S));
  else if (there == ltide_quota_hook && lua_gethookcount(co) != 1) /* 1: it has ended */
    set(S, co);
}

void ltide_hook_forget(ltide_state *S, const lua_State *co) {
  struct ltide_quota_part *q = ltide_quota_of(S);
  if (q->running == co) q->running = NULL;
  for (int i = 0; i < LTIDE_BARE; i++)
    if (q->bare[i] == co) q->bare[i] = NULL;
  ltide_clock_forget(q->clock, co);
}

/* What a host has set by lua_sethook, beside ours: it is called as one that tide_lua_sethook has set. */
static void adopt(ltide_state *S, lua_Hook fn, int mask, int count) {
  struct ltide_quota_part *q = ltide_quota_of(S);
  q->fn = fn, q->mask = fn ? mask : 0, q->count = count, q->counted = 0, q->adopted = true;
  note_freedom(S);
}

/* The clock watches L from now on. */
static bool run(lua_State *L, ltide_state *S) {
  struct ltide_quota_part *q = ltide_quota_of(S);
  lua_State *last = ltide_clock_running(q->clock);
  if (last && last != L) ltide_hook_on(S, last);
  switch_to(S, NULL);
  bool can = ltide_clock_run(q->clock, L);
  q->running = can ? L : NULL;
  return can;
}

void ltide_hook_run(lua_State *L, ltide_state *S) {
  lua_Hook there = lua_gethook(L);
  if (!S->quota) return;
  if (there && there != ltide_quota_hook) adopt(S, there, lua_gethookmask(L), lua_gethookcount(L));
  if (!there && ltide_quota_of(S)->adopted) adopt(S, NULL, 0, 0); /* who has set it has taken it away */
  note_freedom(S);
  ltide_hook_all(S); /* the clock may watch nothing until a hook says what runs */
  run(L, S);
  set(S, L);
  if (ltide_quota_of(S)->is_free)
    lua_sethook(L, ltide_quota_hook, mask_of(S), FIRST); /* so that the clock knows L soon */
}

/* After a step that ended nothing. */
static void go_on(lua_State *L, ltide_state *S) {
  struct ltide_quota_part *q = ltide_quota_of(S);
  int mask, count;
  lua_Hook other = ltide_clock_taken(q->clock, &mask, &count);
  if (lua_gethook(L) != ltide_quota_hook) return;
  if (other) adopt(S, other, mask, count);
  if ((ltide_clock_running(q->clock) == L || run(L, S)) && q->is_free)
    lua_sethook(L, NULL, 0, 0);
  else
    set(S, L);
}

static void call_host(lua_State *L, ltide_state *S, lua_Debug *ar, int step) {
  struct ltide_quota_part *q = ltide_quota_of(S);
#ifdef LUA_HOOKTAILCALL
  int mask = ar->event == LUA_HOOKTAILCALL ? LUA_MASKCALL : 1 << ar->event;
#else
  int mask = ar->event > LUA_HOOKCOUNT ? LUA_MASKRET : 1 << ar->event;
#endif
  if (!(q->mask & mask) || !q->fn) return;
  if (ar->event == LUA_HOOKCOUNT) {
    q->counted += step;
    if (q->counted + step / 2 < q->count) return;
    q->counted = 0;
  }
  q->fn(L, ar);
}

void ltide_quota_hook(lua_State *L, lua_Debug *ar) {
  ltide_state *S = ltide_state_of(L);
  if (!S || !S->quota) { /* the module did not open */
    lua_sethook(L, NULL, 0, 0);
    return;
  }
  int step = ar->event == LUA_HOOKCOUNT ? lua_gethookcount(L) : 0;
  if (tide_quota_spend(S->quota, TIDE_QUOTA_INSTRUCTIONS, step) == TIDE_OK) {
    if (ar->event == LUA_HOOKCOUNT) go_on(L, S);
    call_host(L, S, ar, step);
    return;
  }
  int mask, count;
  lua_sethook(L, ltide_quota_hook, LUA_MASKCOUNT, 1);
  switch_to(S, NULL);
  ltide_clock_taken(ltide_quota_of(S)->clock, &mask, &count);
  atomic_store(&S->ended, true);
  ltide_raise(L);
}

void ltide_hook_close(lua_State *L, ltide_state *S) {
  struct ltide_quota_part *q = ltide_quota_of(S);
  ltide_alloc_close(L, S);
  ltide_clock_free(q->clock);
  q->clock = NULL, ltide_error_of(S)->on_ended = NULL;
}

void ltide_hook_open(lua_State *L, ltide_state *S) {
  struct ltide_quota_part *q = ltide_quota_of(S);
  ltide_error_of(S)->on_ended = ltide_hook_on;
  ltide_alloc_open(L, S);
  q->clock = ltide_clock_new(L, S, ltide_quota_hook);
  ltide_hook_run(S->main, S);
  if (L != S->main) set(S, L);
}

bool ltide_hook_is_watched(lua_State *L, const ltide_state *S) {
  const struct ltide_quota_part *q = ltide_quota_of(S);
  return q->is_free && q->running == L && !lua_gethook(L);
}

bool ltide_hook_enter(lua_State *L, ltide_state *S, lua_State *co) {
  if (ltide_hook_is_watched(L, S) && lua_status(co) <= LUA_YIELD) {
    lua_Hook there = lua_gethook(co);
    if (there == ltide_quota_hook) lua_sethook(co, NULL, 0, 0);
    if (there == ltide_quota_hook || !there) return switch_to(S, co), true;
  }
  ltide_hook_on(S, co);
  return false;
}

void ltide_hook_leave(lua_State *L, ltide_state *S, lua_State *co, int status) {
  struct ltide_quota_part *q = ltide_quota_of(S);
  int i = (int)(((uintptr_t)co >> 6) % LTIDE_BARE);
  lua_State *last = q->running;
  switch_to(S, L);
  if (last && last != L && (last != co || status != LUA_YIELD))
    ltide_hook_on(S, last);
  else if (last == co && atomic_load_explicit(&q->bare[i], memory_order_relaxed) != co)
    replace_bare(S, i, co);
  if (!q->is_free || atomic_load_explicit(&S->ended, memory_order_relaxed)) ltide_hook_all(S), set(S, L);
}

int ltide_hook_set(lua_State *L, lua_Hook fn, int mask, int count) {
  ltide_state *S = ltide_state_of(L);
  if (!S || !S->quota) return 0;
  struct ltide_quota_part *q = ltide_quota_of(S);
  adopt(S, fn && mask ? fn : NULL, mask, count);
  q->adopted = false;
  lua_State *last = q->running;
  if (last) set(S, last);
  set(S, S->main);
  set(S, L);
  return 1;
}

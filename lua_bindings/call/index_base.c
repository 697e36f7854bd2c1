/* index_base.c: whose call of core it is that runs on this thread: a script's, whose indexes count from 1 unless the
 * host has chosen 0 for its state, or the host's, whose indexes count from 0. What is written in Lua here (script.c)
 * counts from 1 in every state, so there the caller is looked at.
 *
 * What a script has bound stays bound when it returns, so the last caller's stack is asked: a function of ours is
 * running there, or it is the host that calls. A state may have been closed on another thread since; where anything of
 * that kind has happened (the epoch), the list of open states is asked before the stack is touched. */
#include <pthread.h>

#include "system.h"
#include "script.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of the list */
static ltide_state *open_states;

void ltide_state_list(ltide_state *S) {
  pthread_mutex_lock(&lock);
  S->next = open_states;
  open_states = S;
  pthread_mutex_unlock(&lock);
}

void ltide_state_unlist(ltide_state *S) {
  pthread_mutex_lock(&lock);
  for (ltide_state **at = &open_states; *at; at = &(*at)->next)
    if (*at == S) {
      *at = S->next;
      break;
    }
  pthread_mutex_unlock(&lock);
}

int ltide_kill(lua_State *L) {
  pthread_mutex_lock(&lock);
  ltide_state *S = open_states;
  while (S && S->main != L) S = S->next;
  bool can = S && S->quota;
  if (can) tide_quota_stop(S->quota, true), atomic_store(&S->ended, true);
  pthread_mutex_unlock(&lock);
  return can;
}

static bool is_open(const ltide_state *S) {
  pthread_mutex_lock(&lock);
  const ltide_state *at = open_states;
  while (at && at != S) at = at->next;
  pthread_mutex_unlock(&lock);
  return at != NULL;
}

/* The same address may serve another state of the same thread: both have a stack that can be asked. */
static bool may_ask(void) {
  if (!ltide_last) return false;
  return ltide_last_epoch == atomic_load(&ltide_epoch) ||
         (is_open(ltide_last_state) && ltide_last_state->thread == &ltide_last);
}

/* The function that was asked about last is remembered: a loop calls one. */
static bool is_ours(lua_CFunction fn) {
  static _Thread_local lua_CFunction known;
  static _Thread_local bool ours;
  if (fn == known) return ours;
  ours = ltide_same_library((const void *)(size_t)fn, &open_states);
  known = fn;
  return ours;
}

int ltide_index_base(void) {
  lua_Debug ar;
  if (!may_ask() || !lua_getstack(ltide_last, 0, &ar) || !lua_checkstack(ltide_last, 1)) return 0;
  lua_getinfo(ltide_last, "f", &ar);
  lua_CFunction fn = lua_tocfunction(ltide_last, -1);
  lua_pop(ltide_last, 1);
  return fn && is_ours(fn) ? ltide_base(ltide_last) : 0;
}

int ltide_base_at(lua_State *L, int level) {
  lua_Debug ar;
  if (!lua_getstack(L, level, &ar)) return 0;
  lua_getinfo(L, "S", &ar);
  return ltide_script_is(&ar);
}

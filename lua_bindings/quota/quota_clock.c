/* quota_clock.c: ends scripts that run without a hook.
 *
 * Lua calls a hook of counts before each instruction, which makes loops twice as slow. So a script runs without one. A
 * thread sleeps until the first quota is used up, or a host kills a state, and sends SIGURG to the thread that runs the
 * script, whose handler sets the hook: Lua allows that in a handler, as its own interpreter does for Ctrl-C. SIGURG is
 * ignored by default, so that one which comes too late hurts nobody. What a host had installed for it is called for
 * every other one. The handler runs on the thread's alternate stack, if it has one, as Go and other runtimes require.
 *
 * A handler must not touch a state that another thread runs meanwhile. So it looks whether the coroutine is in a
 * protected call on this very stack: lua_State has a pointer to the innermost one's jump buffer, which lies on the C
 * stack. Where it lies in the struct is found once, by a call in a call; where it is not found, where the thread blocks
 * the signal, on other systems and under ThreadSanitizer, which delays signals, scripts keep their hook.
 *
 * Invariant: what a reader has found in L is alive: a coroutine is freed after the readers that might have found it,
 * and after L no longer points at it. So a switch of coroutines needs no barrier. Clocks are never freed, but used
 * again, so that a handler may walk their list. */
#include "quota_clock.h"
#include "call/system.h"
#include "quota.h"

#if defined(__has_feature)
#  if __has_feature(thread_sanitizer)
#    define DELAYS_SIGNALS
#  endif
#endif

#if defined(__linux__) && !LTIDE_FFI && !defined(__SANITIZE_THREAD__) && !defined(DELAYS_SIGNALS)

#  include <errno.h>
#  include <pthread.h>
#  include <sched.h>
#  include <signal.h>
#  include <stdlib.h>
#  include <sys/syscall.h>
#  include <time.h>
#  include <ucontext.h>
#  include <unistd.h>

enum { SIGNAL = SIGURG, WORDS = 20 };                                   /* of lua_State that are searched */
enum { AGAIN = 1000000, IDLE = 2000000, FOREIGN = 5000000, NONE = -1 }; /* nanoseconds until the next look */
static const int64_t far_away = (int64_t)3600 * 1000000000;

struct ltide_clock {
  struct ltide_clock *next;
  bool used;               /* by a state */
  _Atomic(lua_State *) L;  /* the coroutine that runs, or NULL */
  _Atomic int thread;      /* which runs it */
  _Atomic uintptr_t stack; /* the end of its stack */
  _Atomic bool asked;      /* to set the hook */
  _Atomic int readers;     /* of L and bare */
  _Atomic(lua_State *) *bare;
  tide_quota *quota;
  lua_Hook hook, other; /* other: what the handler has replaced */
  int other_mask, other_count;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed;
static _Atomic(ltide_clock *) clocks;
static int in_use;
static pthread_t sleeper;
static pid_t process; /* in which the sleeper runs; 0: in none */
static bool ends, joining;
static int64_t wakes_at;
static struct sigaction before; /* what the host had installed */
static int jump_word = NONE;    /* where the jump buffer's address is in lua_State */

/* {==== What is in a protected call */

static uintptr_t here(void) { return (uintptr_t)__builtin_frame_address(0); }

static uintptr_t word(const lua_State *L, int at) { return ((const volatile uintptr_t *)L)[at]; }

static uintptr_t stack_end(void) {
  static _Thread_local uintptr_t end;
  pthread_attr_t attr;
  void *from;
  size_t size;
  if (end || pthread_getattr_np(pthread_self(), &attr)) return end;
  if (!pthread_attr_getstack(&attr, &from, &size)) end = (uintptr_t)from + size;
  pthread_attr_destroy(&attr);
  return end;
}

static unsigned words_between(const lua_State *L, uintptr_t from, uintptr_t to) {
  unsigned found = 0;
  for (int i = 0; i < WORDS; i++)
    if (word(L, i) > from && word(L, i) < to) found |= 1u << i;
  return found;
}

static int search_inner(lua_State *L) {
  unsigned *found = lua_touserdata(L, 1);
  uintptr_t *outer = lua_touserdata(L, 2);
  *found &= words_between(L, here(), *outer);
  return 0;
}

/* The only word that points into the stack now, and deeper into it in a call in this one. */
static int search(lua_State *L) {
  unsigned found = words_between(L, here(), stack_end());
  uintptr_t outer = here();
  lua_pushcfunction(L, search_inner);
  lua_pushlightuserdata(L, &found);
  lua_pushlightuserdata(L, &outer);
  if (lua_pcall(L, 2, 0, 0) != LUA_OK) return lua_pop(L, 1), NONE;
  if (!found || found & (found - 1)) return NONE;
  return __builtin_ctz(found);
}

static bool runs_here(const lua_State *L, uintptr_t from, uintptr_t to) {
  uintptr_t jump = word(L, jump_word);
  return jump > from && jump < to;
}

/* {==== The handler */

#  if defined(__x86_64__)
enum { FLAGS = SA_SIGINFO | SA_RESTART | SA_ONSTACK };
static uintptr_t stack_of(const void *context) {
  return (uintptr_t)((const ucontext_t *)context)->uc_mcontext.gregs[REG_RSP];
}
#  elif defined(__aarch64__)
enum { FLAGS = SA_SIGINFO | SA_RESTART | SA_ONSTACK };
static uintptr_t stack_of(const void *context) { return (uintptr_t)((const ucontext_t *)context)->uc_mcontext.sp; }
#  else
enum { FLAGS = SA_SIGINFO | SA_RESTART }; /* the interrupted stack is the handler's */
static uintptr_t stack_of(const void *context) { return (void)context, here(); }
#  endif

static void set_hook(ltide_clock *c, lua_State *L) {
  lua_Hook other = lua_gethook(L);
  if (other != c->hook) c->other = other, c->other_mask = lua_gethookmask(L), c->other_count = lua_gethookcount(L);
  lua_sethook(L, c->hook, LUA_MASKCOUNT, 1);
}

static void on_signal(int sig, siginfo_t *info, void *context) {
  int kept = errno, me = (int)syscall(SYS_gettid);
  bool ours = false;
  for (ltide_clock *c = atomic_load(&clocks); c; c = c->next) {
    if (!atomic_load(&c->asked) || atomic_load(&c->thread) != me) continue;
    ours = true;
    atomic_fetch_add(&c->readers, 1);
    lua_State *L = atomic_load(&c->L);
    uintptr_t from = stack_of(context), to = atomic_load(&c->stack);
    if (L && runs_here(L, from, to)) set_hook(c, L);
    for (int i = 0; i < LTIDE_BARE; i++) {
      lua_State *bare = atomic_load(&c->bare[i]);
      if (bare && bare != L && runs_here(bare, from, to)) set_hook(c, bare);
    }
    atomic_fetch_sub(&c->readers, 1);
  }
  if (!ours && before.sa_flags & SA_SIGINFO) {
    before.sa_sigaction(sig, info, context);
  } else if (!ours && before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN)
    before.sa_handler(sig);
  errno = kept;
}

static bool is_installed(void) {
  struct sigaction action;
  return !sigaction(SIGNAL, NULL, &action) && action.sa_flags & SA_SIGINFO && action.sa_sigaction == on_signal;
}

static bool is_blocked(void) {
  sigset_t set;
  return pthread_sigmask(SIG_SETMASK, NULL, &set) || sigismember(&set, SIGNAL);
}

/* {==== The thread */

/* Does a hook of somebody else's keep ours from counting? */
static bool is_hidden(const ltide_clock *c, lua_State *L) {
  return tide_quota_get_limit(c->quota, TIDE_QUOTA_INSTRUCTIONS) >= 0 && lua_gethook(L) != c->hook;
}

/* When it is to be looked at again. */
static int64_t look(ltide_clock *c, int64_t at) {
  int64_t left = tide_quota_left(c->quota), next = left < far_away / 1000 ? at + 1000 * (left + 1) : at + far_away;
  bool limited = tide_quota_get_limit(c->quota, TIDE_QUOTA_INSTRUCTIONS) >= 0, ended = tide_quota_ended(c->quota);
  atomic_fetch_add(&c->readers, 1);
  lua_State *L = atomic_load(&c->L);
  bool runs = L && word(L, jump_word), wanted = runs && (ended || is_hidden(c, L));
  for (int i = 0; i < LTIDE_BARE && ended && !wanted; i++) {
    lua_State *bare = atomic_load(&c->bare[i]);
    wanted = bare && word(bare, jump_word);
  }
  atomic_fetch_sub(&c->readers, 1);
  if (wanted) {
    atomic_store(&c->asked, true);
    syscall(SYS_tgkill, getpid(), atomic_load(&c->thread), SIGNAL);
    return at + AGAIN;
  }
  if (L && ended) return at + IDLE;
  return L && limited && at + FOREIGN < next ? at + FOREIGN : next;
}

static void *sleep_on(void *unused) {
  pthread_mutex_lock(&lock);
  while (!ends) {
    int64_t at = ltide_now(), next = at + far_away;
    for (ltide_clock *c = atomic_load(&clocks); c; c = c->next) {
      int64_t when = c->used ? look(c, at) : next;
      if (when < next) next = when;
    }
    wakes_at = next;
    struct timespec t = {next / 1000000000, next % 1000000000};
    pthread_cond_timedwait(&changed, &lock, &t);
  }
  pthread_mutex_unlock(&lock);
  return unused;
}

/* The lock is held. After a fork there is none in the child. */
static bool start(void) {
  pid_t here_now = getpid();
  sigset_t all, kept;
  pthread_condattr_t attr;
  if (process == here_now || joining) return !joining;
  struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = FLAGS};
  sigemptyset(&action.sa_mask);
  if (!is_installed() && sigaction(SIGNAL, &action, &before)) return false;
  pthread_condattr_init(&attr);
  pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
  pthread_cond_init(&changed, &attr);
  pthread_condattr_destroy(&attr);
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &kept);
  ends = false;
  bool started = !pthread_create(&sleeper, NULL, sleep_on, NULL);
  pthread_sigmask(SIG_SETMASK, &kept, NULL);
  if (started) process = here_now;
  return started;
}

/* The lock is held, and is not meanwhile. */
static void stop(void) {
  if (process != getpid()) return;
  ends = joining = true;
  process = 0;
  pthread_t ending = sleeper;
  pthread_cond_signal(&changed);
  if (is_installed()) sigaction(SIGNAL, &before, NULL);
  pthread_mutex_unlock(&lock);
  pthread_join(ending, NULL);
  pthread_mutex_lock(&lock);
  joining = false;
}

void ltide_clock_wake(void) {
  pthread_mutex_lock(&lock);
  if (process) pthread_cond_signal(&changed);
  pthread_mutex_unlock(&lock);
}

/* {==== The state's side */

ltide_clock *ltide_clock_new(lua_State *L, ltide_state *S, lua_Hook hook) {
  pthread_mutex_lock(&lock);
  int found = jump_word;
  pthread_mutex_unlock(&lock);
  if (found == NONE) found = search(L);
  if (found == NONE) return NULL;
  pthread_mutex_lock(&lock);
  jump_word = found;
  ltide_clock *c = atomic_load(&clocks);
  while (c && c->used) c = c->next;
  if (!c && (c = calloc(1, sizeof *c)) != NULL) {
    c->next = atomic_load(&clocks);
    atomic_store(&clocks, c);
  }
  if (c) c->bare = ltide_quota_of(S)->bare;
  if (c) c->used = true, c->quota = S->quota, c->hook = hook, c->other = NULL, in_use++;
  pthread_mutex_unlock(&lock);
  return c;
}

/* Nobody reads the coroutine any more that was there before. */
static void replace(ltide_clock *c, lua_State *L) {
  atomic_store(&c->L, L);
  while (atomic_load(&c->readers)) sched_yield();
}

void ltide_clock_switch(ltide_clock *c, lua_State *L) {
  if (c) atomic_store_explicit(&c->L, L, memory_order_release);
}

void ltide_clock_forget(ltide_clock *c, const lua_State *L) {
  if (!c) return;
  lua_State *running = atomic_load_explicit(&c->L, memory_order_relaxed);
  replace(c, running == L ? NULL : running);
}

void ltide_clock_free(ltide_clock *c) {
  if (!c) return;
  pthread_mutex_lock(&lock);
  replace(c, NULL);
  atomic_store(&c->asked, false);
  c->used = false, c->quota = NULL;
  if (!--in_use) stop();
  pthread_mutex_unlock(&lock);
}

bool ltide_clock_holds(const ltide_clock *c, const lua_State *L) { return c && runs_here(L, here(), stack_end()); }

bool ltide_clock_run(ltide_clock *c, lua_State *L) {
  if (!c) return false;
  replace(c, NULL);
  if (is_blocked() || !ltide_clock_holds(c, L)) return false; /* or it runs on a fiber's stack, say */
  pthread_mutex_lock(&lock);
  bool can = start() && is_installed();
  if (can) {
    int64_t left = tide_quota_left(c->quota);
    atomic_store(&c->thread, (int)syscall(SYS_gettid));
    atomic_store(&c->stack, stack_end());
    atomic_store(&c->L, L);
    if (left < far_away / 1000 && ltide_now() + 1000 * left < wakes_at) pthread_cond_signal(&changed);
    if (tide_quota_get_limit(c->quota, TIDE_QUOTA_INSTRUCTIONS) >= 0) pthread_cond_signal(&changed);
  }
  pthread_mutex_unlock(&lock);
  return can;
}

lua_State *ltide_clock_running(const ltide_clock *c) {
  return c && atomic_load(&c->stack) == stack_end() ? atomic_load(&c->L) : NULL;
}

lua_Hook ltide_clock_taken(ltide_clock *c, int *mask, int *count) {
  if (!c) return NULL;
  lua_Hook other = c->other;
  *mask = c->other_mask, *count = c->other_count;
  c->other = NULL;
  atomic_store(&c->asked, false);
  return other;
}

#else

ltide_clock *ltide_clock_new(lua_State *L, ltide_state *S, lua_Hook hook) { return (void)L, (void)S, (void)hook, NULL; }
void ltide_clock_free(ltide_clock *c) { (void)c; }
bool ltide_clock_run(ltide_clock *c, lua_State *L) { return (void)c, (void)L, false; }
void ltide_clock_switch(ltide_clock *c, lua_State *L) { (void)c, (void)L; }
void ltide_clock_forget(ltide_clock *c, const lua_State *L) { (void)c, (void)L; }
lua_State *ltide_clock_running(const ltide_clock *c) { return (void)c, NULL; }
bool ltide_clock_holds(const ltide_clock *c, const lua_State *L) { return (void)c, (void)L, false; }
lua_Hook ltide_clock_taken(ltide_clock *c, int *mask, int *count) { return (void)c, (void)mask, (void)count, NULL; }
void ltide_clock_wake(void) {}

#endif

/* runner_interrupt.c: Ctrl-C and SIGTERM end the running Lua code, in whichever coroutine, and any wait for a device.
 *
 * One handler serves as long as the process runs. It only notes that there is an interruption and sets Lua's hook,
 * which Lua allows a handler, and which raises the error at the next instruction; a hook is its coroutine's own, and
 * Lua does not say which coroutine runs, so coroutine.resume and wrap are replaced by functions that note it around the
 * originals. A wait, and a long operation on the CPU, asks interrupted() every few milliseconds.
 *
 * A second Ctrl-C within a second means it: its error passes through pcall, xpcall and the like
 * (interruptible_pcall.c). It also breaks off a read that the first one left waiting, and ends kernels, for which the
 * driver may wait as it loads another.
 *
 * SIGTERM raises the same error once, which a script may catch to save its work; then the process ends with exit code
 * 143. A second one ends it at once. A read that waits is broken off after a second, and so are kernels. In a process
 * of spawn, SIGTERM of the parent beside one of somebody else counts once: the parent insists by SIGKILL.
 *
 * Where no Lua code runs, the prompt is told (interrupt_noticed) of Ctrl-C. Without a prompt, and by SIGTERM, the
 * process ends as by default. Invariant: what changes Lua's hooks runs on the thread of the Lua state alone. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "quota/interruptible_pcall.h"
#include "call/system.h"
#include "runner.h"
#include "call/error.h"
#include "host/host.h"

enum { EVERYTHING = LUA_MASKCALL | LUA_MASKRET | LUA_MASKLINE | LUA_MASKCOUNT };
static const int64_t second = 1000000000;

static volatile sig_atomic_t pending;    /* an interruption that nothing has taken up yet */
static volatile sig_atomic_t armed;      /* Lua code runs */
static volatile sig_atomic_t in_session; /* there is a prompt to go back to */
static volatile sig_atomic_t twice;      /* the last one came within a second after another */
static volatile sig_atomic_t unheard;    /* how many came while one was pending */
static lua_State *volatile running;      /* the coroutine that runs */
static volatile sig_atomic_t terminated; /* SIGTERM has come */
static volatile pid_t terminator;        /* who sent the last one */
static volatile bool parent_was_first;
static int64_t terminated_at;
static bool happened, breaks;
static _Atomic bool ending; /* no pcall may hold the error up */
static int64_t last_at;
static pthread_t home;
static struct {
  lua_State *L;
  lua_Hook fn;
  int mask, count;
} users; /* the script's own hook, put back when ours is done */

/* {==== The handler */

static void on_sigint(int sig);

/* Are calls that wait in the kernel begun again after the handler? The driver's want to be, so the first time they
 * are. */
static void set_action(bool breaking) {
  struct sigaction action = {.sa_handler = on_sigint, .sa_flags = breaking ? 0 : SA_RESTART};
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, NULL);
  breaks = breaking;
}

static void release_hook(lua_State *L) {
  if (users.L == L)
    lua_sethook(L, users.fn, users.mask, users.count);
  else
    lua_sethook(L, NULL, 0, 0);
  users.L = NULL;
  pending = 0, unheard = 0;
}

static void take_up(lua_State *L) {
  release_hook(L);
  happened = true;
  if (twice) ending = true;
}

static void stop_hook(lua_State *L, lua_Debug *ar) {
  if (!pending) { /* a wait has taken it up meanwhile, in another coroutine */
    release_hook(L);
    return;
  }
  take_up(L);
  ltide_error(L, "Interrupted", "interrupted");
}

static void set_hook(lua_State *L) {
  if (lua_gethook(L) != stop_hook)
    users.L = L, users.fn = lua_gethook(L), users.mask = lua_gethookmask(L), users.count = lua_gethookcount(L);
  lua_sethook(L, stop_hook, EVERYTHING, 1);
}

static void say_how_to_end(void) {
  static const char text[] = "\ntide: this operation cannot be interrupted before its end; Ctrl-\\ ends the process\n";
  if (write(STDERR_FILENO, text, sizeof text - 1) < 0) return; /* nobody reads it */
}

static void end_process(int sig) {
  signal(sig, SIG_DFL);
  raise(sig);
}

static void on_sigint(int sig) {
  int kept = errno;
  if (!pthread_equal(pthread_self(), home)) {
    pthread_kill(home, sig);
    return;
  }
  int64_t before = last_at;
  last_at = ltide_now();
  if (!armed) {
    pending = 1;
    if (!in_session) end_process(sig);
  } else if (pending && !in_session && last_at - before >= second) {
    end_process(sig); /* a script that nothing else ends */
  } else {
    twice = last_at - before < second;
    if (pending) tide_interrupt_kernels(); /* the thread may be within the driver, which waits for one */
    if (pending && ++unheard == 3 && in_session) say_how_to_end();
    pending = 1;
    set_hook(running);
    if (!breaks) set_action(true);
  }
  errno = kept;
}

/* ---- SIGTERM ---- */

static void install(int sig, void (*handler)(int, siginfo_t *, void *), int flags) {
  struct sigaction action = {.sa_sigaction = handler, .sa_flags = flags | SA_SIGINFO};
  sigemptyset(&action.sa_mask);
  sigaction(sig, &action, NULL);
}

/* Nothing has taken the interruption up within a second: calls that wait in the kernel return, and kernels end. */
static void on_alarm(int sig, siginfo_t *info, void *context) {
  int kept = errno;
  if (pending && !pthread_equal(pthread_self(), home))
    pthread_kill(home, sig);
  else if (pending) {
    tide_interrupt_kernels();
    alarm(1);
  }
  errno = kept;
}

static void on_sigterm(int sig, siginfo_t *info, void *context) {
  int kept = errno;
  if (info->si_pid != getpid()) terminator = info->si_pid;
  bool is_parents = ltide_task.is_task && terminator == getppid();
  if (terminated) {
    bool is_same = is_parents || (parent_was_first && ltide_now() - terminated_at < second);
    if (!is_same) end_process(sig);
  } else if (!armed) {
    end_process(sig);
  } else if (!pthread_equal(pthread_self(), home)) {
    pthread_kill(home, sig);
  } else {
    terminated = 1, parent_was_first = is_parents, terminated_at = ltide_now();
    pending = 1, twice = 0;
    set_hook(running);
    install(SIGALRM, on_alarm, 0);
    alarm(1);
  }
  errno = kept;
}

static void leave(int sig, siginfo_t *info, void *context) { _exit(EXIT_TERMINATED); }

void interrupt_leave(void) {
  if (!terminated) return;
  fflush(NULL);
  install(SIGALRM, leave, 0);
  alarm(2);
}

/* Where the parent of the process ignores it, it stays ignored. */
static void open_sigterm(void) {
  struct sigaction before;
  if (!sigaction(SIGTERM, NULL, &before) && before.sa_handler != SIG_IGN) install(SIGTERM, on_sigterm, SA_RESTART);
}

/* Ends a process of spawn whose task has failed by an interruption, or returns its exit code. */
static int end_task(void) {
  int code = terminated ? EXIT_TERMINATED : EXIT_FAILURE;
  if (!happened) return code;
  fflush(NULL);
  _exit(code);
}

/* Asked by every wait: the error that follows takes the hook's place. */
static int interrupted(void *user) {
  if (!pending) return 0;
  take_up(running);
  return 1;
}

/* {==== Coroutines */

/* Back in `before`: an interruption that came too late for the coroutine that ended is for this one. */
static void came_back(lua_State *before) {
  running = before;
  if (pending) set_hook(before);
}

/* coroutine.resume; the original is the upvalue. It raises for a wrong argument alone, before anything runs. */
static int resume(lua_State *L) {
  lua_State *before = running, *co = lua_tothread(L, 1);
  ltide_insert_upvalue(L, 1);
  if (co) running = co;
  lua_call(L, lua_gettop(L) - 1, LUA_MULTRET);
  came_back(before);
  return lua_gettop(L);
}

/* What coroutine.wrap returns: upvalues are the original's function and its coroutine. */
static int call_wrapped(lua_State *L) {
  lua_State *before = running;
  ltide_insert_upvalue(L, 1);
  running = lua_tothread(L, lua_upvalueindex(2));
  int status = lua_pcall(L, lua_gettop(L) - 1, LUA_MULTRET, 0);
  came_back(before);
  return status == LUA_OK ? lua_gettop(L) : lua_error(L);
}

static int wrap(lua_State *L) {
  ltide_insert_upvalue(L, 1);
  lua_call(L, lua_gettop(L) - 1, 1);
  if (!lua_getupvalue(L, -1, 1) || !lua_isthread(L, -1)) return luaL_error(L, "wrap: a coroutine was expected");
  return lua_pushcclosure(L, call_wrapped, 2), 1;
}

/* {==== The runner's side */

static void replace(lua_State *L, const char *name, lua_CFunction by) {
  lua_getfield(L, -1, name);
  lua_pushcclosure(L, by, 1);
  lua_setfield(L, -2, name);
}

void interrupt_open(lua_State *L) {
  running = L, home = pthread_self();
  last_at = ltide_now() - 2 * second;
  tide_interrupt_set(interrupted, NULL);
  lua_getglobal(L, LUA_COLIBNAME);
  replace(L, "resume", resume);
  replace(L, "wrap", wrap);
  lua_pop(L, 1);
  ltide_let_pass(L, &ending, false);
  set_action(false);
  ltide_task.end = end_task;
  open_sigterm();
}

void interrupt_arm(lua_State *L) {
  if (breaks) set_action(false);
  pending = 0, unheard = 0, twice = 0;
  happened = false, running = L;
  ending = false;
  armed = 1;
}

void interrupt_disarm(lua_State *L) {
  armed = 0;
  if (lua_gethook(L) == stop_hook) release_hook(L); /* it came too late */
}

bool interrupt_happened(void) { return happened; }
bool interrupt_terminated(void) { return terminated; }

void interrupt_session(bool begins) { in_session = begins; }

bool interrupt_noticed(void) {
  bool was = pending;
  pending = 0;
  return was;
}

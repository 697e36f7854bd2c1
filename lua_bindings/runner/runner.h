/* runner.h: what the files of the runner share. */
#pragma once

#include "call/bindings.h"

enum { EXIT_USAGE = 2, EXIT_TERMINATED = 143 }; /* after a wrong option; after SIGTERM */
extern struct runner_report {
  const char *program; /* NULL: the prompt, whose messages have no name in front, as Lua's */
  int failure;         /* the exit code of what has failed */
  bool has_failed;     /* has the last call been reported? */
} runner;
/* runner_call.c. Calls the function below `nargs` arguments with a traceback handler and Ctrl-C armed; leaves results
 * or one message. */
int runner_call(lua_State *L, int nargs, int nresults);
/* Prints and pops the message at the top, if status says that there is one. Returns status. */
int runner_report(lua_State *L, int status);
/* A Lua state whose small objects come from pools: runner_alloc.c. */
lua_State *runner_newstate(void);
/* Ctrl-C and SIGTERM, in runner_interrupt.c: armed around each call; open once per state. */
void interrupt_open(lua_State *L);
void interrupt_arm(lua_State *L);
void interrupt_disarm(lua_State *L);
bool interrupt_happened(void);   /* was the last call interrupted? */
bool interrupt_terminated(void); /* has SIGTERM come? Then nothing further runs. */
void interrupt_leave(
    void); /* before the state is closed: after SIGTERM, work that is queued holds that up by 2 s at most */
/* While there is a session Ctrl-C between two calls ends nothing: the prompt asks whether there was one, and forgets
 * it. */
void interrupt_session(bool begins);
bool interrupt_noticed(void);

/* runner_globals.c. From now on a read of an undefined global raises. */
void globals_check(lua_State *L, bool is_strict);
/* For __index of the globals, called with them and a key: was the reader typed at the prompt, or in a notebook? */
bool globals_is_typed(lua_State *L);
/* For the same __index: pushes what the earlier __index, at `index`, gives. Returns 1. */
int globals_inherited(lua_State *L, int index);
void globals_outer(lua_CFunction index); /* the function that will call it */

/* runner_setup.c: --api json and --init, called without arguments. */
int setup_print_api(lua_State *L);
int setup_init(lua_State *L);

/* runner_ranks.c */
typedef struct ranks_options {
  int ranks;         /* 0: --ranks is not given */
  const char *hosts; /* or NULL */
  bool verbose;
  int first, behind; /* where these options stand in argv, which each rank gets without them */
} ranks_options;
/* Becomes the launcher of MPI. Returns an exit code where that fails. */
int ranks_launch(const ranks_options *o, char **argv);
int ranks_print_doctor(lua_State *L);

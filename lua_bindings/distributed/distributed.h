/* distributed.h: tide.distributed for the files that share it: the functions, and the runner. */
#pragma once

#include "call/row.h"
#include "tide/distributed.h"

/* libtide_distributed's functions; NULL, with an error of the thread: it could not be opened. Opens it once. */
const tide_distributed *ltide_distributed_open(void);
/* The same, if it is open already. */
const tide_distributed *ltide_distributed_opened(void);

/* Polls until the work is done, and tells what is worth telling; hooks of the script run meanwhile. Raises. */
void ltide_distributed_wait(lua_State *L, tide_work *work);

void ltide_distributed_tell(const char *text); /* a notice, on the terminal */

struct ltide_call;
/* The operation of the running row: its name and line; with its group. Raises where no processes are joined. */
tide_distributed_call ltide_distributed_begin(lua_State *L, struct ltide_call *c, tide_collective kind);
tide_distributed_call ltide_distributed_begin_in(lua_State *L, struct ltide_call *c, tide_collective kind);
/* Starts it, and waits. */
void ltide_distributed_run(lua_State *L, const tide_distributed_call *call);
/* Starts a message: the call has its kind, peer, tag and function. Pushes its Work. group: a place on the
 * stack, or 0. */
tide_work *ltide_distributed_message(lua_State *L, tide_distributed_call call, tide_tensor *x, int group);
/* The Work at arg: waits for it and releases what it holds; is it done? */
void ltide_distributed_finish(lua_State *L, int arg);
bool ltide_distributed_is_done(lua_State *L, int arg);

/* ---- for the end of the process ---- */

/* Under a launcher: joins the other processes now, so that an error of any of them ends all. Fails without a word:
 * init_process_group says why. */
void ltide_distributed_join(void);
/* After the joining: sees to it that the end of this process is known to the others. */
void ltide_distributed_joined(void);
bool ltide_distributed_is_several(void);
int ltide_distributed_rank(void); /* -1: there are no others */
/* Waits for a moment, where another process may report the same error and end this one. */
void ltide_distributed_hold(const char *message);
/* Ends all processes, if there are several. */
void ltide_distributed_abort(int code);
/* The script has ended well: waits until all have. */
void ltide_distributed_leave(void);

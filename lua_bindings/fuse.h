/* fuse.h: what the files of tide.fuse share. Private to them.
 *
 * A function that is fused has records. A record is what one run of the function has shown: guards, which say when it
 * holds, and steps, which do what the function did. */
#ifndef LTIDE_FUSE_H
#define LTIDE_FUSE_H

#include "row.h"
#include "tide/fuse.h"

#define FUSED_META "tide.Fused"

enum {
  FUSE_GUARDS = 256,
  FUSE_INPUTS = 48,
  FUSE_VALUES = 320,
  FUSE_EVENTS = 224,
  FUSE_ARGS = 12,
  FUSE_RESULTS = 8,
  FUSE_FUNCTIONS = 32,
  FUSE_RECORDS = 16,
  FUSE_WORTH = 32768 /* elements of a tensor of the CPU, from which on a function is followed */
};

/* {==== Guards: fuse_guard.c, fuse_hold.c */

typedef enum fuse_source { FUSE_ARGUMENT, FUSE_UPVALUE, FUSE_FIELD, FUSE_META } fuse_source;
typedef enum fuse_want {
  FUSE_TENSOR,
  FUSE_AGAIN,
  FUSE_SAME,
  FUSE_TABLE
} fuse_want; /* AGAIN: a tensor that is another input too */

/* One value that the function can see, and what it has to be. */
typedef struct fuse_guard {
  uint8_t source, want, type; /* type: of Lua, of what has to be the same */
  bool is_integer, is_globals;
  int16_t at;     /* ARGUMENT: which; UPVALUE: its number */
  int16_t input;  /* TENSOR, AGAIN: which input */
  int16_t parent; /* FIELD, META: the guard whose table it is of; UPVALUE: -1 */
  int16_t slot;   /* TABLE, TENSOR: where it lies on the stack; 0: nowhere */
  int holder; /* in refs: the function; the table of a FIELD whose guard asks for that one; 0: the one at the slot */
  int key, value; /* in refs */
  int count;      /* TABLE, or SAME for a table whose fields are guarded all: how many there are; -1: any */
  int order;      /* in refs: its keys in the order of next; 0: no matter */
  const void *address;
  lua_Number number;
  lua_Integer integer;
} fuse_guard;

typedef struct fuse_input {
  uint8_t dtype, ndim, storage; /* storage: the first input with the same one */
  int device;
  int64_t size[TIDE_MAX_DIMS], stride[TIDE_MAX_DIMS];
  uint16_t like[TIDE_MAX_DIMS]; /* the first dim of all that has its size: input << 4 | dim */
} fuse_input;

/* {==== Steps: fuse_plan.c, fuse_run.c */

typedef struct fuse_arg {
  int16_t value; /* a value, or -1 */
  bool is_tree;  /* refs holds a table that is copied, with the values put in */
  int ref;
} fuse_arg;

typedef struct fuse_step {
  bool is_call;
  bool is_kernel; /* CALL: of a kernel written in Lua, its first argument, when that had this body */
  uint32_t body;
  int fn, args, results; /* CALL: fn in refs */
  fuse_arg arg[FUSE_ARGS];
  int16_t result[FUSE_RESULTS]; /* values; -2 - first for a list that begins with that one */
  int16_t listed[FUSE_RESULTS]; /* how many a list holds */
  tide_fused *fused;            /* or a kernel, */
  int nodes, inputs, outputs, numbers;
  tide_fuse_node *node; /* and what it is made of, to be done one by one */
  tide_scalar *number;
  int16_t input[TIDE_FUSE_INPUTS], output[TIDE_FUSE_OUTPUTS], into[TIDE_FUSE_OUTPUTS];
  int16_t from[TIDE_FUSE_SCALARS]; /* where each number comes from: event << 3 | operand, or 3 + parameter */
  int written[TIDE_FUSE_OUTPUTS];  /* the node of each result */
  bool writes;
  int64_t numel, bytes; /* of a result; that one of its elements moves */
} fuse_step;

typedef struct fuse_record {
  struct fuse_record *next;
  struct fuse_trace *trace; /* by which the function can be followed when nothing but numbers differs; or NULL */
  bool followed;            /* the last call did; the steps have its numbers */
  int args, guards, inputs, steps, values, slots, results;
  int failed;                 /* the guard that did not hold when it was looked at last */
  bool kernels;               /* some step is one that is written in Lua */
  bool exact;                 /* holds for these sizes and strides alone */
  bool writes;                /* changes an input */
  bool eager;                 /* the function has to run each time */
  bool walks;                 /* it calls next or pairs: the order of keys matters */
  bool compares;              /* some table may be another one: which tables are the same one matters */
  tide_dtype dtype;           /* the default one, */
  int device, default_device; /* and the devices that are meant where none is named */
  char why[200];
  fuse_guard *guard;
  fuse_input *input;
  fuse_step *step;
  int16_t *slot; /* of each value: where it lies on the stack */
  fuse_arg *result;
} fuse_record;

/* {==== Recording: fuse_record.c */

typedef struct fuse_value {
  int16_t event, last; /* which makes it, or -1; the last one that uses it; FUSE_EVENTS: it is a result */
  const void *storage;
  uint8_t dtype, ndim;
  bool is_input, is_closed; /* closed: by the function */
  int16_t target;           /* the value whose memory it is written to, or -1 */
  int device;
  int64_t size[TIDE_MAX_DIMS], stride[TIDE_MAX_DIMS];
} fuse_value;

typedef enum fuse_what {
  FUSE_OP,
  FUSE_CAST,
  FUSE_REDUCE,
  FUSE_GATHER,
  FUSE_CALL
} fuse_what; /* a REDUCE or GATHER may be done as the CALL that it was */

typedef struct fuse_event {
  uint8_t what, op, operands, params, dtype; /* dtype: of the result */
  bool is_view, writes;                      /* CALL: the result looks at an operand's memory; an argument is written */
  bool keepdim, leading;                     /* leading: the first dims */
  uint8_t dims;                              /* REDUCE; GATHER: the dim */
  int16_t in[3];     /* a value, or -1: number[k]; GATHER: the index, and beyond the operands the source */
  int16_t out, into; /* into: the value whose memory is written, or -1 */
  int16_t step;      /* the one that makes the call again; -1: it is part of kernels */
  int line;          /* GATHER: where it stands */
  const char *file;
  tide_scalar number[3], param[3];
  lua_CFunction fn; /* what was called */
  const ltide_row *row;
  fuse_step call;
} fuse_event;

/* The Lua functions that can be seen from outside, and where they stand: what is made inside is known too. */
typedef struct fuse_known {
  int functions;
  const void *function[FUSE_FUNCTIONS];
  struct fuse_lines {
    char source[64];
    int first, last;
  } lines[FUSE_FUNCTIONS];
  bool writes[FUSE_FUNCTIONS]; /* to tables that it has not made */
} fuse_known;

/* What a run of the function has done. */
typedef struct fuse_trace {
  fuse_known known;
  struct fuse_kind {
    uint8_t dtype, ndim;
    int device;
  } kind[FUSE_VALUES];
  int events;
  fuse_event event[];
} fuse_trace;

typedef struct fuse_seen {
  const tide_tensor *tensor;
  int16_t value;
} fuse_seen;

/* The call of a C function that is under way. */
typedef struct fuse_call {
  bool is_kernel;       /* of a kernel that is written in Lua */
  bool is_reduction;    /* reduce.c has, of one that event.dims and the like tell of */
  bool is_gather;       /* index.c or scatter.c has, likewise */
  bool is_op, is_vague; /* ops.c has told about one operation; of something that is not known, or twice */
  int op, operands, params, seen_count;
  int16_t in[3];
  tide_scalar number[3], param[3];
  const tide_tensor *into;
  fuse_seen seen[32];
  const ltide_row *row;
  lua_CFunction fn;
  int top; /* arguments */
  fuse_event event;
} fuse_call;

typedef struct fuse_frame {
  const void *at;
  bool is_opaque;
} fuse_frame;

struct ltide_recorder {
  lua_State *L;
  ltide_state *S;
  int refs, ids; /* where the tables lie on the stack */
  int refs_count;
  fuse_record *record;
  fuse_value value[FUSE_VALUES];
  fuse_event event[FUSE_EVENTS];
  int values, events;
  fuse_frame frame[64];
  int frames;
  fuse_call call;
  fuse_known known;      /* whose upvalues are guarded */
  int names;             /* a table of the strings that they name: true where it is the name of a global */
  const void *table[64]; /* that have been looked at */
  int tables;
  bool large_is_globals[16], large_calls[16], index_is_function; /* calls: what it has not comes from a function */
  int large[16], large_done[16], larges; /* tables of which only what is named is guarded, in refs, and what was */
  int large_copy[16];                    /* 0: nothing writes to tables */
  const void *globals;
  int slots;
  const void *input_handle[FUSE_INPUTS];
  lua_Hook hook;
  int mask, count;
  bool writes;     /* to tables that it has not made */
  bool is_dynamic; /* something has a size that depends on values */
};
typedef struct ltide_recorder fuse_recorder;

typedef struct fuse_function {
  fuse_record *records;
  int count, line;
  unsigned changes; /* how many calls in a row have found no record, or have strayed from one */
  bool warned;
  enum { FUSE_NOT_ALONE, FUSE_SMALL, FUSE_OTHER } alone; /* why the last call ran the function by itself */
  bool strayed; /* the function did something else when it was followed: it is recorded next */
  char name[64], where[120], label[200], changing[200];
} fuse_function;

/* Says why the function has to run each time, unless something has been said. */
void fuse_decline(fuse_recorder *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Keeps the value at the top, which is popped, and returns where. */
int fuse_keep(fuse_recorder *r);

/* How many fields the table has, counted up to one more than `most`. */
int fuse_count_fields(lua_State *L, int index, int most);
/* Notes the strings that the Lua function at the top names. Does it write to tables that it has not made? */
bool fuse_names_note(fuse_recorder *r);
/* Notes everything that the function at `fn` can see, with its arguments at first .. top. */
void fuse_guards_note(fuse_recorder *r, int fn, int first, int top);
/* Is everything that has to be the same so still, after the run? If not, declines. */
void fuse_guards_check(fuse_recorder *r, int first);
/* Do the values hold? refs, the arguments from `first` on; behind the top come the slots; handles gets the inputs.
 * other_numbers: NULL, or where it is told that numbers differ, which is no matter then. */
bool fuse_guards_hold(lua_State *L, ltide_state *S, fuse_record *p, int refs, int first, ltide_tensor **handles,
                      bool *other_numbers);
/* Does what holds for all records of the state: default dtype and device, and no metatable of numbers and the like? */
bool fuse_state_holds(lua_State *L, const fuse_record *p);
/* The guard that does not hold after a run, or NULL: every tensor has to be the one that it was. */
const fuse_guard *fuse_guards_changed(lua_State *L, const fuse_record *p, int refs, int first, int slots,
                                      const void *const *handles, bool with_numbers);
/* Pushes what the guard is about, in words. */
const char *fuse_guard_what(lua_State *L, const fuse_guard *g, int refs);

/* What may be called besides: functions that depend on their arguments alone (fuse_pure.c), and this one. */
void ltide_fuse_note_pure(lua_State *L, lua_CFunction fused);
typedef enum fuse_purity {
  FUSE_IMPURE,
  FUSE_PURE,
  FUSE_SHOWS, /* where a table is, if it gets one */
  FUSE_READS, /* any part of its first argument, a table */
  FUSE_WALKS, /* that, in the order of next */
  FUSE_WRITES /* to it */
} fuse_purity;
/* Of the C function at the top. */
fuse_purity fuse_purity_of(lua_State *L);
/* Which of the known functions is it, or was it made in, or -1? The Lua function at the top, which ar is of. */
int fuse_find_known(lua_State *L, const fuse_known *known, lua_Debug *ar);
/* Does the function of that name tell nothing but dtypes and how many dims there are? */
bool fuse_tells_kind(const char *name);
/* Is the function one that may give its argument as another dtype? */
bool fuse_may_cast(const fuse_event *e);
/* The operation by which this one is done. */
tide_op fuse_plain_op(tide_op op, const tide_operand *in);
/* Over the last dims, or the first ones? */
bool fuse_find_dims(fuse_event *e, const tide_reduce_options *o, int ndim);
/* Where S->recorder is set, tells it of an elementwise operation that has been done. */
void fuse_note(lua_State *L, ltide_state *S, tide_op op, const tide_operand *in, const tide_scalar *p,
               const tide_tensor *into);
static inline bool fuse_frees(const ltide_row *row) { return row && !strcmp(row->name, "free"); }
lua_CFunction fuse_tensor_meta(lua_State *L, const ltide_state *S, const char *event);
void fuse_record_begin(fuse_recorder *r);
void fuse_record_end(fuse_recorder *r, lua_State *L); /* once */
/* The tensor there that is alive, or NULL. */
static inline ltide_tensor *fuse_handle_at(const fuse_recorder *r, int index) {
  ltide_tensor *u = ltide_test_handle(r->L, r->S, index);
  return u && u->t ? u : NULL;
}
static inline const char *fuse_name_of(const fuse_call *c) { return c->row ? c->row->name : "a C function"; }
/* A call that is no pure one's has returned; the results are at first .. top. */
void fuse_end_call(fuse_recorder *r, int first, int top);
int16_t fuse_value_of(fuse_recorder *r, int index); /* of the tensor there, or -1 */
int16_t fuse_value_new(fuse_recorder *r, int index, int event);
/* The tensors in the table at index become lightuserdata of their values in a copy, which is pushed. False, and nothing
 * is pushed: it holds what cannot be copied. */
bool fuse_push_template(fuse_recorder *r, int index, int depth, bool *has_values);

/* Makes the steps of what was recorded; the results of the run lie at first .. top. */
void fuse_plan(fuse_recorder *r, const char *name, int first, int top);
void fuse_record_free(fuse_record *p);
/* It is done by the operation's own kernel. */
static inline bool fuse_has_one(const fuse_step *s) {
  int n = 0;
  for (int i = 0; i < s->nodes; i++) n += s->node[i].kind != TIDE_FUSE_INPUT;
  return n == 1;
}
/* Runs the steps; for `return`. base: where slot 0 is. -1: the function itself has to tell what is wrong. */
int fuse_run(lua_State *L, ltide_state *S, fuse_record *p, int refs, int base);
/* Runs one that is a kernel, or what it is made of. */
tide_status fuse_run_kernel(tide_tensor **out, const fuse_step *s, tide_tensor *const *in, tide_tensor *const *into);

/* {==== Following: fuse_follow.c */

/* The numbers of one event. */
typedef struct fuse_numbers {
  tide_scalar number[3], param[3];
} fuse_numbers;

/* Keeps what the function did, if it can be followed. */
void fuse_trace_keep(fuse_recorder *r);
/* Gives the steps the numbers of the record again. */
void fuse_put_back_numbers(lua_State *L, fuse_record *p);
/* Calls the function, of the object at 1, with the arguments at 2 .. top; p is its record of other numbers, the
 * object's table is at top + 1. For `return`; -1: the record does not hold any more. */
int fuse_follow(lua_State *L, ltide_state *S, fuse_function *f, fuse_record *p, int top);
/* Is this call made by a function that is followed? */
bool fuse_is_followed(const lua_State *L, const ltide_state *S);
/* Can it be, and is it worth while with these inputs? */
bool fuse_may_follow(lua_State *L, const ltide_state *S, const fuse_record *p, ltide_tensor *const *handles);
void fuse_open_follow(lua_State *L);

#endif

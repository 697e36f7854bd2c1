/* row.h: the table of functions. A public function of Lua is one row: its name, what is called, its signature and what
 * it does. Rows stand in api/NOUN.def; from them come registration, the reading and checking of arguments (call.c),
 * option keys, usage lines in messages, help(), completion, the stubs and the reference.
 *
 * The signature is written once, as users read it:
 *
 *   (x, dim [, n=1] [, {keepdim=false, norm='ortho' or 'forward', out=}]) -> Tensor, Tensor
 *
 * What stands in brackets may be missing, what stands in braces is given by name. `name...` takes the rest of the
 * arguments, or one table of them. Every parameter but a first one that must be given may be given by name, too. What
 * kind of value a parameter takes follows from its name (parameters.def), or stands behind a colon where that one would
 * mislead: `a:number`; help() leaves it out. `name or nil` may be nil and keeps its place. A method's first parameter
 * is what stands before its colon. */
#ifndef LTIDE_ROW_H
#define LTIDE_ROW_H

#include "args.h"
#include "script.h"
#include "tide_lua.h"

typedef enum ltide_kind {
#define KIND(name, word, expected, type) LTIDE_##name,
#include "call/api/kinds.def"
  LTIDE_KINDS
} ltide_kind;

typedef struct ltide_param {
  const char *name;
  ltide_kind kind;
  bool is_option, is_optional, is_rest; /* is_rest: name... */
  bool takes_nil;                       /* name or nil: it keeps its place */
  bool is_later;                        /* by ltide_opt_options, or when the result is there */
  const char *standard; /* the default as it is written, "" where nothing is said, NULL: it must be given */
  const char *choices;  /* of a CHOICE: each ends with a zero, the last one with two */
  double number;        /* the default */
} ltide_param;

/* A signature, read. Positional parameters come first, then options. */
typedef struct ltide_sig {
  int count, positional;   /* parameters, and how many of them have a place */
  int required, last;      /* how many must be given, and the place of the last of them, from 1 */
  int leading;             /* optional ones before the first required one */
  int outs;                /* tensors that out= takes, 0: there is no such option */
  bool is_open;            /* any number of arguments */
  bool makes;              /* dtype= and device=: it makes tensors, see ltide_opt_options */
  const char *results;     /* "Tensor", or "" */
  const char *const *keys; /* what may be given by name, NULL at the end */
  ltide_param param[];
} ltide_sig;

enum {
  LTIDE_IN_MODULE = 1,
  LTIDE_IN_METHODS = 2,
  LTIDE_IN_BOTH = 3
}; /* where a row is set; methods are those of tensors */

typedef union ltide_core { /* what an adaptor calls, by the name of its shape (core_adapters.c) */
  tide_status (*x)(tide_tensor **, const tide_tensor *);
  tide_status (*x_dim)(tide_tensor **, const tide_tensor *, int);
  tide_status (*x_dim_dim)(tide_tensor **, const tide_tensor *, int, int);
  tide_status (*x_dims)(tide_tensor **, const tide_tensor *, const int *, int);
  tide_status (*x_sizes)(tide_tensor **, const tide_tensor *, const int64_t *, int);
  tide_status (*x_dim_sizes)(tide_tensor **, const tide_tensor *, int, const int64_t *, int);
  tide_status (*x_dtype)(tide_tensor **, const tide_tensor *, tide_dtype);
  tide_status (*x_y)(tide_tensor **, const tide_tensor *, const tide_tensor *);
  tide_status (*x_y_into)(tide_tensor **, const tide_tensor *, const tide_tensor *, tide_tensor *);
  void (*act)(void);
  bool (*is)(void);
  int (*field)(lua_State *L, void *object); /* of a FIELD: pushes it */
} ltide_core;

struct ltide_call;
typedef int (*ltide_body)(lua_State *L, struct ltide_call *c); /* called with the arguments, read; returns as fn does */

typedef struct ltide_row {
  const char *name, *doc; /* doc: the signature with its path, a line end, what the function does */
  const char *path;       /* where it is, if not where the rows around it are */
  const char *same;       /* the name of the row before that it is another name of */
  lua_CFunction fn;       /* finds its row in its first upvalue; ltide_run calls the body */
  ltide_body body;
  lua_CFunction plain; /* a body that reads its arguments itself: how many there are, and the names of options, has been
                          checked */
  const char *script;  /* the function of a chunk that gets the arguments as they are, or as they were read */
  const char *noun;    /* the file of the row: "tensor/api/view.def", or NULL */
  ltide_core core;
  int tag; /* what one function does for several rows */
  int where;
  unsigned needs; /* which of tide_lua_capability: a state that lacks one has neither the name nor the function */
  bool is_class;  /* a callable table: what else the class has is set in it later */
  _Atomic(ltide_sig *) sig; /* read when it is first asked for, and kept */
} ltide_row;

/* One row: name, what is called, the signature behind the name, what it does. A path ends with its joint: "tide.". */
#define FN(f)                                    .fn = f /* reads its arguments itself */
#define DO(f)                                    .fn = ltide_run, .body = f
#define DO_TAG(f, t)                             .fn = ltide_run, .body = f, .tag = t
#define LUA(name)                                .fn = ltide_run_plain, .plain = ltide_run_script, .script = name /* of a chunk */
#define CALLS(name)                              .fn = ltide_run, .body = ltide_call_script, .script = name /* with them, read */
#define CALLS_NAMED(name)                        .fn = ltide_run, .body = ltide_call_named, .script = name
#define GUARDED_CALLS(name)                      .fn = ltide_run_guarded, .body = ltide_call_script, .script = name
#define COMPOSED(name)                           .fn = ltide_run, .body = ltide_call_composed, .script = name
#define WAIT_COMPOSED(name)                      .fn = ltide_run_waiting, .body = ltide_call_composed, .script = name
#define PLAIN(f)                                 .fn = ltide_run_plain, .plain = f
#define WAIT_PLAIN(f)                            .fn = ltide_run_plain_waiting, .plain = f
#define WAIT(f)                                  .fn = ltide_run_waiting, .body = f /* it waits for a device: see ltide_waiting */
#define WAIT_IN_TURN(f)                          .fn = ltide_run_in_turn, .body = f /* see ltide_in_turn */
#define NEW(f)                                   .fn = ltide_run_new, .body = f     /* of a CLASS */
#define NEW_NAMED(name)                          .fn = ltide_run_new, .body = ltide_call_named, .script = name /* likewise */
#define GUARDED(f)                               .fn = ltide_run_guarded, .body = f /* see ltide_guarded */
#define CORE(shape, f)                           .fn = ltide_run, .body = ltide_##shape, .core.shape = f
#define DO_CORE(b, shape, f)                     .fn = ltide_run, .body = b, .core.shape = f
#define FN_TAG(f, b, t)                          .fn = f, .body = b, .tag = t /* f, and ltide_run calls b */
#define FN_CORE(g, shape, f)                     .fn = g, .body = ltide_##shape, .core.shape = f
/* Around the call of a row that not every script is to have. */
#define NEEDS(capability, call)                  call, .needs = TIDE_LUA_##capability
#define NEEDS_BOTH(one, other, call)             call, .needs = TIDE_LUA_##one | TIDE_LUA_##other
#define VALUE(place, prefix, n, signature, text) /* what is no function */                                             \
  {.name = #n, .noun = __FILE__, .path = place, .where = LTIDE_IN_MODULE, .doc = prefix #n signature "\n" text},
#define SAME(n) .same = #n /* the same function under another name, of a row before */
#define SELF    "x"
#define METHOD(n, call, signature, text)                                                                               \
  {.name = #n, .noun = __FILE__, .doc = SELF ":" #n signature "\n" text, .where = LTIDE_IN_METHODS, call},
#define BOTH(n, call, signature, text)                                                                                 \
  {.name = #n, .noun = __FILE__, .doc = SELF ":" #n signature "\n" text, .where = LTIDE_IN_BOTH, call},
#define EITHER(n, call, signature, text) /* both, and help shows the function of the module */                         \
  {.name = #n, .noun = __FILE__, .doc = PATH #n signature "\n" text, .where = LTIDE_IN_BOTH, call},
#define FUNCTION(n, call, signature, text)                                                                             \
  {.name = #n, .noun = __FILE__, .doc = PATH #n signature "\n" text, .where = LTIDE_IN_MODULE, call},
#define OF(object, n, call, signature, text) /* a method of another class, in whose table it is set */                 \
  {.name = #n, .noun = __FILE__, .doc = #object ":" #n signature "\n" text, .where = LTIDE_IN_MODULE, call},
#define FIELD(object, n, f, results, text) /* of another class (class.h) */                                            \
  {.name = #n, .noun = __FILE__, .doc = #object "." #n results "\n" text, .where = LTIDE_IN_MODULE, .core.field = f},
#define CLASS(n, call, signature, text)                                                                                \
  {.name = #n, .noun = __FILE__, .doc = PATH #n signature "\n" text, .where = LTIDE_IN_MODULE, .is_class = true, call},
#define METHOD_OF(object, n, call, signature, text) /* a method of tensors whose tensor has another name */            \
  {.name = #n, .noun = __FILE__, .doc = #object ":" #n signature "\n" text, .where = LTIDE_IN_METHODS, call},

/* Sets the rows, which end with {0}, in the table at the top of the stack, which is `path` ("tide", "tide.cuda",
 * "Generator"), and among the methods of tensors. */
void ltide_register_rows(lua_State *L, const char *path, ltide_row *rows);
/* The same with the module at the top of the stack: the tables of the path are made where they are not there. */
void ltide_register_in(lua_State *L, const char *path, ltide_row *rows);
/* Makes a class: its metatable, closed to scripts, with these functions; the methods of the rows, or NULL, are its
 * __index, or the first upvalue of `index` where that is given. Returns the metatable's address. */
const void *ltide_new_class(lua_State *L, const char *meta, const luaL_Reg *functions, const char *path,
                            ltide_row *methods, lua_CFunction index);
/* Notes rows that are set elsewhere, or are no functions. */
void ltide_note_rows(const char *path, ltide_row *rows);
/* The same functions once more in `table`, which is in the table at the top. */
void ltide_register_also(lua_State *L, const char *table, const ltide_row *rows);

/* For functions made in a loop, values and classes: path.name gets this doc (strings must live for ever). */
void ltide_document(lua_State *L, const char *path, const char *name, const char *doc);

/* Pushes the table of tensor methods. */
void ltide_push_methods(lua_State *L);

/* Has the state of L been granted all of these? */
static inline bool ltide_granted(lua_State *L, unsigned needs) {
  return !needs || !(needs & ~ltide_state_of(L)->granted);
}
/* Raises unless it has; `what` is the function, or the option of one. */
void ltide_need(lua_State *L, unsigned needs, const char *what);
/* Pushes pieces of text; the last one names the capabilities. */
const char *ltide_capability_names(lua_State *L, unsigned needs);
/* Takes the functions that the state has not been granted out of every table that rows were set in. */
void ltide_withhold(lua_State *L);
/* Notes the table at the top as one of those. */
void ltide_note_table(lua_State *L);

/* The row of the running function, or of the function at arg; NULL: it has none. */
const ltide_row *ltide_row_running(lua_State *L);
const ltide_row *ltide_row_at(lua_State *L, int arg);
const ltide_sig *ltide_row_sig_slow(ltide_row *row);
/* The signature; NULL: there is no memory, or the doc does not begin with one. */
static inline const ltide_sig *ltide_row_sig(const ltide_row *row) {
  const ltide_sig *sig = atomic_load_explicit(&((ltide_row *)row)->sig, memory_order_acquire);
  return sig ? sig : ltide_row_sig_slow((ltide_row *)row);
}
/* Pushes the doc, or its first line alone, without the kinds that stand in it. */
const char *ltide_push_doc(lua_State *L, const char *doc, bool first_line);
/* Is the name among the words, which have a blank on either side? */
bool ltide_is_in(const char *words, const char *name);
const char *ltide_kind_type(const ltide_param *p); /* as the stubs write it */
const char *ltide_kind_expected(const ltide_param *p);

/* Visits all rows that have been registered, of all paths, in their order. */
typedef void (*ltide_row_visit)(void *ctx, const char *path, const ltide_row *row);
void ltide_each_row(ltide_row_visit visit, void *ctx);

/* {==== call.c: the arguments of a call, read by its row */

typedef struct ltide_value {
  bool given;
  int at; /* where it lies on the stack */
  int n;  /* of sizes, dims or another list */
  union {
    tide_tensor *tensor;
    tide_generator *generator;
    tide_stream *stream;
    tide_event *event;
    void *object; /* what the handle of a graph or a kernel holds */
    const char *text;
    int64_t i; /* integers, counts, and which of its choices */
    double number;
    bool boolean;
    tide_scalar scalar;
    tide_operand operand;
    int dim, device;
    tide_dtype dtype;
    const int *dims, *devices;
    const int64_t *sizes;
    tide_tensor **tensors; /* of lists, like streams; they live until the call has ended */
    tide_stream **streams; /* TIDE_MAX_DEVICES, NULL for the current one and behind the last one */
  };
} ltide_value;

enum { LTIDE_MOST_PARAMS = 18, LTIDE_LISTS = 4 };

/* Lists lie in the call itself, so it is not to be copied. */
typedef struct ltide_call {
  ltide_state *S;
  const ltide_row *row;
  const ltide_sig *sig;
  tide_tensor *x;    /* the first parameter, or the first of its list, if it is a tensor */
  tide_tensor *into; /* set by ltide_slot */
  int n, opts;       /* positional arguments, and the index of the options or 0 */
  int lists;
  ltide_value v[LTIDE_MOST_PARAMS]; /* in the order of the signature */
  union {
    int64_t sizes[TIDE_MAX_DIMS];
    int dims[TIDE_MAX_DIMS];
  } list[LTIDE_LISTS];
} ltide_call;

/* Binds the state, checks how many arguments there are and the names of options. */
void ltide_call_begin(lua_State *L, ltide_call *c);
/* The same, and reads every parameter into c->v, but for out=, and where the row makes tensors for its dtype=, device=
 * and pin_memory=, which are ltide_opt_options'. */
void ltide_call_read(lua_State *L, ltide_call *c);
int ltide_run(lua_State *L); /* reads, and calls the body of the row */
int ltide_run_plain(lua_State *L);
int ltide_run_script(lua_State *L); /* the plain body of a row whose function is in a chunk */
/* Pushes what was read but out=, as a function of the chunks takes it; returns how many values. */
int ltide_push_read(lua_State *L, const ltide_call *c);
/* The body of one that is called with a value for each parameter, in their order, and then with the rest: devices and
 * their lists as core's numbers, nil for what is not given and has no default. */
int ltide_call_script(lua_State *L, ltide_call *c);
/* The same with all options in one table under their names, for a function of many. */
int ltide_call_named(lua_State *L, ltide_call *c);
int ltide_run_plain_waiting(lua_State *L);
int ltide_run_guarded(lua_State *L); /* scope.c */
int ltide_run_waiting(lua_State *L); /* the same within ltide_waiting */
int ltide_run_in_turn(lua_State *L); /* within ltide_in_turn */
/* The streams of that list, for n devices; NULL: it is not given. */
tide_stream *const *ltide_streams(lua_State *L, const ltide_call *c, const char *name, int n);
int ltide_run_new(lua_State *L); /* of a class, which stands before the arguments */
/* The parameter of that name. */
const ltide_value *ltide_get(lua_State *L, const ltide_call *c, const char *name);

/* There is no result. */
static inline int ltide_done(lua_State *L, tide_status status) { return ltide_try(L, status), 0; }
/* Two integers are the results. */
static inline int ltide_give_pair(lua_State *L, lua_Integer a, lua_Integer b) {
  lua_pushinteger(L, a), lua_pushinteger(L, b);
  return 2;
}
/* The object at 1 is the result. */
static inline int ltide_self(lua_State *L, tide_status status) {
  ltide_try(L, status);
  lua_settop(L, 1);
  return 1;
}

#endif

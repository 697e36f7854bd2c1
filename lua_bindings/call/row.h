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
#pragma once

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

typedef enum ltide_how { LTIDE_AT_ONCE, LTIDE_WAITS, LTIDE_IN_TURN, LTIDE_GUARDED } ltide_how;

typedef union ltide_core { /* what an adaptor calls, by the name of its shape (tensor/results.c) */
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
  const char *name, *doc; /* doc: the signature, a line end, what the function does; ltide_push_doc adds the path */
  const char *path;       /* where it is, if not where the rows around it are */
  const char *same;       /* the name of the row before that it is another name of */
  lua_CFunction fn;       /* finds its row in its first upvalue; ltide_run calls the body, or `plain` */
  lua_CFunction fast;     /* stands in its place, and calls ltide_run where it is not enough; or NULL */
  ltide_body body;
  lua_CFunction plain; /* a body that reads its arguments itself: how many there are, and the names of options, has been
                          checked */
  const char *script;  /* the function of a chunk that gets the arguments as they are, or as they were read */
  const char *noun;    /* the file of the row: "tensor/api/view.def", or NULL */
  ltide_core core;
  const char *shape; /* of core's function, or NULL */
  int tag;           /* what one function does for several rows */
  ltide_how how;     /* ltide_run calls it */
  bool named;        /* a chunk's function gets all options in one table */
  int where;
  unsigned needs; /* which of tide_lua_capability: a state that lacks one has neither the name nor the function */
  bool is_class;  /* a callable table: what else the class has is set in it later; ltide_run drops it */
  _Atomic(ltide_sig *) sig; /* read when it is first asked for, and kept */
} ltide_row;

/* The parameters of each shape of core's functions, a letter each: t a tensor, d a dim, D dims, s sizes, y a dtype, o
 * that it must take out=. A signature that has others is refused when it is read. */
#define LTIDE_SHAPE_x           "t"
#define LTIDE_SHAPE_x_dim       "td"
#define LTIDE_SHAPE_x_dim_dim   "tdd"
#define LTIDE_SHAPE_x_dims      "tD"
#define LTIDE_SHAPE_x_sizes     "ts"
#define LTIDE_SHAPE_x_dim_sizes "tds"
#define LTIDE_SHAPE_x_dtype     "ty"
#define LTIDE_SHAPE_x_y         "tt"
#define LTIDE_SHAPE_x_y_into    "tto"
#define LTIDE_SHAPE_act         ""
#define LTIDE_SHAPE_is          ""

/* One row: name, what is called, the signature behind the name, what it does.
 * What is called is one of eight words: a C function in one of three forms, a chunk's in one of three, a function of
 * core by its shape, or what an earlier row calls. */
#define FN(f)                                    .fn = f /* reads its arguments itself */
#define DO(f)                                    .fn = ltide_run, .body = f
#define PLAIN(f)                                 .fn = ltide_run, .plain = f
#define LUA(name)                                .fn = ltide_run, .plain = ltide_call_plain, .script = name /* with the arguments as they are */
#define CALLS(name)                              .fn = ltide_run, .body = ltide_call_script, .script = name /* with the arguments, read */
#define COMPOSED(name)                           .fn = ltide_run, .body = ltide_call_composed, .script = name /* the same; makes tensors */
#define CORE(form, f)                            .fn = ltide_run, .body = ltide_##form, .core.form = f, .shape = LTIDE_SHAPE_##form
#define SAME(n)                                  .same = #n /* of a row before */
/* Around one of these words: how ltide_run calls it, */
#define WAITS(call)                              call, .how = LTIDE_WAITS   /* it waits for a device: ltide_waiting */
#define IN_TURN(call)                            call, .how = LTIDE_IN_TURN /* see ltide_in_turn */
#define GUARDED(call)                            call, .how = LTIDE_GUARDED /* see ltide_guarded */
#define NAMED(call)                              call, .named = true /* of a chunk: all options are in one table */
/* what it gets to know, what is tried first, and which script may have it. */
#define TAG(t, call)                             call, .tag = t
#define FAST(f, call)                            call, .fast = f /* a C function that calls ltide_run where it is not enough */
#define NEEDS(capability, call)                  call, .needs = TIDE_LUA_##capability
#define NEEDS_BOTH(one, other, call)             call, .needs = TIDE_LUA_##one | TIDE_LUA_##other
#define VALUE(place, prefix, n, signature, text) /* what is no function */                                             \
  {.name = #n, .noun = __FILE__, .path = place, .where = LTIDE_IN_MODULE, .doc = prefix #n signature "\n" text},
#define SELF "x"
#define METHOD(n, call, signature, text)                                                                               \
  {.name = #n, .noun = __FILE__, .doc = SELF ":" #n signature "\n" text, .where = LTIDE_IN_METHODS, call},
#define BOTH(n, call, signature, text)                                                                                 \
  {.name = #n, .noun = __FILE__, .doc = SELF ":" #n signature "\n" text, .where = LTIDE_IN_BOTH, call},
#define EITHER(n, call, signature, text) /* both, and help shows the function of the module */                         \
  {.name = #n, .noun = __FILE__, .doc = #n signature "\n" text, .where = LTIDE_IN_BOTH, call},
#define FUNCTION(n, call, signature, text)                                                                             \
  {.name = #n, .noun = __FILE__, .doc = #n signature "\n" text, .where = LTIDE_IN_MODULE, call},
#define OF(object, n, call, signature, text) /* a method of another class, in whose table it is set */                 \
  {.name = #n, .noun = __FILE__, .doc = #object ":" #n signature "\n" text, .where = LTIDE_IN_MODULE, call},
#define FIELD(object, n, f, results, text) /* of another class (class.h) */                                            \
  {.name = #n, .noun = __FILE__, .doc = #object "." #n results "\n" text, .where = LTIDE_IN_MODULE, .core.field = f},
#define CLASS(n, call, signature, text)                                                                                \
  {.name = #n, .noun = __FILE__, .doc = #n signature "\n" text, .where = LTIDE_IN_MODULE, .is_class = true, call},
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
void ltide_note_rows(lua_State *L, const char *path, ltide_row *rows);
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

/* What Lua calls for the row. */
static inline lua_CFunction ltide_row_fn(const ltide_row *row) { return row->fast ? row->fast : row->fn; }
/* The row of the running function, or of the function at arg; NULL: it has none. */
const ltide_row *ltide_row_running(lua_State *L);
const ltide_row *ltide_row_at(lua_State *L, int arg);
const ltide_sig *ltide_row_sig_slow(ltide_row *row);
/* The signature; NULL: there is no memory, or the doc does not begin with one. */
static inline const ltide_sig *ltide_row_sig(const ltide_row *row) {
  const ltide_sig *sig = atomic_load_explicit(&((ltide_row *)row)->sig, memory_order_acquire);
  return sig ? sig : ltide_row_sig_slow((ltide_row *)row);
}
/* Pushes the doc with its path and without kinds, or its first line alone. */
const char *ltide_push_doc(lua_State *L, const ltide_row *row, bool first_line);
/* Is the name among the words, which have a blank on either side? */
bool ltide_is_in(const char *words, const char *name);
const char *ltide_kind_type(const ltide_param *p); /* as the stubs write it */
const char *ltide_kind_expected(const ltide_param *p);

/* Notes them under their own address, or one under its name: 1; 0: they were noted; -1: there is no memory. */
int ltide_row_note(const char *path, const void *key, ltide_row *rows, int count);
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
int ltide_run(lua_State *L);        /* reads the arguments and calls what the row says */
int ltide_call_plain(lua_State *L); /* LUA */
/* Pushes what was read but out=, as a function of the chunks takes it; returns how many values. */
int ltide_push_read(lua_State *L, const ltide_call *c);
/* The body of one that is called with a value for each parameter, in their order, and then with the rest: devices and
 * their lists as core's numbers, nil for what is not given and has no default. */
int ltide_call_script(lua_State *L, ltide_call *c);
/* The streams of that list, for n devices; NULL: it is not given. */
tide_stream *const *ltide_streams(lua_State *L, const ltide_call *c, const char *name, int n);
/* The parameter of that name. */
const ltide_value *ltide_get(lua_State *L, const ltide_call *c, const char *name);

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

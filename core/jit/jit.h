/* jit.h: what the files of run-time kernels share. Private to them. */
#pragma once

#include "base/own.h"
#include "tensor/tensor.h"
#include "tide/jit.h"

/* ---- parse.c: as much of C++ as a signature needs ---- */

/* A name, a number, a literal, a directive of the preprocessor from its # to its end, or one sign. */
typedef struct tide__token {
  const char *at;
  int length, line;
} tide__token;
typedef struct tide__tokens {
  tide__token *list;
  int count, room;
} tide__tokens;
/* CODE: without literals and directives. */
typedef enum tide__token_kinds { TIDE_TOKENS_CODE, TIDE_TOKENS_ALL, TIDE_TOKENS_DIRECTIVES } tide__token_kinds;
/* The tokens of a text, which ends at `end` or, where that is NULL, with its zero; comments are none. out->list is to
 * be freed where that succeeds. */
tide_status tide__tokenize(tide__tokens *out, const char *code, const char *end, tide__token_kinds kinds,
                           const char *what);
static inline bool tide__token_is(const tide__token *w, const char *text) {
  return (size_t)w->length == strlen(text) && !memcmp(w->at, text, (size_t)w->length);
}
bool tide__token_is_any(const tide__token *w, const char *names); /* between which stand blanks */
/* The index of the bracket that closes the one at `at`, or count. Angle brackets count where they are asked for. */
int tide__closing(const tide__tokens *w, int at, bool angle);
/* Does the directive include a file? *name is that with the sign before it, *length without the one behind it, 0 where
 * only a preprocessor can tell. */
bool tide__parse_include(const tide__token *w, const char **name, size_t *length);

enum { TIDE_JIT_NAME = 64, TIDE_JIT_TYPE = 96, TIDE_JIT_TEMPLATES = 8, TIDE_JIT_KERNELS = 8 };
enum { TIDE_JIT_OPERANDS = 2 * TIDE_JIT_TENSORS };

/* A parameter as it is declared: type "const float *", without name, default and hints such as __restrict__. */
typedef struct tide__parameter {
  char name[TIDE_JIT_NAME], type[TIDE_JIT_TYPE];
} tide__parameter;
typedef struct tide__body {
  size_t begin, end; /* where its brackets stand in the text */
} tide__body;
typedef struct tide__signature {
  char name[TIDE_JIT_NAME], result[TIDE_JIT_TYPE];
  char template_type[TIDE_JIT_NAME]; /* the first type parameter; "" if there is none */
  int templates;                     /* parameters of the template, types or not; 0: it is none */
  char template_name[TIDE_JIT_TEMPLATES][TIDE_JIT_NAME], template_default[TIDE_JIT_TEMPLATES][TIDE_JIT_NAME];
  int params;
  tide__parameter param[TIDE_LAUNCH_PARAMS];
  int line;
  int bodies; /* of all __global__ functions of that name */
  tide__body body[TIDE_JIT_KERNELS];
} tide__signature;

/* The last function template that the code defines. */
tide_status tide__parse_template(tide__signature *out, const char *code, const char *what);
/* The __global__ functions of that name that take different parameters: none, one, or several between which conditions
 * of the preprocessor may choose. The list is the caller's to free. */
tide_status tide__parse_global(tide__signature **out, int *count, const char *code, const char *name, const char *what);
/* Does the code use one of the names, between which stand blanks, outside comments and strings? out: NULL, or the first
 * one. */
bool tide__parse_finds(tide__token *out, const char *code, const char *names);

/* ---- rewrite.c: what a compiler of the host gets ---- */

/* The code with divisions by way of tide_by and `extern __shared__ T s[]` as TIDE_DYNAMIC(T, s), and the bodies of a
 * kernel, where one is given, as ones that run all threads of a block. malloc'ed; NULL without memory, error set. */
char *tide__jit_rewrite(const char *code, const tide__signature *kernel, const char *what);

/* ---- source.c: the text that is compiled ---- */

/* One specialisation of an elementwise function: dtypes[0 .. outputs) of the results, then of the inputs. ndim 0: every
 * operand is contiguous, but for the last `uniform` ones, which are single values. */
typedef struct tide__special {
  int operands, outputs, scalars, ndim, uniform;
  tide_dtype common;
  uint8_t dtype[TIDE_JIT_OPERANDS];
  uint32_t places; /* the operands of a strided one whose addresses are wanted, not what lies there */
  int mail;        /* the scalar that is the addresses of a mailbox, behind what else is told in it; 0: none */
} tide__special;
void tide__jit_layout(tide_layout *out, const tide__special *s);
extern int64_t tide__jit_most_threads; /* of one flat launch; tests lower it */

typedef enum tide__role { TIDE_ROLE_INPUT, TIDE_ROLE_OUTPUT, TIDE_ROLE_SCALAR } tide__role;
typedef struct tide__jit_text {
  const char *code;
  const tide__signature *signature;
  bool by_value;                /* the result is returned */
  const uint8_t *role, *number; /* of each parameter: which it is, counted within its role */
  const char *scalar_kind;      /* of each scalar: 'T' the compute type, 'I' int64, 'B' bool, 'F' double */
} tide__jit_text;
/* malloc'ed; NULL without memory, error set. */
char *tide__jit_source(const tide__jit_text *t, const tide__special *s, const tide_compiler *c);

/* The same around statements of core's own: `before` declares what they call; they find the operands as x0, x1, ...,
 * the arguments in tide_a and the address of a uniform operand k as tide_a.ptr[k]. */
char *tide__jit_around(const char *before, const char *apply, const char *const *scalar_types, const tide__special *s,
                       const tide_compiler *c);
/* Bool and 16-bit floats are converted, all others are computed with as they are. */
static inline bool tide__jit_is_half(int dtype) { return dtype == TIDE_FLOAT16 || dtype == TIDE_BFLOAT16; }
static inline bool tide__jit_is_small(int dtype) { return dtype == TIDE_BOOL || tide__jit_is_half(dtype); }
const char *tide__jit_storage_type(int dtype);
const char *tide__jit_compute_type(tide_dtype dtype);

/* A raw kernel: `call` is how it is named, types[i] is what parameter i is, at offset[i]. */
typedef struct tide__raw_text {
  const char *source, *call;
  const tide__signature *signature; /* for the bodies */
  int params;
  const char (*types)[TIDE_JIT_TYPE];
  const uint16_t *offset;
  bool plain;   /* of a host: the body stays as it is */
  bool checked; /* the compiler says whether the kernel takes these types */
} tide__raw_text;
char *tide__raw_source(const tide__raw_text *t, const tide_compiler *c);

/* ---- types.c: what a parameter of a raw kernel takes ---- */

/* Fills all but the name from the type; false if it is not understood. */
bool tide__param_read(tide_raw_kernel_param *out, const char *type);
/* What an INTEGER can hold; of unsigned 64 bits the lower half. */
void tide__param_range(int64_t *low, int64_t *high, const tide_raw_kernel_param *p);
/* Is the number an int64? */
bool tide__scalar_whole(int64_t *out, const tide_scalar *s);

/* A text that grows; `failed` once there was no memory. */
typedef struct tide__text {
  char *at;
  size_t length, room;
  bool failed;
} tide__text;
void tide__text_add(tide__text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* What was written, malloc'ed; NULL without memory, error set. */
char *tide__text_end(tide__text *t, const char *what);
static inline bool tide__text_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}
/* Does a text of core's own, in which nothing is a comment or a literal, have the word? */
bool tide__text_names(const char *text, const char *word);
bool tide__text_names_any(const char *text, const char *words); /* between which stand blanks */

/* ---- module.c: functions by their text: in memory, on disk, or compiled ---- */

typedef struct tide__jit_request {
  const char *what;   /* of messages: "jiterator: scale (demo.lua:3)" */
  const char *source; /* the text as it is compiled */
  const char *name;   /* the function, or an expression that names it */
  const char *const *options;
  int options_count;
  bool raw;  /* the compiler's raw_options */
  bool ours; /* no text of a user's: it includes nothing of theirs, and what a compiler says of it is shown whole */
} tide__jit_request;
typedef struct tide__function {
  void *handle;
  tide_function_info info;
} tide__function;
/* Where nothing may wait, and a compiler has to run, it does so on another thread and out->handle is NULL: the same
 * call later gives the function. */
tide_status tide__jit_function(tide__function *out, const tide__jit_request *r, const tide_compiler *c, int device);
/* Compilers run elsewhere on this thread while it is set, as they do where waits are refused. */
extern _Thread_local bool tide__jit_elsewhere;
static inline bool tide__jit_set_elsewhere(bool on) {
  bool before = tide__jit_elsewhere;
  tide__jit_elsewhere = on;
  return before;
}
static inline void tide__jit_end_elsewhere(const bool *before) { tide__jit_elsewhere = *before; }
/* Sets it until the block is left, once in a block. */
#define TIDE_ELSEWHERE(on)                                                                                             \
  __attribute__((cleanup(tide__jit_end_elsewhere), unused)) const bool elsewhere_before_ = tide__jit_set_elsewhere(on)
/* The failure of a call whose function is not there yet. */
tide_status tide__jit_pending(const char *what);
/* Neither memory nor disk has it. */
tide_status tide__jit_missing(bool *out, const tide__jit_request *r, const tide_compiler *c, const char *arch,
                              int device);
/* Compiles it, whatever is in memory and on disk. The image is the caller's. */
tide_status tide__jit_compile(tide_image *out, const tide__jit_request *r, const tide_compiler *c, const char *arch);
/* Several texts of ours as one program, whose image all of them get, each with a name of its own in it: for a compiler
 * that joins. Where it fails none has an image. It counts against no quota. */
tide_status tide__jit_compile_joined(tide_image *const *out, const tide__jit_request *const *r, int n,
                                     const tide_compiler *c, const char *arch);
/* Puts it into memory: the image, which it takes unless nobody can tell what it includes, or, with NULL, what is on
 * disk: *missing where nothing is there. */
tide_status tide__jit_bring(bool *missing, tide_image *image, const tide__jit_request *r, const tide_compiler *c,
                            const char *arch, int device);
void tide__jit_module_forked(void); /* in the child */

/* ---- launch.c: the one way to a launch: begin, note each operand, launch ---- */

/* The arguments of a launch. */
typedef struct tide__packed {
  _Alignas(16) char bytes[TIDE_LAUNCH_BYTES];
} tide__packed;
/* The compiler of the device. SUPPORT if it has none. */
tide_status tide__jit_compiler(const tide_compiler **out, const char *what, int device);
/* The device of the first tensor, or `otherwise`. */
int tide__jit_device_of(const tide_operand *args, int n, int otherwise);
/* Refuses or warns of atomic operations where results are to be deterministic; on the CPU blocks run in order then. */
tide_status tide__jit_check_order(bool is_unordered, _Atomic bool *warned, const char *what, int device);
/* stream NULL: the current one. */
static inline tide_status tide__jit_begin(tide__queue *q, int device, tide_stream *stream) {
  TIDE_TRY(tide__queue_begin(q, device));
  if (stream) q->stream = stream;
  if (tide__sync_watched()) tide__observe_operands();
  return TIDE_OK;
}
static inline void tide__jit_operand(const tide_tensor *x, bool write, tide_stream *stream) {
  if (write) tide__storage_overwrite(x->storage);
  tide__storage_use(x->storage, stream);
  if (tide__sync_watched()) tide__observe_operand(x, write);
}
/* Launches the function, noted as every other launch is. Fills in the script's line, and without a->offset one
 * parameter, which is all of a->packed. Kernels over a grid can be stopped (RAW with a mailbox). */
tide_status tide__jit_launch(const tide_compiler *c, void *function, tide__queue *q, tide__launch what, tide_launch *a);

/* A launch that was packed before, with views of its tensors, so that nothing is left to check but whose turn it is
 * with another API's memory. */
typedef struct tide__jit_bound {
  tide_launch launch; /* the arguments are its owner's */
  const tide_compiler *compiler;
  void *function;      /* NULL: there is nothing to do */
  tide_stream *stream; /* retained; NULL: the current one */
  uint32_t epoch;      /* when it was bound */
  bool external;       /* some tensor lies on memory of another API */
  int tensors;
  struct {
    tide_tensor *x; /* a view of our own */
    uint16_t at;    /* of its address in the arguments */
    bool writes;
  } * tensor;
} tide__jit_bound;
/* Adds a view of a tensor, of `most` at most. */
tide_status tide__jit_bound_keep(tide__jit_bound *b, const tide_tensor *x, int at, bool writes, int most);
tide_status tide__jit_bound_check(const tide__jit_bound *b, const char *what, bool is_unordered, _Atomic bool *warned);
tide_status tide__jit_bound_launch(tide__jit_bound *b);
void tide__jit_bound_end(tide__jit_bound *b);

void tide__pending_start(void); /* pending.c: registers with memory */

/* ---- ahead.c: compiling before the call ---- */

typedef enum tide__ahead {
  TIDE_AHEAD_NONE,    /* nobody has begun it, or it is in memory or on disk */
  TIDE_AHEAD_PENDING, /* only without `wait`: it is being compiled or loaded, or will be */
  TIDE_AHEAD_TAKEN,   /* the image is the caller's, and nobody else gets it */
  TIDE_AHEAD_FAILED   /* and the error is set */
} tide__ahead;
typedef enum tide__wish {
  TIDE_WISH_GUESS, /* it may be wanted: it is compiled */
  TIDE_WISH_LOAD,  /* it is wanted, and the disk has it: it is loaded */
  TIDE_WISH_MAKE   /* it is wanted: it is compiled, which counts against the quota, and loaded */
} tide__wish;
/* Begins it: PENDING, also while the threads are stopped, when nothing is begun or counted and a later call has to try
 * again; NONE: no thread does; FAILED. */
tide__ahead tide__jit_ahead(const tide__jit_request *r, const tide_compiler *c, int device, tide__wish wish);
/* Counts the jobs that have ended: who has asked in vain need not ask again before there is another one. */
extern _Atomic uint32_t tide__jit_ended;
tide__ahead tide__jit_ahead_take(tide_image *out, const tide__jit_request *r, const tide_compiler *c, const char *arch,
                                 bool wait);

/* ---- cache.c: files ---- */

/* malloc'ed, with a zero after it; NULL if there is no such file or it cannot be read. What is no file but a pipe is
 * not waited for. */
char *tide__jit_file(const char *path, size_t *size);

typedef struct tide__jit_key {
  uint64_t h[2];
} tide__jit_key;
/* Takes more bytes into the key. */
void tide__jit_hash(tide__jit_key *key, const void *bytes, size_t n);
enum { TIDE_ENTRY_NONE, TIDE_ENTRY_FOUND, TIDE_ENTRY_DAMAGED };
int tide__jit_read(tide_image *out, const tide__jit_key *key);
bool tide__jit_stored(const tide__jit_key *key); /* is there an entry, whole or not? */
bool tide__jit_write(const tide_image *image, const tide__jit_key *key);
/* The version of a compiler, without opening it where a record in the cache still holds. */
tide_status tide__jit_compiler_version(char *out, size_t size, const tide_compiler *c);
bool tide__jit_version_known(const tide_compiler *c); /* is it in memory? Never waits. */
void tide__jit_cache_forked(void);                    /* in the child */
extern _Atomic bool tide__jit_opened;                 /* a compiler has been opened or run */

/* ---- include.c ---- */

/* Takes into the key what the code includes, as the options and the environment say where. False where it cannot be
 * known what that is. */
bool tide__jit_hash_includes(tide__jit_key *key, const char *source, const char *const *options, int n);

/* ---- for the house ---- */

int tide__jit_ahead_pending(void);
void tide__jit_ahead_stop(void);    /* waits for what compiles kernels on threads of its own; it may start again */
void tide__jit_unload(bool of_cpu); /* drops the kernels that were made at run time on accelerators; of_cpu: all */

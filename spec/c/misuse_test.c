/* misuse_test.c: every public function with NULL, wrong enums, negative and huge numbers, alone and in pairs. What a
 * host should not give is an error, never a crash, and an error leaves the results' places as they were.
 *
 * misuse.lua reads the headers and writes the calls. Each function runs in a child with simulated devices, so a crash
 * is one line of the report with the arguments that led to it. A call has good arguments but for one or two; "good"
 * differs by world, so that most functions get past their checks in one of them.
 * With MISUSE_LUA it is the test of tide_lua.h: in states that have opened tide, and others, with and without a frame.
 * usage: misuse_test [FUNCTION] */
#include <dirent.h>
#include <limits.h>
#include <math.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include <tide_headers.inc>
#ifdef MISUSE_LUA
#  include "tide_lua.h"
#  define CALLS <misuse_lua_calls.inc>
#else
#  define CALLS <misuse_calls.inc>
#endif

typedef union value {
  void *p;
  int64_t i;
  double d;
} value;

typedef enum kind {
  PLACE,    /* where a result is written */
  OBJECT,   /* a handle */
  STRUCT,   /* to be read */
  LIST,     /* pointers to handles */
  SIZES,    /* int64_t, to be read */
  INTS,     /* int, to be read */
  TEXT,     /* with an end */
  TEXTS,    /* several */
  MEMORY,   /* whatever else is pointed to */
  FILE_,    /* a FILE */
  FUNCTION, /* a hook */
  ENUM,
  DEVICE,
  COUNT,
  LENGTH, /* a count that has to be right */
  SHORT,  /* a number of bytes that has to be right */
  NUMBER,
  INDEX, /* of a value on Lua's stack */
  BYTES,
  BOOL,
  DOUBLE,
  SCALAR
} kind;
enum { FIELD_POINTER, FIELD_REAL, FIELD_TRUTH, FIELD_INTEGER, FIELD_ENUM, FIELD_COUNT, FIELD_SIZE };
typedef struct field {
  const char *name;
  int kind;
  size_t offset, size;
} field;
typedef struct layout {
  const char *name;
  size_t size;
  int count;
  const field *fields;
} layout;
typedef struct parameter {
  const char *name;
  kind kind;
  const char *type;
  const layout *layout;
  bool optional; /* NULL, or a negative number, has a meaning */
} parameter;
typedef struct row {
  const char *name;
  int (*call)(value *v);
  bool status;
  int count;
  parameter parameters[12];
} row;

static inline tide_scalar scalar_of(int64_t i) {
  tide_scalar s = i == 1 ? tide_float(1) : i == 0 ? tide_int(1) : tide_float(NAN);
  if (i == 2) s.kind = 'Q';
  return s;
}
#include CALLS

/* ---- worlds: what good arguments are ---- */

enum { WRONGS = 12, WORLDS = 7, MOST = 64, PLACE_BYTES = 8192 };
static const struct {
  int ndim;
  int64_t size[4];
  tide_dtype dtype;
  int device;
} worlds[WORLDS] = {{2, {2, 2}, TIDE_FLOAT32, TIDE_CPU},   {1, {3}, TIDE_FLOAT32, TIDE_CPU},
                    {2, {2, 2}, TIDE_COMPLEX64, TIDE_CPU}, {2, {2, 2}, TIDE_INT64, TIDE_CPU},
                    {1, {1}, TIDE_UINT8, TIDE_CPU},        {4, {1, 1, 4, 4}, TIDE_FLOAT32, TIDE_CPU},
                    {2, {2, 2}, TIDE_FLOAT32, 0}};
static int world;

static const char code[] = "template <typename T> T f(T x) { return x; }";
static int no_op(void) { return 0; }

static tide_tensor *tensor_of(tide_dtype dtype) {
  tide_tensor *x = NULL;
  const tide_options o = {.dtype = dtype, .device = worlds[world].device};
  OK(tide_full(&x, worlds[world].size, worlds[world].ndim, tide_int(0), &o));
  return x;
}

static tide_tensor *tensor_named(const char *name) {
  if (strstr(name, "index") || strstr(name, "indic") || !strcmp(name, "counts") || !strcmp(name, "sorter"))
    return tensor_of(TIDE_INT64);
  return tensor_of(!strcmp(name, "mask") ? TIDE_BOOL : worlds[world].dtype);
}

static char folder[] = "/tmp/tide_misuseXXXXXX";
static const char *path_of(const char *name) {
  static char path[sizeof folder + 300];
  snprintf(path, sizeof path, "%s/%.255s", folder, name);
  return path;
}

static void *archive_new(void) {
  tide_archive *archive = NULL;
  const char *name = "x";
  tide_tensor *x = tensor_of(TIDE_FLOAT32);
  const tide_archive_content content = {.count = 1, .name = &name, .tensor = &x};
  OK(tide_archive_save(TIDE_NPZ, path_of("a.npz"), &content));
  OK(tide_archive_open(&archive, TIDE_NPZ, path_of("a.npz"), 0));
  return archive;
}

static void *fused_new(void) {
  tide_fused *fused = NULL;
  const tide_fuse_node nodes[2] = {{.kind = TIDE_FUSE_INPUT, .dtype = TIDE_FLOAT32, .ndim = 2, .param = -1},
                                   {.kind = TIDE_FUSE_OP, .op = TIDE_OP_neg, .in = {0}, .param = -1}};
  const int output = 1;
  OK(tide_fused_new(&fused, "f", nodes, 2, &output, 1, NULL, 0));
  return fused;
}

static void *values_new(void) {
  static FILE *file;
  tide_values *values = NULL;
  if (!file) file = tmpfile();
  const tide_values_config config = {.what = "test", .file = file, .name = "test"};
  OK(tide_values_write(&values, &config));
  return values;
}

static void *mapping_new(void) {
  tide_mapping *mapping = NULL;
  FILE *file = fopen(path_of("m"), "w+");
  fputs("12345678", file);
  fflush(file);
  OK(tide_mapping_new(&mapping, file));
  fclose(file);
  return mapping;
}

static const tide_raw_kernel_text kernel_text = {
    sizeof kernel_text, "__global__ void k(float *x) {}", "k", NULL, 0, NULL, 0};
static const tide_kernel_text program_text = {.struct_size = sizeof program_text,
                                              .name = "p",
                                              .device = "",
                                              .host = "",
                                              .ndim = 1,
                                              .block = {1},
                                              .host_block = {1}};
static void *kernel_new(void) {
  tide_raw_kernel *kernel = NULL;
  tide_raw_kernel_new(&kernel, &kernel_text); /* NULL where there is no compiler */
  return kernel;
}

#ifdef MISUSE_LUA
/* A tensor, a function and three arguments. */
static void *lua_new(void) {
  lua_State *L = luaL_newstate();
  const tide_frame_options frame = {sizeof frame, 1000, 0, TIDE_FRAME_WAIT_RAISES, 0};
  tide_lua_options o = tide_lua_defaults();
  o.open = luaopen_tide;
  luaL_openlibs(L);
  if (world % 2 == 0) {
    CHECK(tide_lua_open(L, &o) == LUA_OK);
    CHECK(tide_lua_push_tensor(L, tensor_of(TIDE_FLOAT32)));
  }
  if (world == 2) CHECK(tide_frame_begin(L, &frame));
  CHECK(luaL_loadstring(L, "return ...") == LUA_OK);
  for (int i = 0; i < 3; i++) lua_pushinteger(L, i);
  return L;
}
#endif

#define MADE(type, call)                                                                                               \
  if (!strcmp(name, #type)) {                                                                                          \
    type *made = NULL;                                                                                                 \
    OK(call);                                                                                                          \
    return made;                                                                                                       \
  }
/* A good one, or NULL where none can be made here. */
static void *object_of(const char *name, const char *parameter_name) {
  int device = worlds[world].device < 0 ? 0 : worlds[world].device;
  if (!strcmp(name, "tide_tensor")) return !strcmp(parameter_name, "into") ? NULL : tensor_named(parameter_name);
#ifdef MISUSE_LUA
  if (!strcmp(name, "lua_State")) return lua_new();
  if (!strcmp(name, "tide_lua_api")) return (void *)(uintptr_t)tide_lua_get(lua_new());
#endif
  if (!strcmp(name, "tide_storage")) return tide_tensor_storage(tensor_of(TIDE_FLOAT32));
  if (!strcmp(name, "tide_current")) return tide_current_new(NULL);
  if (!strcmp(name, "tide_archive")) return archive_new();
  if (!strcmp(name, "tide_fused")) return fused_new();
  if (!strcmp(name, "tide_fuse_kernel")) return NULL; /* those that have run are only lent */
  MADE(tide_fuse, tide_fuse_new(&made, "f"))
  if (!strcmp(name, "tide_values")) return values_new();
  if (!strcmp(name, "tide_mapping")) return mapping_new();
  if (!strcmp(name, "tide_raw_kernel")) return kernel_new();
  MADE(tide_kernel, tide_kernel_new(&made, &program_text))
  MADE(tide_stream, tide_stream_new(&made, device, 0))
  MADE(tide_event, tide_event_new(&made, 0))
  MADE(tide_generator, tide_generator_new(&made, worlds[world].device))
  MADE(tide_quota, tide_quota_new(&made))
  MADE(tide_graph, tide_graph_new(&made, false))
  MADE(tide_mempool, tide_mempool_new(&made, device))
  MADE(tide_allocation_scope, tide_allocation_scope_new(&made, "scope", NULL))
  MADE(tide_file, tide_file_new(&made, "test", path_of("f")))
  MADE(tide_memory_snapshot, tide_memory_snapshot_new(&made, 0, 0))
  MADE(tide_jit, tide_jit_new(&made, code, NULL, NULL, 0, 0))
  MADE(tide_allocator, tide_allocator_wrap(&made, (tide_alloc_fn)(void *)no_op, (tide_free_fn)(void *)no_op))
  if (!strcmp(name, "tide_loader")) {
    tide_loader *loader = NULL;
    tide_stream *kept = NULL;
    OK(tide_loader_new(&loader, &kept, TIDE_CPU, 0, false));
    return loader;
  }
  if (!strcmp(name, "tide_profile")) {
    tide_profile *profile = NULL;
    OK(tide_profile_begin("test", 0));
    OK(tide_profile_end(&profile));
    return profile;
  }
  return NULL;
}

/* Of each kind one a world, but for what a call may use up. */
static void *object_for(const row *r, const parameter *p) {
  static struct {
    const char *type, *name;
    void *object;
    int world;
  } kept[MOST];
  static const char *const ends[] = {"lua", "frame", "release", "free", "finish", "close", "drop", "give"};
  for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
    if (strstr(r->name, ends[i])) return object_of(p->type, p->name);
  int i = 0;
  while (i < MOST - 1 && kept[i].type &&
         (kept[i].world != world || strcmp(kept[i].type, p->type) || strcmp(kept[i].name, p->name)))
    i++;
  if (!kept[i].type) {
    kept[i].type = p->type, kept[i].name = p->name, kept[i].world = world;
    kept[i].object = object_of(p->type, p->name);
  }
  return kept[i].object;
}

/* ---- structs that are read ---- */

static char *set_field(char *at, const layout *l, const char *name, int64_t number) {
  for (int i = 0; i < l->count; i++)
    if (!strcmp(l->fields[i].name, name)) memcpy(at + l->fields[i].offset, &number, l->fields[i].size);
  return at;
}

static void *struct_of(const layout *l) {
  char *at = calloc(MOST, l->size);
  static int64_t unit[4] = {1, 1, 1, 1};
  set_field(at, l, "struct_size", (int64_t)l->size);
  if (!strcmp(l->name, "tide_options"))
    set_field(set_field(at, l, "dtype", worlds[world].dtype), l, "device", worlds[world].device);
  if (!strcmp(l->name, "tide_reduce_options")) set_field(at, l, "dtype", TIDE_DTYPE_NONE);
  if (!strcmp(l->name, "tide_external_memory")) set_field(at, l, "fd", -1);
  if (!strcmp(l->name, "tide_operand"))
    for (int k = 0; k < 3; k++) ((tide_operand *)(void *)at)[k].tensor = tensor_of(worlds[world].dtype);
  if (!strcmp(l->name, "tide_fuse_node")) set_field(at, l, "param", -1);
  if (!strcmp(l->name, "tide_kernel_text")) *(tide_kernel_text *)(void *)at = program_text;
  if (!strcmp(l->name, "tide_raw_kernel_text")) *(tide_raw_kernel_text *)(void *)at = kernel_text;
  if (!strcmp(l->name, "tide_values_config")) set_field(at, l, "what", (int64_t)(intptr_t) "test");
  for (int i = 0; i < l->count; i++)
    if (!strcmp(l->fields[i].name, "kernel") || !strcmp(l->fields[i].name, "stride") ||
        !strcmp(l->fields[i].name, "dilation"))
      memcpy(at + l->fields[i].offset, unit, l->fields[i].kind == FIELD_INTEGER ? l->fields[i].size : 0);
  set_field(at, l, "groups", 1);
  return at;
}

/* One field that is wrong. */
enum { FIELD_WAYS = 4 };
static void *struct_with(const layout *l, int which, int way) {
  const field *f = &l->fields[which];
  char *at = struct_of(l), *to = at + f->offset;
  static const int64_t integers[FIELD_WAYS] = {-2, INT64_MAX, INT64_MIN, -3};
  static const double reals[FIELD_WAYS] = {-1, (double)INFINITY, (double)NAN, 1e300};
  if (f->kind == FIELD_POINTER) {
    memset(to, 0, f->size);
  } else if (f->kind == FIELD_REAL) {
    memcpy(to, &reals[way], sizeof reals[way]);
  } else if (f->kind >= FIELD_INTEGER) {
    size_t unit = f->size % 8 ? f->size % 4 ? 1 : 4 : 8;
    int32_t narrow = integers[way] == INT64_MAX   ? INT32_MAX
                     : integers[way] == INT64_MIN ? INT32_MIN
                                                  : (int32_t)integers[way];
    for (size_t i = 0; i < f->size; i += unit) memcpy(to + i, unit == 8 ? (const void *)&integers[way] : &narrow, unit);
  }
  return at;
}

/* ---- the ways of an argument: 0 is good, the others are not, or border on it ---- */

static const int64_t numbers[] = {1, 0, -1, INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN};
static const int counts[] = {1, 0, -1, -3, INT32_MIN, INT32_MAX};
static const double doubles[] = {0.5, -1, 0, 1e300};
enum { N_NUMBERS = sizeof numbers / sizeof *numbers, N_COUNTS = 6 };

static int ways(const parameter *p) {
  switch (p->kind) {
  case STRUCT: return 2 + FIELD_WAYS * p->layout->count;
  case SIZES: return 5;
  case INTS: return 4;
  case LIST: return 3;
  case TEXT: return 3;
  case ENUM: return 5;
  case DEVICE: return 6;
  case COUNT: return N_COUNTS;
  case LENGTH: return N_COUNTS - 1;
  case NUMBER: return N_NUMBERS;
  case BYTES: return 3;
  case INDEX: return 4;
  case DOUBLE: return 5;
  case SCALAR: return 4;
  default: return 2;
  }
}

static const int64_t wrong_device[] = {0, -4, TIDE_MAX_DEVICES, INT32_MAX, INT32_MIN, TIDE_CURRENT};

static int64_t enum_good(const row *r, const parameter *p) {
  if (!strcmp(p->type, "tide_dtype")) return worlds[world].dtype;
  if (!strcmp(r->name, "tide_binary") || !strcmp(r->name, "tide_result_dtype")) return TIDE_OP_mul;
  if (!strcmp(p->type, "tide_op")) return TIDE_OP_neg;
  if (!strcmp(p->type, "tide_reduction")) return strstr(r->name, "index") ? TIDE_MAX : TIDE_SUM;
  return !strcmp(r->name, "tide_scan_index") ? TIDE_SCAN_CUMMAX : 0;
}

static void *numbers_of(size_t each, int64_t good, int64_t other) {
  char *list = calloc(MOST, 8);
  for (int i = 0; i < MOST; i++) {
    int64_t n =
        good == INT64_MIN ? (each == 8 && i < 4 ? (i < worlds[world].ndim ? worlds[world].size[i] : 1) : i) : other;
    memcpy(list + (size_t)i * each, &n, each);
  }
  return list;
}

static const char *text_of(const char *name) {
  return strstr(name, "path") ? path_of("made") : !strcmp(name, "code") ? code : "x";
}

static char place[12][PLACE_BYTES] __attribute__((aligned(64))), untouched[PLACE_BYTES];
static char memory[1 << 16] __attribute__((aligned(64)));

static value make(const row *r, const parameter *p, int k, int way) {
  value v = {.p = NULL};
  switch (p->kind) {
  case PLACE:
    memset(place[k], !strcmp(p->name, "kept") || !strcmp(p->type, "tide_process") ? 0 : 0xA5, PLACE_BYTES);
    v.p = way ? NULL : place[k];
    break;
  case OBJECT: v.p = way ? NULL : object_for(r, p); break;
  case STRUCT:
    v.p = way == 0   ? struct_of(p->layout)
          : way == 1 ? NULL
                     : struct_with(p->layout, (way - 2) / FIELD_WAYS, (way - 2) % FIELD_WAYS);
    break;
  case LIST:
    if (way != 1) {
      void **list = calloc(MOST, sizeof *list);
      for (int i = 0; way == 0 && i < 4; i++) list[i] = object_for(r, p);
      v.p = list;
    }
    break;
  case SIZES:
    if (way != 1) v.p = numbers_of(8, way == 0 ? INT64_MIN : 0, way == 2 ? -7 : way == 3 ? INT64_MAX : INT64_MIN);
    break;
  case INTS:
    if (way != 1) v.p = numbers_of(4, way == 0 ? INT64_MIN : 0, way == 2 ? INT32_MAX : INT32_MIN);
    break;
  case TEXT: v.p = (void *)(way == 0 ? text_of(p->name) : way == 1 ? NULL : ""); break;
  case TEXTS: {
    static const char *texts[MOST] = {"x", "y", "z", "w"};
    v.p = way ? NULL : texts;
    break;
  }
  case MEMORY: v.p = way ? NULL : memory; break;
  case FILE_: v.p = way ? NULL : tmpfile(); break;
  case FUNCTION: v.p = way ? NULL : (void *)no_op; break;
  case ENUM:
    v.i = way == 0 ? enum_good(r, p) : way == 1 ? -2 : way == 2 ? 250 : way == 3 ? INT32_MAX : INT32_MIN;
    break;
  case DEVICE: v.i = way == 0 ? worlds[world].device : wrong_device[way]; break;
  case COUNT:
  case LENGTH: v.i = way ? counts[way] : !strcmp(p->name, "rank") && world == 5 ? 2 : worlds[world].ndim; break;
  case SHORT: v.i = way; break;
  case INDEX: v.i = (const int[]){1, -1, 2, 99}[way]; break;
  case NUMBER: v.i = way == 0 ? (strstr(p->name, "dim") ? 0 : 1) : numbers[way]; break;
  case BYTES: v.i = way == 0 ? 64 : way == 1 ? 0 : -1; break;
  case DOUBLE: v.d = way == 4 ? (double)NAN : doubles[way]; break;
  case SCALAR:
  case BOOL: v.i = way; break;
  }
  return v;
}

/* Is the field an enum out of its range, a negative count, a size that no struct has? */
static bool is_wrong_field(const layout *l, int which, int way) {
  int of = l->fields[which].kind;
  return of == FIELD_ENUM || of == FIELD_SIZE || (of == FIELD_COUNT && way != 1);
}

/* Must the call fail because of this argument? */
static bool is_wrong(const row *r, const parameter *p, int way, bool empty) {
  if (way == 0 || !r->status) return false;
  if (p->kind == STRUCT && way > 1) return is_wrong_field(p->layout, (way - 2) / FIELD_WAYS, (way - 2) % FIELD_WAYS);
  if (p->optional) return false;
  switch (p->kind) {
  case PLACE:
  case OBJECT:
  case STRUCT:
  case TEXT: return way == 1;
  case LIST:
  case TEXTS: return way == 1 && !empty;
  case SIZES:
  case INTS: return way == 1 && !empty;
  case FUNCTION: return way == 1;
  case ENUM: return true;
  case DEVICE: return way != 5;
  case COUNT: return way >= 2 && way <= 4;
  default: return false;
  }
}

/* ---- one call ---- */

typedef struct report {
  int64_t call, ok; /* the call that is under way; how many gave OK */
  int way[12];
  int world;
} report;
static report *shared;

static void describe(const row *r) {
  printf("  %s(", r->name);
  for (int k = 0; k < r->count; k++) {
    const parameter *p = &r->parameters[k];
    int way = shared->way[k];
    printf("%s%s%s", k ? ", " : "", p->name, way ? "=" : "");
    if (p->kind == STRUCT && way > 1)
      printf("{%s %d}", p->layout->fields[(way - 2) / FIELD_WAYS].name, (way - 2) % FIELD_WAYS);
    else if (way && (p->kind == PLACE || p->kind == OBJECT || (p->kind <= FUNCTION && way == 1)))
      printf("NULL");
    else if (way)
      printf("way %d", way);
  }
  printf(") world %d", shared->world);
}

static void one(const row *r, const int *way) {
  value v[12];
  bool wrong = false, empty = false;
  memcpy(shared->way, way, sizeof shared->way);
  for (int k = 0; k < r->count; k++) empty |= r->parameters[k].kind == COUNT && way[k] == 1;
  for (int k = 0; k < r->count; k++) {
    v[k] = make(r, &r->parameters[k], k, way[k]);
    wrong |= is_wrong(r, &r->parameters[k], way[k], empty);
  }
  int status = r->call(v);
  if (!r->status) return;
  shared->ok += status == TIDE_OK;
  if (status == TIDE_OK && wrong) {
    describe(r);
    printf(": gave OK\n");
    failures++;
  }
  for (int k = 0; k < r->count && status != TIDE_OK; k++)
    if (r->parameters[k].kind == PLACE && way[k] == 0 && strcmp(r->parameters[k].name, "kept") &&
        strcmp(r->parameters[k].type, "tide_process") && memcmp(place[k], untouched, PLACE_BYTES)) {
      describe(r);
      printf(": %s was written, with status %d: %s\n", r->parameters[k].name, status, tide_error_get()->message);
      failures++;
    }
}

/* The calls with one or two arguments that are not good, from number `first` on. */
static void all_of(const row *r, int64_t first) {
  int64_t number = 0;
  for (world = 0; world < WORLDS; world++) {
    shared->world = world;
    for (int a = 0; a < r->count; a++)
      for (int i = 0; i < ways(&r->parameters[a]); i++)
        for (int b = a; b < r->count; b++)
          for (int j = b == a ? 0 : 1; j < (b == a ? 1 : ways(&r->parameters[b])); j++) {
            if ((i == 0 && b != a) || (i == 0 && a > 0)) continue;
            int way[12] = {0};
            way[a] = i;
            if (b != a) way[b] = j;
            shared->call = ++number;
            if (number > first && failures < WRONGS) one(r, way);
          }
  }
}

static void start(void) {
  setenv("TIDE_SIM_DEVICES", "2", 1);
  setenv("TIDE_SIM_CLOCK", "virtual", 1);
  setenv("TIDE_KERNEL_CACHE", folder, 1);
  OK(tide_init(NULL));
  tide_quota *quota;
  OK(tide_quota_new(&quota));
  tide_quota_limit(quota, TIDE_QUOTA_HOST_BYTES, 64 << 20);
  tide_quota_limit(quota, TIDE_QUOTA_DEVICE_BYTES, 64 << 20);
  tide_current *current = tide_current_new(NULL);
  tide_current_set_quota(current, quota);
  tide_current_bind(current);
  memset(untouched, 0xA5, sizeof untouched);
}

enum { CRASHES = 8, SECONDS = 120 };
static void run(const row *r) {
  int64_t first = 0;
  int crashes = 0;
  shared->ok = 0;
  for (;;) {
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
      failures = 0;
      if (!getenv("MISUSE_TRACE") && !freopen("/dev/null", "w", stderr)) _exit(2);
      alarm(SECONDS);
      start();
      all_of(r, first);
      fflush(stdout);
      _exit(failures != 0);
    }
    int status = 0;
    if (pid < 0 || waitpid(pid, &status, 0) != pid) exit(2);
    if (WIFEXITED(status) && WEXITSTATUS(status) <= 1) {
      failures += WEXITSTATUS(status);
      break;
    }
    describe(r);
    printf(": ended by %s %d\n", WIFSIGNALED(status) ? "signal" : "status",
           WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    failures++;
    first = shared->call;
    if (++crashes == CRASHES || (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)) break;
  }
  if (getenv("MISUSE_SHOW") && r->status && !shared->ok) printf("never OK: %s\n", r->name);
}

/* An operation with fewer or more operands than it has. */
static void operands(void) {
  start();
  for (world = 0; world < WORLDS; world++)
    for (int op = 0; op < TIDE_OP_COUNT; op++) {
      tide_tensor *out = NULL, *x = tensor_of(worlds[world].dtype);
      if (tide_op_get((tide_op)op)->operands != 1) CHECK(tide_unary(&out, (tide_op)op, x, NULL) != TIDE_OK && !out);
      if (tide_op_get((tide_op)op)->operands != 2) CHECK(tide_binary(&out, (tide_op)op, x, x, NULL) != TIDE_OK && !out);
      tide_tensor_release(x);
    }
  world = 0;
  tide_shutdown();
}

static void remove_folder(void) {
  DIR *list = opendir(folder);
  for (struct dirent *e; list && (e = readdir(list));)
    if (e->d_name[0] != '.') unlink(path_of(e->d_name));
  if (list) closedir(list);
  rmdir(folder);
}

int main(int argc, char **argv) {
  shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED || !mkdtemp(folder)) return 2;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (argc < 2 || !strcmp(argv[1], rows[i].name)) run(&rows[i]);
  if (argc < 2) operands();
  remove_folder();
  printf("misuse_test: %zu functions, %d of them wrong\n", sizeof rows / sizeof *rows, failures);
  return failures != 0;
}

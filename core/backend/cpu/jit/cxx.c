/* cxx.c: kernels of the CPU from text, by the C++ compiler of the system, and launches of all that is made at run time.
 *
 * The compiler is a program: it is started with a file in a folder of its own and gives a shared library, whose bytes
 * are the image.
 *
 * Kernels are called as kernel(arguments, grid and block sizes, first block, one past the last block, hooks) and give
 * 0, or why a raw kernel has not ended. Blocks are shared by the threads of the pool; between some of them, but not
 * within one, an interruption is heeded.
 *
 * Invariant: nothing of a compilation is left on disk, whatever its end. */
#include "blocks.h"
#include "fiber.h"
#include "base/determinism.h"
#include "base/own.h"
#include "base/quota.h"

#include <errno.h>
#include <limits.h>

#include "os/file.h"
#include "os/os.h"
#include "os/process.h"

#include "cxx_kernel.inc"

/* ---- running the compiler ---- */

/* Looks for a program as a shell would. */
static bool find_program(char *path, size_t size, const char *name) {
  if (strchr(name, '/')) return snprintf(path, size, "%s", name) < (int)size && !tide__os_access(path, TIDE_OS_RUN);
  return tide__os_program(path, size, NULL, name);
}

static tide_status find_compiler(char *path, size_t size) {
  static const char *const names[] = {"c++", "g++", "clang++"};
  const char *own = getenv("TIDE_CXX");
  if (own && *own) {
    if (find_program(path, size, own)) return TIDE_OK;
    return tide__fail(TIDE_LIBRARY, "jit: the C++ compiler was not found, got TIDE_CXX=%s, expected a program", own);
  }
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (find_program(path, size, names[i])) return TIDE_OK;
  return tide__fail(TIDE_LIBRARY,
                    "jit: no C++ compiler was found, got none of c++, g++ and clang++ on PATH, expected one to be "
                    "installed (g++ or clang), or TIDE_CXX to name it");
}

/* What one text may take, more than any that is sensible needs. */
enum { COMPILE_SECONDS = 60, COMPILE_MEBIBYTES = 4096, INTERRUPTED = -2 };

/* Runs argv with its output in the file; the exit code, -1, or INTERRUPTED: by the host or a quota of the caller's. */
static int run(char *const *argv, const char *output) {
  pid_t pid;
  int status = 0, leash, waited = 0;
  bool is_cut = false;
  tide__os_end end;
  if (tide__os_start_leashed(&pid, &leash, argv[0], argv, output, COMPILE_SECONDS, COMPILE_MEBIBYTES)) return -1;
  while ((end = tide__os_ended(&status, pid, false)) == TIDE_OS_RUNS) {
    if (!is_cut && tide__interrupt_asked()) tide__os_leash_cut(leash), is_cut = true;
    tide__os_sleep(waited++ < 100 ? 2e-4 : 2e-3);
  }
  if (!is_cut) tide__os_leash_cut(leash);
  if (is_cut) return INTERRUPTED;
  if (end == TIDE_OS_LOST) return 0; /* a host that ignores its children: the file will tell */
  return tide__os_exit_code(status);
}

/* ---- a folder for one compilation ---- */

typedef struct workshop {
  char folder[PATH_MAX - 32], source[PATH_MAX], library[PATH_MAX], log[PATH_MAX];
} workshop;

static tide_status workshop_open(workshop *w) {
  int error = tide__os_folder_temporary(w->folder, sizeof w->folder, "tide-jit");
  if (error)
    return tide__fail(TIDE_FILE, "jit: no folder for the compiler, got %s: %s, expected TMPDIR to be writable",
                      w->folder, strerror(error));
  snprintf(w->source, sizeof w->source, "%s/k.cpp", w->folder);
  snprintf(w->library, sizeof w->library, "%s/k.so", w->folder);
  snprintf(w->log, sizeof w->log, "%s/log", w->folder);
  return TIDE_OK;
}

/* Headers of CUDA whose contents the text has already. */
static const char *const headers[] = {
    "cuda_fp16.h",   "cuda_bf16.h", "cuda_runtime.h", "cuda_runtime_api.h", "device_launch_parameters.h",
    "vector_types.h"};
enum { HEADERS = sizeof headers / sizeof *headers };

static bool header_path(char *path, const workshop *w, int i) {
  return snprintf(path, PATH_MAX, "%s/%s", w->folder, headers[i]) < PATH_MAX;
}

static void workshop_close(const workshop *w) {
  char path[PATH_MAX];
  for (int i = 0; i < HEADERS; i++)
    if (header_path(path, w, i)) remove(path);
  remove(w->source), remove(w->library), remove(w->log);
  tide__os_folder_remove(w->folder);
}

/* malloc'ed, with a zero after it. */
static char *slurp(const char *path, size_t *size) {
  FILE *f = fopen(path, "rb");
  tide__os_about s;
  char *text = NULL;
  if (f && tide__os_look_at(&s, fileno(f)) == 0) text = malloc((size_t)s.bytes + 1);
  if (text) {
    *size = fread(text, 1, (size_t)s.bytes, f);
    text[*size] = 0;
  }
  if (f) fclose(f);
  return text;
}

static bool spit(const char *path, const char *text) {
  FILE *f = fopen(path, "wb");
  if (!f) return false;
  bool good = fputs(text, f) >= 0;
  return fclose(f) == 0 && good;
}

static bool put_headers(const workshop *w) {
  char path[PATH_MAX];
  bool good = true;
  for (int i = 0; i < HEADERS && good; i++) good = header_path(path, w, i) && spit(path, "#pragma once\n");
  return good;
}

/* The compiler has failed. A program that it had started may have met a limit. */
static tide_status fail(char **log, int code, const char *path, const workshop *w) {
  size_t size;
  if (code == INTERRUPTED) return tide__quota_interrupted("jit");
  *log = slurp(w->log, &size);
  bool is_late = code > 128 || (*log && (strstr(*log, "CPU time limit") || strstr(*log, "Killed")));
  bool is_large = *log && (strstr(*log, "out of memory") || strstr(*log, "memory exhausted"));
  if (!is_late && !is_large) return tide__fail(TIDE_LIBRARY, "jit: %s failed and said nothing", path);
  free(*log);
  *log = NULL;
  return tide__fail(TIDE_VALUE, "jit: the code is too costly to compile, expected at most %d s and %d MiB: shorten it",
                    (int)COMPILE_SECONDS, (int)COMPILE_MEBIBYTES);
}

/* ---- the slots ---- */

static tide_status identify(char *path, size_t path_size, char *version, size_t version_size) {
  workshop w;
  TIDE_TRY(find_compiler(path, path_size));
  TIDE_TRY(workshop_open(&w));
  char *argv[] = {path, "--version", NULL};
  size_t size = 0;
  TIDE_FREED char *text = run(argv, w.log) == 0 ? slurp(w.log, &size) : NULL;
  workshop_close(&w);
  if (!text || !size) return tide__fail(TIDE_LIBRARY, "jit: %s does not run, expected a C++ compiler", path);
  snprintf(version, version_size, "%.*s", (int)strcspn(text, "\n"), text);
  return TIDE_OK;
}

/* Code for the instructions that this machine has beyond the common ones; without fused operations, so that the values
 * are the same everywhere. AVX-512 only where its newer parts are there too: older processors slow down for it. */
static tide_status arch(char *text, size_t size, int device) {
#if defined(__x86_64__)
  const bool avx2 = __builtin_cpu_supports("avx2");
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512vbmi2") && __builtin_cpu_supports("avx512vl") &&
                      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq");
  snprintf(text, size, "%s", avx512 ? "x86-64 avx512" : avx2 ? "x86-64 avx2" : "x86-64");
#elif defined(__aarch64__)
  snprintf(text, size, "aarch64");
#else
  snprintf(text, size, "generic");
#endif
  return TIDE_OK;
}

enum { ARGUMENTS = 56, OWN_ARGUMENTS = 12 };
static const char *const avx512[] = {"-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl",
                                     "-mprefer-vector-width=512"};

/* GCC 12 takes products and the differences and sums of them, by turns, together in spite of -ffp-contract=off, where
 * AVX-512 has an instruction for that: vfmaddsub and vfmsubadd. Does code seem to have one? */
static bool has_fused(const unsigned char *at, size_t n) {
  for (size_t i = 0; i + 5 <= n; i++) {
    bool vex = at[i] == 0xC4 && (at[i + 1] & 31) == 2 && (at[i + 2] & 3) == 1;
    bool evex = at[i] == 0x62 && (at[i + 1] & 15) == 2 && (at[i + 2] & 7) == 5;
    int op = at[i + (evex ? 4 : 3)];
    if ((vex || evex) && (op & 14) == 6 && op >> 4 >= 9 && op >> 4 <= 11) return true;
  }
  return false;
}

static tide_status compile(tide_image *out, char **log, const char *source, const char *const *options, int n,
                           const char *arch) {
  char path[PATH_MAX];
  workshop w;
  char *argv[ARGUMENTS];
  int k = 0, code, common;
  TIDE_TRY(find_compiler(path, sizeof path));
  TIDE_TRY(workshop_open(&w));
  argv[k++] = path, argv[k++] = "-I", argv[k++] = w.folder;
  for (int i = 0; i < n && k < ARGUMENTS - OWN_ARGUMENTS; i++) argv[k++] = (char *)(uintptr_t)options[i];
  if (strstr(arch, "avx2")) argv[k++] = "-mavx2";
  argv[k++] = "-o", argv[k++] = w.library, argv[k++] = w.source, common = k;
  for (size_t i = 0; strstr(arch, "avx512") && i < sizeof avx512 / sizeof *avx512; i++) argv[k++] = (char *)avx512[i];
  argv[k] = NULL;
  tide_status status = TIDE_OK;
  if (!put_headers(&w) || !spit(w.source, source))
    status = tide__fail(TIDE_FILE, "jit: %s cannot be written: %s", w.source, strerror(errno));
  else if ((code = run(argv, w.log)) != 0)
    status = fail(log, code, path, &w);
  else if (!(out->bytes = slurp(w.library, &out->size)))
    status = tide__fail(TIDE_LIBRARY, "jit: %s made no library", path);
  else if (k > common && has_fused(out->bytes, out->size)) {
    size_t size;
    argv[common] = NULL; /* again, without AVX-512; code that names its instructions stays as it is */
    char *bytes = run(argv, w.log) == 0 ? slurp(w.library, &size) : NULL;
    if (bytes) free(out->bytes), out->bytes = bytes, out->size = size;
  }
  workshop_close(&w);
  return status;
}

static tide_status load(void **module, const void *image, size_t bytes, int device) {
  *module = tide__os_code(image, bytes);
  if (*module) return TIDE_OK;
  if (errno) return tide__fail(TIDE_FILE, "jit: no memory file for a kernel: %s", strerror(errno));
  return tide__fail(TIDE_LIBRARY, "jit: a kernel cannot be loaded: %s", tide__os_library_problem());
}

static void unload(void *module, int device) { tide__os_code_close(module); }

static tide_status function(void **out, tide_function_info *info, void *module, const char *name, int device) {
  *info = (tide_function_info){.max_threads = 1024};
  *out = tide__os_symbol(module, name);
  return *out ? TIDE_OK : tide__fail(TIDE_LIBRARY, "jit: the kernel %s is not in its library", name);
}

/* What a raw kernel finds on the thread that runs it (tide_hooks of cxx_kernel.cxx). */
typedef struct hooks {
  void *self;   /* the first argument of the functions */
  char *shared; /* memory whose size the launch says */
  int (*block)(void *hooks, unsigned n, void (*body)(const void *packed, unsigned i), const void *packed);
  void (*wait)(void *hooks);
  unsigned (*vote)(void *hooks, int yes, unsigned *voters);
  void (*leave)(void *hooks);
  bool (*stops)(void *hooks);
  tide__fibers *stacks; /* NULL until a block of threads that wait begins */
} hooks;

typedef int (*kernel_fn)(const void *packed, const uint32_t *dims, long long begin, long long end, const hooks *h);

enum { FAILED = TIDE__CXX_FAILED, NO_MEMORY = TIDE__CXX_NO_MEMORY };

typedef struct job {
  kernel_fn kernel;
  const tide__blocks *code; /* instead of a kernel */
  const tide_launch *launch;
  uint32_t dims[6];
  _Atomic int problem;
} job;

static int run_block(void *arg, unsigned n, void (*body)(const void *packed, unsigned i), const void *packed) {
  hooks *h = arg;
  if (!h->stacks && !(h->stacks = tide__fibers_get(n))) return NO_MEMORY;
  return tide__fibers_run(h->stacks, n, body, packed) ? 0 : 1;
}

static void wait_in(void *arg) { tide__fibers_wait(((hooks *)arg)->stacks); }
static void leave_in(void *arg) { tide__fibers_leave(((hooks *)arg)->stacks); }
static bool stops_in(void *arg) { return (void)arg, tide__loop_stops(); }
static unsigned vote_in(void *arg, int yes, unsigned *voters) {
  return tide__fibers_vote(((hooks *)arg)->stacks, yes != 0, voters);
}

/* What one thread of the pool has been given, from block `first` on. */
typedef struct part {
  const job *job;
  const hooks *hooks;
  int64_t first;
  int problem;
} part;

static void run_blocks(void *arg, int64_t begin, int64_t end) {
  part *p = arg;
  if (p->problem) return;
  p->problem = p->job->kernel(p->job->launch->packed, p->job->dims, p->first + begin, p->first + end, p->hooks);
}

/* The same of an interpreted program. */
static void interpret(void *arg, int64_t begin, int64_t end) {
  job *j = arg;
  int problem = tide__blocks_run(j->code, j->launch->packed, begin, end);
  if (problem) atomic_store(&j->problem, problem);
}

/* A kernel that says more shared memory than its launch is wrong, but is not to end the process. */
enum { LEAST_SHARED = 48 << 10 };

static void work(void *arg, int64_t begin, int64_t end) {
  job *j = arg;
  hooks h = {.block = run_block, .wait = wait_in, .vote = vote_in, .leave = leave_in, .stops = stops_in};
  int problem = 0;
  h.self = &h;
  if (!j->launch->elementwise) {
    size_t bytes = j->launch->shared > LEAST_SHARED ? j->launch->shared : LEAST_SHARED;
    h.shared = tide__os_aligned(128, bytes);
    if (!h.shared) problem = NO_MEMORY;
  }
  tide__os_divides(true);
  part p = {j, &h, begin, problem};
  tide__serial_for(end - begin, 1, run_blocks, &p); /* a block may take long */
  problem = p.problem;
  tide__os_divides(false);
  tide__fibers_put(h.stacks);
  tide__os_aligned_free(h.shared);
  if (problem) atomic_store(&j->problem, problem);
}

/* Blocks of one launch are cut so that a part is worth waking a thread for. */
static int64_t grain_of(const tide_launch *a) {
  if (a->interpreted || a->mail) return 1; /* a kernel written in Lua says itself what is worth it */
  if (a->elementwise) return 4;
  int64_t threads = (int64_t)a->block[0] * a->block[1] * a->block[2];
  return threads < 1024 ? 1024 / threads : 1;
}

tide_status tide__cxx_run(void *function, const tide_launch *a, tide_mail *mail) {
  uint32_t taken = 0;
  void *const place[2] = {&taken, mail};
  if (a->mail) memcpy((char *)a->packed + a->mail, place, sizeof place);
  job j = {.launch = a, .dims = {a->grid[0], a->grid[1], a->grid[2], a->block[0], a->block[1], a->block[2]}};
  if (a->interpreted)
    j.code = function;
  else
    memcpy(&j.kernel, &function, sizeof function);
  int64_t blocks = (int64_t)a->grid[0] * a->grid[1] * a->grid[2];
  if (blocks > 1 && (a->elementwise || !tide__deterministic()))
    tide__parallel_for(blocks, grain_of(a), a->interpreted ? interpret : work, &j);
  else
    tide__serial_for(blocks, grain_of(a), a->interpreted ? interpret : work, &j);
  int problem = atomic_load(&j.problem);
  if (!problem) return TIDE_OK;
  if (problem == NO_MEMORY) return tide__fail(TIDE_MEMORY, "launch: no host memory for the threads of a block");
  return tide__fail(TIDE_VALUE, "launch: an assertion in the kernel failed; what it was went to stderr");
}

static tide_status launch(tide_stream *stream, void *function, const tide_launch *a) {
  tide_mail mail = {0};
  TIDE_TRY(tide__cxx_run(function, a, &mail));
  if (mail.base == TIDE__MAIL_STOPPED) mail.value = tide__loops_ms();
  return mail.full ? tide__fail_index(TIDE_CPU, mail.site, mail.value, mail.length, mail.base) : TIDE_OK;
}

/* On the calling thread, whose host may interrupt it. */
static tide_status watched_launch(tide_stream *stream, void *function, const tide_launch *a) {
  tide__loops_begin();
  if (a->mail && tide__quota_any()) tide__loops_limit();
  return tide__loops_end(launch(stream, function, a));
}

const tide_image_loader tide__cpu_loader = {
    .arch = arch, .load = load, .unload = unload, .function = function, .launch = watched_launch};

const tide_compiler tide__cpu_compiler = {
    .name = "c++",
    .variable = "TIDE_CXX",
    .text = &(const tide_dialect){TEXT_prelude, TEXT_small, TEXT_complex, TEXT_dims, TEXT_flat, TEXT_strided, TEXT_raw,
                                  .threads = 1024},
    .host = true,
    .options = "-std=c++17 -O3 -fPIC -shared -w -fwrapv -ffp-contract=off -fno-trapping-math -fno-math-errno",
    .raw_options = "-std=c++17 -O3 -fPIC -shared -w -fvisibility=hidden -fwrapv -ffp-contract=off -fno-trapping-math "
                   "-fno-math-errno "
                   "-fno-threadsafe-statics", /* an assertion leaves the kernel past what would let go of a guard */
    .identify = identify,
    .compile = compile,
    .loader = &tide__cpu_loader,
    .interpreter = &(const tide_interpreter){tide__cpu_fused, tide__blocks_new, tide__blocks_free},
};

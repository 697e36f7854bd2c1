/* nvrtc.c: CUDA C++ to machine code by NVRTC, which is opened at the first compilation.
 *
 * Nothing here needs a driver or a GPU. Code is made for the architecture that is asked for; where NVRTC is older than
 * the GPU and does not know it, PTX for the newest one that it knows is made instead, which the driver translates. A
 * source that includes something is shown the toolkit's headers, if there is a toolkit; our own text includes nothing,
 * because reading headers takes longer than all the rest.
 *
 * What a compilation costs is mostly its fixed parts: reading NVRTC's own header, linking CUDA's mathematics, and the
 * start of the assembler. The header is left out of kernels that core writes (TEXT_bare) where the version is one
 * whose functions are known to the compiler itself; code that needs more of it fails within a few milliseconds, and is
 * then compiled with it.
 *
 * Invariant: after nvrtc_open the table does not change. */
#include "jit.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "nvrtc_kernel.inc"

static tide__nvrtc nvrtc;

static pthread_once_t nvrtc_once = PTHREAD_ONCE_INIT;
static char nvrtc_problem[512], nvrtc_path[1024];
static int nvrtc_version; /* 1205: 12.5 */

/* A compilation takes and frees 10 MB. The C library would give them back to the system each time, and 1500 page faults
 * are a sixth of the time; what it keeps follows the largest block that it has seen freed. */
static void keep_heap(void) {
  void *volatile block = malloc((size_t)16 << 20);
  free(block);
}

/* What a thread has not used yet comes in 2200 page faults at its first compilation, unless the system may give it in
 * large pages: so it is told, of a block that the C library keeps for this thread when it is freed. */
static void grow_heap(void) {
  static _Thread_local bool grown;
  size_t size = (size_t)15 << 20, page = 4096; /* less than what it would take from the system alone */
  char *volatile block = grown ? NULL : malloc(size);
  grown = true;
  if (block) madvise(block + (-(uintptr_t)block & (page - 1)), size - page, MADV_HUGEPAGE);
  free(block);
}

static void nvrtc_open(void) {
  if (!tide__library_open(&nvrtc, TIDE__LIBRARY_nvrtc, nvrtc_problem, sizeof nvrtc_problem)) return;
  keep_heap();
  int major = 0, minor = 0, rc = nvrtc.version(&major, &minor);
  if (rc) snprintf(nvrtc_problem, sizeof nvrtc_problem, "NVRTC tells no version: %s", nvrtc.error_string(rc));
  nvrtc_version = 100 * major + minor;
  Dl_info info;
  void *address;
  memcpy(&address, &nvrtc.version, sizeof address);
  if (address && dladdr(address, &info) && info.dli_fname)
    snprintf(nvrtc_path, sizeof nvrtc_path, "%s", info.dli_fname);
}

static tide_status nvrtc_ready(void) {
  pthread_once(&nvrtc_once, nvrtc_open);
  return nvrtc_problem[0] ? tide__cuda_host->fail(TIDE_LIBRARY, "jit: %s", nvrtc_problem) : TIDE_OK;
}

/* NVRTC tells no patch level: the size of its file stands for it. */
tide_status tide__nvrtc_identify(char *path, size_t path_size, char *version, size_t version_size) {
  struct stat s = {0};
  TIDE_TRY(nvrtc_ready());
  if (stat(nvrtc_path, &s)) s.st_size = 0;
  snprintf(path, path_size, "%s", nvrtc_path);
  snprintf(version, version_size, "nvrtc %d.%d %lld", nvrtc_version / 100, nvrtc_version % 100, (long long)s.st_size);
  return TIDE_OK;
}

/* ---- options ---- */

enum { OPTIONS = 48, ARCHS = 64 };

typedef struct choice {
  const char *list[OPTIONS];
  int count;
  char arch[64], include[256];
  bool ptx;
} choice;

/* "sm_90" if NVRTC knows it; else PTX of the newest that it knows and that the GPU can run. */
static void choose_arch(choice *c, const char *arch) {
  int known[ARCHS], n = 0, wanted = atoi(arch + 3), best = 0;
  if (nvrtc.archs_count(&n) || n > ARCHS || nvrtc.archs(known)) n = 0;
  for (int i = 0; i < n; i++)
    if (known[i] <= wanted && known[i] > best) best = known[i];
  c->ptx = best && best != wanted;
  snprintf(c->arch, sizeof c->arch, "--gpu-architecture=%s_%d", c->ptx ? "compute" : "sm", best ? best : wanted);
}

static void choose_include(choice *c, const char *source) {
  static const char *const variables[] = {"CUDA_HOME", "CUDA_PATH"};
  char folder[200] = "/usr/local/cuda/include";
  for (int i = 0; i < 2; i++) {
    const char *home = getenv(variables[i]);
    char found[200];
    if (home && *home && snprintf(found, sizeof found, "%s/include", home) < (int)sizeof found &&
        !access(found, R_OK)) {
      memcpy(folder, found, sizeof folder);
      break;
    }
  }
  if (!strstr(source, "#include") || access(folder, R_OK)) return;
  snprintf(c->include, sizeof c->include, "-I%s", folder);
  c->list[c->count++] = c->include;
}

/* Kernels that core writes, whose names are no expressions. */
static bool is_plain_name(const char *name) {
  return !strcmp(name, "tide_kernel") || !strncmp(name, TIDE_JOINED, sizeof TIDE_JOINED - 1);
}

/* What the assertions say holds. They are a fifteenth of the time that NVRTC lets one thread alone have. */
static _Atomic bool asserted;

/* Without NVRTC's header: its functions are the compiler's own since version 13, as our text asserts for some. NULL:
 * it cannot be, or there is no memory. malloc'ed. */
static char *bare_text(const char *source, const char *name) {
  bool can = is_plain_name(name) && !strstr(source, "#include") && nvrtc_version >= 1300;
  const char *asserts = atomic_load(&asserted) ? "" : TEXT_asserts;
  size_t size = strlen(TEXT_bare) + strlen(asserts) + strlen(source) + 1;
  char *text = can ? malloc(size) : NULL;
  if (text) snprintf(text, size, "%s%s%s", TEXT_bare, asserts, source);
  return text;
}

/* ---- compiling ---- */

static tide_status nvrtc_fail(const char *what, int rc) {
  return tide__cuda_host->fail(TIDE_LIBRARY, "jit: NVRTC failed at %s: %s", what, nvrtc.error_string(rc));
}

static char *log_of(void *program) {
  size_t size = 0;
  if (nvrtc.log_size(program, &size) || !size) return NULL;
  char *log = malloc(size + 1);
  if (log && nvrtc.log(program, log)) log[0] = 0;
  if (log) log[size] = 0;
  return log;
}

static tide_status take_image(tide_image *out, void *program, bool ptx, const char *name) {
  const char *lowered = name;
  int rc = !is_plain_name(name) ? nvrtc.lowered(program, name, &lowered) : 0;
  if (rc) return nvrtc_fail("the kernel's name", rc);
  rc = ptx ? nvrtc.ptx_size(program, &out->size) : nvrtc.cubin_size(program, &out->size);
  if (rc) return nvrtc_fail("the size of the code", rc);
  out->bytes = malloc(out->size);
  if (!out->bytes) return tide__cuda_host->fail(TIDE_MEMORY, "jit: no host memory for %zu bytes of code", out->size);
  rc = ptx ? nvrtc.ptx(program, out->bytes) : nvrtc.cubin(program, out->bytes);
  if (rc) {
    free(out->bytes);
    out->bytes = NULL;
    return nvrtc_fail("the code", rc);
  }
  char kept[sizeof out->name]; /* `name` may be out->name itself */
  snprintf(kept, sizeof kept, "%s", lowered);
  memcpy(out->name, kept, sizeof kept);
  return TIDE_OK;
}

static tide_status compile(tide_image *out, char **log, const char *source, const choice *c) {
  void *program = NULL;
  int rc = nvrtc.create(&program, source, "tide", 0, NULL, NULL);
  if (rc) return nvrtc_fail("the start", rc);
  if (!is_plain_name(out->name)) rc = nvrtc.expression(program, out->name);
  tide_status status = rc ? nvrtc_fail("the kernel's name", rc) : TIDE_OK;
  if (!rc && (rc = nvrtc.compile(program, c->count, c->list))) {
    status = nvrtc_fail("compiling", rc);
    if (log) *log = log_of(program);
  }
  if (status == TIDE_OK) status = take_image(out, program, c->ptx, out->name);
  nvrtc.destroy(&program);
  return status;
}

tide_status tide__nvrtc_compile(tide_image *out, char **log, const char *source, const char *const *options, int n,
                                const char *arch) {
  choice c = {.count = 0};
  TIDE_TRY(nvrtc_ready());
  grow_heap();
  choose_arch(&c, arch);
  c.list[c.count++] = c.arch;
  choose_include(&c, source);
  for (int i = 0; i < n && c.count < OPTIONS - 2; i++)
    if (strcmp(options[i], "--minimal") != 0 || nvrtc_version >= 1205) /* it leaves out what no kernel of ours uses */
      c.list[c.count++] = options[i];
  char *bare = bare_text(source, out->name);
  if (bare) {
    c.list[c.count++] = "-D__CUDA_RUNTIME_H__";
    tide_status status = compile(out, NULL, bare, &c);
    free(bare);
    if (status == TIDE_OK) {
      atomic_store(&asserted, true);
      return TIDE_OK;
    }
    c.count--;
  }
  return compile(out, log, source, &c);
}

/* posix.c: the operating system where it is Linux, macOS or another POSIX system.
 *
 * What only some of them have is asked for by its macro; where it is missing the answer is as os.h says. */
#ifndef _WIN32
#  include "os.h"

#  include <dlfcn.h>
#  include <errno.h>
#  include <limits.h>
#  include <sched.h>
#  include <stdio.h>
#  include <string.h>
#  include <sys/mman.h>
#  include <unistd.h>

#  ifdef __linux__
#    include <netinet/in.h>
#    include <netinet/tcp.h>
#    include <sys/random.h>
#    include <sys/socket.h>
#    include <sys/syscall.h>
#  endif
#  ifdef __APPLE__
#    include <mach-o/dyld.h>
#  endif

/* ---- time ---- */

void tide__os_wait_until(pthread_cond_t *condition, pthread_mutex_t *mutex, const struct timespec *then) {
#  ifdef __APPLE__
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  int64_t left = (then->tv_sec - now.tv_sec) * (int64_t)1000000000 + then->tv_nsec - now.tv_nsec;
  struct timespec wait = {left > 0 ? left / 1000000000 : 0, left > 0 ? left % 1000000000 : 0};
  pthread_cond_timedwait_relative_np(condition, mutex, &wait);
#  else
  pthread_cond_clockwait(condition, mutex, CLOCK_MONOTONIC, then);
#  endif
}

/* ---- the machine ---- */

int tide__os_processors(bool usable) {
  long n = sysconf(_SC_NPROCESSORS_ONLN);
#  ifdef CPU_COUNT
  cpu_set_t set;
  if (usable) n = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
#  endif
  return n < 1 ? 1 : n > INT_MAX ? INT_MAX : (int)n;
}

bool tide__os_may_use(int processor) {
#  ifdef CPU_COUNT
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return processor < CPU_SETSIZE && CPU_ISSET((size_t)processor, &set);
#  endif
  return processor < tide__os_processors(false);
}

void tide__os_memory(size_t *unused, size_t *total) {
  long page = sysconf(_SC_PAGESIZE), pages = sysconf(_SC_PHYS_PAGES), left = 0;
#  ifdef _SC_AVPHYS_PAGES
  left = sysconf(_SC_AVPHYS_PAGES);
#  endif
  *total = pages > 0 ? (size_t)pages * (size_t)page : 0;
  *unused = left > 0 ? (size_t)left * (size_t)page : 0;
}

int64_t tide__os_cache(int level) {
  long bytes = 0;
#  ifdef _SC_LEVEL3_CACHE_SIZE
  bytes = sysconf(level == 2 ? _SC_LEVEL2_CACHE_SIZE : _SC_LEVEL3_CACHE_SIZE);
#  endif
  return bytes < 0 ? 0 : bytes;
}

bool tide__os_random(void *out, size_t bytes) {
#  ifdef __linux__
  ssize_t got;
  do { got = getrandom(out, bytes, 0); } while (got < 0 && errno == EINTR);
  return got == (ssize_t)bytes;
#  else
  arc4random_buf(out, bytes);
  return true;
#  endif
}

/* ---- pages ---- */

#  ifndef MAP_NORESERVE
#    define MAP_NORESERVE 0
#  endif
static const size_t huge_page = (size_t)2 << 20;

void tide__os_huge(void *at, size_t bytes) {
#  ifdef MADV_HUGEPAGE
  madvise(at, bytes, MADV_HUGEPAGE);
#  else
#  endif
}

void *tide__os_map(size_t bytes, size_t align) {
  char *p = mmap(NULL, bytes + align, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) return NULL;
  if (!align) return p;
  size_t before = (align - (uintptr_t)p % align) % align;
  if (before) munmap(p, before);
  if (align > before) munmap(p + before + bytes, align - before);
  if (align >= huge_page) tide__os_huge(p + before, bytes / huge_page * huge_page);
  return p + before;
}

void *tide__os_reserve(size_t bytes) {
  void *p = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return p == MAP_FAILED ? NULL : p;
}

bool tide__os_back(void *at, size_t bytes) { return mprotect(at, bytes, PROT_READ | PROT_WRITE) == 0; }

void tide__os_unback(void *at, size_t bytes) {
  madvise(at, bytes, MADV_DONTNEED);
  mprotect(at, bytes, PROT_NONE);
}

void tide__os_unmap(void *at, size_t bytes) { munmap(at, bytes); }

/* ---- processors ---- */

#  if defined(__linux__) && defined(SYS_membarrier) && !defined(__SANITIZE_THREAD__)
enum { EXPEDITED = 1 << 3, REGISTER_EXPEDITED = 1 << 4 }; /* of linux/membarrier.h */
bool tide__os_barrier_prepare(void) { return syscall(SYS_membarrier, REGISTER_EXPEDITED, 0, 0) == 0; }

/* A child of fork may have to register again. */
void tide__os_barrier(void) {
  while (syscall(SYS_membarrier, EXPEDITED, 0, 0) != 0 && (!tide__os_barrier_prepare() || errno == EINTR)) usleep(1000);
}
#  else
bool tide__os_barrier_prepare(void) { return false; }
void tide__os_barrier(void) {}
#  endif

/* ---- code ---- */

void *tide__os_library(const char *path, bool now) { return dlopen(path, (now ? RTLD_NOW : RTLD_LAZY) | RTLD_LOCAL); }
void *tide__os_library_loaded(const char *name) { return dlopen(name, RTLD_LAZY | RTLD_NOLOAD); }
void *tide__os_symbol(void *library, const char *name) { return dlsym(library, name); }
void tide__os_library_close(void *library) { dlclose(library); }

const char *tide__os_library_problem(void) {
  const char *why = dlerror();
  return why ? why : "no reason given";
}

static bool program(char *out, size_t size) {
#  ifdef __APPLE__
  char path[PATH_MAX], whole[PATH_MAX];
  uint32_t room = sizeof path;
  if (_NSGetExecutablePath(path, &room) || !realpath(path, whole)) return false;
  return (size_t)snprintf(out, size, "%s", whole) < size;
#  else
  ssize_t n = readlink("/proc/self/exe", out, size);
  if (n <= 0 || (size_t)n >= size) return false;
  out[n] = 0;
  return true;
#  endif
}

/* The loader names the program as it was called, which says little once the folder has changed. */
bool tide__os_file_of(char *out, size_t size, const void *code) {
  Dl_info info;
  char path[PATH_MAX];
  if (!code || !dladdr(code, &info) || !info.dli_fname || !strchr(info.dli_fname, '/')) return program(out, size);
#  ifdef __GLIBC__
  if (!strcmp(info.dli_fname, program_invocation_name)) return program(out, size);
#  endif
  return realpath(info.dli_fname, path) && (size_t)snprintf(out, size, "%s", path) < size;
}

/* ---- the network ---- */

bool tide__os_is_unanswered(void) {
#  ifdef __linux__
  for (int fd = 0; fd < 1024; fd++) {
    struct tcp_info info;
    socklen_t size = sizeof info;
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size)) continue;
    bool is_lost = info.tcpi_unacked && info.tcpi_retransmits > 3; /* sent for the fifth time */
    if (is_lost || info.tcpi_probes > 3) return true;              /* as this machine's link is down */
  }
#  endif
  return false;
}
#endif
